package silf.jpop.ga;

import java.io.Serializable;

/**
 * What is to be bred, and how.
 *
 * @param <G> an individual
 * @param population on each island
 * @param elite the best so many go on into the next generation as they are
 * @param generations that each island breeds, at most
 * @param target all ends when one costs no more than this
 * @param seed on one island the whole run follows from it
 * @param every so many generations an island sends its best to another; seldomer where the way there is long
 */
public record Evolution<G>(
        Individuals<G> individuals,
        Crossover<G> crossover,
        Mutation<G> mutation,
        Selection selection,
        int population,
        int elite,
        long generations,
        double target,
        long seed,
        int every)
        implements Serializable {
    private static final long serialVersionUID = 1;
    /** An island's state is sent and kept whole. */
    static final int POPULATION_MOST = 1 << 16;

    public Evolution {
        if (population < 2 || population > POPULATION_MOST) {
            throw new IllegalArgumentException("a population of " + population + ", which is not from 2 to " + POPULATION_MOST);
        }
        if (elite < 0 || elite >= population) {
            throw new IllegalArgumentException("an elite of " + elite + " of " + population);
        }
        if (generations < 0 || every < 1 || Double.isNaN(target)) {
            throw new IllegalArgumentException(generations + " generations, target " + target + ", every " + every);
        }
    }

    /** With the usual for all that is not named: 100 a population, two of them elite, tournaments of three. */
    public static <G> Evolution<G> of(Individuals<G> individuals, Crossover<G> crossover, Mutation<G> mutation) {
        return new Evolution<>(individuals, crossover, mutation, new Selection.Tournament(3), 100, 2, 1_000, Double.NEGATIVE_INFINITY, 1, 10);
    }

    public Evolution<G> until(long generations, double target) {
        return new Evolution<>(individuals, crossover, mutation, selection, population, elite, generations, target, seed, every);
    }

    public Evolution<G> withSeed(long seed) {
        return new Evolution<>(individuals, crossover, mutation, selection, population, elite, generations, target, seed, every);
    }

    public Evolution<G> withPopulation(int population, int elite) {
        return new Evolution<>(individuals, crossover, mutation, selection, population, elite, generations, target, seed, every);
    }
}
