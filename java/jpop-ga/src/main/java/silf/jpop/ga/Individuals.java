package silf.jpop.ga;

import java.io.ByteArrayOutputStream;
import java.io.Serializable;
import java.util.random.RandomGenerator;
import silf.jpop.Damaged;
import silf.jpop.Numbers;

/**
 * What is bred: how one is made at random, and what it costs. An individual is not changed after it was made.
 *
 * @param <G> an individual
 */
public interface Individuals<G> extends Serializable {
    G random(RandomGenerator random);

    /** The less the better; not NaN. The same whenever it is asked. */
    double cost(G individual);

    /** As bytes, for islands elsewhere and for checkpoints. */
    void write(ByteArrayOutputStream out, G individual);

    G read(Numbers in) throws Damaged;

    /** How one is shown to a person. */
    default String show(G individual) {
        return String.valueOf(individual);
    }
}
