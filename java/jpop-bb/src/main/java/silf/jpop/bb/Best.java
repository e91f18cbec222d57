package silf.jpop.bb;

/**
 * The best solution known: its cost (smaller is better) and where it is. Of solutions of the same cost the first by position is
 * the best, so that the result does not depend on who found which one first (spec/jpop B2).
 */
record Best(long cost, Position at) {
    /** Whether this surpasses the other, which may be null. */
    boolean surpasses(Best other) {
        return other == null || cost < other.cost || cost == other.cost && at.compareTo(other.at) < 0;
    }

    /** Whether nothing at or below a subproblem surpasses this: then it need not be looked at. */
    boolean rulesOut(Open<?> open) {
        return open.bound > cost || open.bound == cost && at.compareTo(open.at) <= 0;
    }
}
