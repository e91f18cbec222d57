package silf.jpop.ga.problems;

import java.io.ByteArrayOutputStream;
import java.util.random.RandomGenerator;
import silf.jojo.JojoException;
import silf.jpop.Cities;
import silf.jpop.Damaged;
import silf.jpop.Numbers;
import silf.jpop.Settings;
import silf.jpop.Words;
import silf.jpop.ga.Crossover;
import silf.jpop.ga.Evolution;
import silf.jpop.ga.Individuals;
import silf.jpop.ga.Mutation;
import silf.jpop.ga.Source;

/**
 * Tours through cities, as permutations; what they cost is their length.
 *
 * @param ways distances
 */
public record Tours(long[][] ways) implements Individuals<int[]> {
    private static final long serialVersionUID = 1;

    /** {@code jpop.instance}, a file of TSPLIB; {@code jpop.generations}, {@code jpop.population}, {@code jpop.seed}. */
    public static final class From implements Source {
        @Override
        public Evolution<?> evolution(Settings settings) throws JojoException {
            return new Tours(Cities.read(Words.of(settings.needed("jpop.instance", "a file of TSPLIB")))).evolution()
                    .until(settings.number("jpop.generations", 1_000, 0, Long.MAX_VALUE), Double.NEGATIVE_INFINITY)
                    .withPopulation((int) settings.number("jpop.population", 100, 4, 10_000), 2)
                    .withSeed(settings.number("jpop.seed", 1, Long.MIN_VALUE, Long.MAX_VALUE));
        }
    }

    /** By order crossover and turned-round pieces. */
    public Evolution<int[]> evolution() {
        return Evolution.of(this, new OrderCrossover(), new Turn());
    }

    @Override
    public int[] random(RandomGenerator random) {
        int[] tour = java.util.stream.IntStream.range(0, ways.length).toArray();
        for (int i = tour.length - 1; i > 0; i--) {
            int j = random.nextInt(i + 1);
            int city = tour[i];
            tour[i] = tour[j];
            tour[j] = city;
        }
        return tour;
    }

    @Override
    public double cost(int[] tour) {
        long length = 0;
        for (int i = 0; i < tour.length; i++) {
            length += ways[tour[i]][tour[(i + 1) % tour.length]];
        }
        return length;
    }

    @Override
    public void write(ByteArrayOutputStream out, int[] tour) {
        for (int city : tour) {
            Numbers.put(out, city);
        }
    }

    @Override
    public int[] read(Numbers in) throws Damaged {
        int[] tour = new int[ways.length];
        boolean[] seen = new boolean[ways.length];
        for (int i = 0; i < tour.length; i++) {
            tour[i] = in.count(ways.length - 1, 0, "cities");
            if (seen[tour[i]]) {
                throw in.damaged("city " + tour[i] + " twice in a tour");
            }
            seen[tour[i]] = true;
        }
        return tour;
    }

    @Override
    public String show(int[] tour) {
        return "tour " + java.util.Arrays.toString(java.util.Arrays.stream(tour).map(city -> city + 1).toArray());
    }

    /** OX (Davis, 1985): a piece of one, the others in the order of the other. */
    public record OrderCrossover() implements Crossover<int[]> {
        private static final long serialVersionUID = 1;

        @Override
        public int[] cross(int[] one, int[] other, RandomGenerator random) {
            int count = one.length;
            int from = random.nextInt(count);
            int to = random.nextInt(count);
            if (from > to) {
                int swap = from;
                from = to;
                to = swap;
            }
            int[] tour = new int[count];
            boolean[] has = new boolean[count];
            for (int i = from; i <= to; i++) {
                tour[i] = one[i];
                has[one[i]] = true;
            }
            int at = (to + 1) % count;
            for (int i = 1; i <= count; i++) {
                int city = other[(to + i) % count];
                if (!has[city]) {
                    tour[at] = city;
                    at = (at + 1) % count;
                }
            }
            return tour;
        }
    }

    /** Turns a piece round, two times out of three. */
    public record Turn() implements Mutation<int[]> {
        private static final long serialVersionUID = 1;

        @Override
        public int[] mutate(int[] from, RandomGenerator random) {
            if (random.nextInt(3) == 0) {
                return from;
            }
            int[] tour = from.clone();
            int a = random.nextInt(tour.length);
            int length = random.nextInt(tour.length);
            for (int i = 0, j = length; i < j; i++, j--) {
                int x = (a + i) % tour.length;
                int y = (a + j) % tour.length;
                int city = tour[x];
                tour[x] = tour[y];
                tour[y] = city;
            }
            return tour;
        }
    }
}
