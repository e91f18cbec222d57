package silf.jpop.ga;

import java.io.Serializable;
import java.util.random.RandomGenerator;

/**
 * How one is made of two.
 *
 * @param <G> an individual
 */
@FunctionalInterface
public interface Crossover<G> extends Serializable {
    /** Another individual; neither parent is changed. */
    G cross(G one, G other, RandomGenerator random);
}
