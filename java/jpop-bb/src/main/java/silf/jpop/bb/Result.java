package silf.jpop.bb;

/**
 * What a search found, proven: every subproblem was looked at, or ruled out by a bound.
 *
 * @param <S> a state
 * @param found whether there is a solution at all
 * @param value of the best solution; 0 if there is none
 * @param solution the first of the best in order of a search in depth; null if there is none
 * @param position where it is: which child was taken at each level
 * @param expanded states that were branched on, by all nodes, as far as those that were lost had told
 * @param faults nodes that were lost on the way
 * @param took_ns from the client's first look at the problem to the proof; without the start of nodes
 */
public record Result<S>(boolean found, long value, S solution, String position, long expanded, long faults, long took_ns) {}
