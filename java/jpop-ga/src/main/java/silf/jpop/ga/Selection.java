package silf.jpop.ga;

import java.io.Serializable;
import java.util.random.RandomGenerator;

/** Who has children. */
@FunctionalInterface
public interface Selection extends Serializable {
    /**
     * One of the population.
     *
     * @param costs of all, ascending
     * @return its index
     */
    int pick(double[] costs, RandomGenerator random);

    /** The best of so many drawn at random. A class and not a lambda: Jojo's messages take classes of yours, not what lambdas become. */
    record Tournament(int of) implements Selection {
        @Override
        public int pick(double[] costs, RandomGenerator random) {
            int best = costs.length - 1;
            for (int i = 0; i < of; i++) {
                best = Math.min(best, random.nextInt(costs.length));
            }
            return best;
        }
    }
}
