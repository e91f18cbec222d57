package silf.jpop.ga;

import java.io.Serializable;
import java.util.random.RandomGenerator;

/**
 * How one is made of one.
 *
 * @param <G> an individual
 */
@FunctionalInterface
public interface Mutation<G> extends Serializable {
    /** Another individual, or the same where nothing happens to it. */
    G mutate(G individual, RandomGenerator random);
}
