package silf.jpop.ga;

/**
 * What was bred.
 *
 * @param <G> an individual
 * @param best of all islands
 * @param generations bred, by all islands together, as far as those that were lost had told
 * @param faults nodes that were lost on the way
 */
public record Outcome<G>(G best, double cost, long generations, long faults) {}
