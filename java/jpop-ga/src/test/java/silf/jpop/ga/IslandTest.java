package silf.jpop.ga;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import silf.jojo.JojoException;
import silf.jojo.testkit.Check;
import silf.jpop.Damaged;
import silf.jpop.PersonFailed;
import silf.jpop.ga.problems.Real;
import silf.jpop.ga.problems.Tours;

/** Islands as values: what follows from a seed, what bytes are taken for one, what operators make. */
public final class IslandTest {
    private static final Real REAL = new Real(Real.Known.RASTRIGIN, 6);
    private static final Evolution<double[]> HOW = REAL.evolution(new Real.Blx(REAL, 0.5)).withPopulation(20, 2);

    private static <G> List<Double> costs(Island<G> island, int steps) throws PersonFailed {
        List<Double> costs = new ArrayList<>();
        for (int i = 0; i < steps; i++) {
            island.step();
            costs.add(island.best().cost());
            costs.add(island.mean());
        }
        return costs;
    }

    public void all_follows_from_the_seed() throws JojoException {
        Check.equal(costs(Island.first(HOW, ""), 50), costs(Island.first(HOW, ""), 50), "twice the same seed");
        Check.that(!costs(Island.first(HOW, ""), 5).equals(costs(Island.first(HOW.withSeed(2), ""), 5)), "two seeds, one run");
        Check.that(!costs(Island.first(HOW, "0"), 5).equals(costs(Island.first(HOW, "1"), 5)), "two islands, one run");
    }

    public void a_state_goes_on_as_it_would_have() throws JojoException {
        Island<double[]> island = Island.first(HOW, "0.1");
        costs(island, 7);
        Island<double[]> again = Island.of(HOW, island.state());
        Check.equal(7L, again.generation(), "generation");
        Check.equal(costs(island, 20), costs(again, 20), "what follows");
    }

    public void a_state_that_is_cut_or_altered_is_refused_or_taken_and_nothing_else_happens() throws JojoException {
        byte[] state = Island.first(HOW, "").state();
        for (int length = 0; length < state.length; length++) {
            byte[] cut = Arrays.copyOf(state, length);
            Check.thrown(Damaged.class, () -> Island.of(HOW, cut), "cut after " + length);
        }
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 5_000; i++) {
            byte[] other = state.clone();
            other[random.nextInt(other.length)] ^= (byte) (1 << random.nextInt(8));
            try {
                costs(Island.of(HOW, other), 1);
            } catch (Damaged e) {
                Check.that(e.getMessage().startsWith("at byte "), e.getMessage());
            }
        }
    }

    public void the_best_never_gets_worse_and_immigrants_take_the_places_of_the_worst() throws JojoException {
        Island<double[]> here = Island.first(HOW, "a");
        Island<double[]> there = Island.first(HOW, "b");
        costs(there, 100);
        double before = here.best().cost();
        here.immigrants(there.emigrants(2));
        Check.that(here.best().cost() == there.best().cost() && here.best().cost() < before, "the best that came is the best");
        double mean = here.mean();
        here.immigrants(there.emigrants(2));
        Check.equal(mean, here.mean(), "the same come again: mean");
        double best = here.best().cost();
        for (double cost : costs(here, 50).stream().limit(1).toList()) {
            Check.that(cost <= best, cost + " after " + best);
        }
        Check.equal(20, Island.members(new silf.jpop.Numbers(here.emigrants(100)), HOW).size(), "the population");
    }

    public void order_crossover_and_turns_make_tours() {
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < 2_000; i++) {
            int count = 1 + random.nextInt(12);
            Tours tours = new Tours(new long[count][count]);
            int[] one = tours.random(random);
            int[] other = tours.random(random);
            int[] child = new Tours.OrderCrossover().cross(one, other, random);
            for (int[] made : List.of(child, new Tours.Turn().mutate(child, random))) {
                int[] sorted = made.clone();
                Arrays.sort(sorted);
                Check.that(Arrays.equals(java.util.stream.IntStream.range(0, count).toArray(), sorted), Arrays.toString(made));
            }
            Check.that(Arrays.equals(one, new Tours.OrderCrossover().cross(one, one, random)), "of one with itself");
        }
    }

    public void crossovers_of_reals_stay_within_the_cube_and_around_their_parents() {
        SplittableRandom random = new SplittableRandom(4);
        for (Crossover<double[]> cross : List.of(new Real.Blx(REAL, 0.5), new Real.Sbx(REAL, 10))) {
            double sum = 0;
            for (int i = 0; i < 4_000; i++) {
                double[] child = cross.cross(new double[] {1, -5.12}, new double[] {2, 5.12}, random);
                sum += child[0];
                Check.that(Math.abs(child[1]) <= 5.12, "outside: " + child[1]);
                Check.that(!(cross instanceof Real.Blx) || child[0] >= 0.5 && child[0] <= 2.5, "far away: " + child[0]);
            }
            double middle = cross instanceof Real.Blx ? 1.5 : 1.25; // every other coordinate of SBX is the first parent's
            Check.that(Math.abs(sum / 4_000 - middle) < 0.05, cross + " has its middle at " + sum / 4_000);
        }
    }

    public void known_functions_are_nothing_at_their_least() {
        Check.equal(0.0, Real.Known.RASTRIGIN.at(new double[5]), "Rastrigin");
        Check.equal(0.0, Real.Known.ROSENBROCK.at(new double[] {1, 1, 1}), "Rosenbrock");
        Check.that(Real.Known.ACKLEY.at(new double[5]) < 1e-12, "Ackley");
        Check.that(Real.Known.RASTRIGIN.at(new double[] {1, 0}) == 1.0, "Rastrigin beside it");
        Check.that(Real.Known.ROSENBROCK.at(new double[] {0, 1}) == 101.0, "Rosenbrock beside it");
    }

    /** Fails at one of its parts. */
    record Wrong(String how) implements Individuals<double[]>, Crossover<double[]>, Mutation<double[]>, Selection {
        private static final long serialVersionUID = 1;

        @Override
        public double[] random(java.util.random.RandomGenerator random) {
            return how.equals("random") ? null : REAL.random(random);
        }

        @Override
        public double cost(double[] x) {
            return how.equals("cost") ? Double.NaN : REAL.cost(x);
        }

        @Override
        public void write(java.io.ByteArrayOutputStream out, double[] x) {
            REAL.write(out, x);
        }

        @Override
        public double[] read(silf.jpop.Numbers in) throws Damaged {
            return REAL.read(in);
        }

        @Override
        public double[] cross(double[] one, double[] other, java.util.random.RandomGenerator random) {
            if (how.equals("cross")) {
                throw new IllegalStateException("of mine");
            }
            return one;
        }

        @Override
        public double[] mutate(double[] x, java.util.random.RandomGenerator random) {
            return how.equals("mutate") ? null : x;
        }

        @Override
        public int pick(double[] costs, java.util.random.RandomGenerator random) {
            return how.equals("pick") ? costs.length : 0;
        }
    }

    public void what_a_persons_code_does_wrong_is_said() {
        String of = Wrong.class.getName();
        String[][] rows = {
            {"random", of + ".random (individuals) in generation 0 gave null"},
            {"cost", of + ".cost is NaN of"},
            {"cross", of + ".cross (crossover) in generation 0 of"},
            {"mutate", of + ".mutate (mutation) in generation 0 of"},
            {"pick", of + ".pick gave 100 where there are 100"},
        };
        for (String[] row : rows) {
            Wrong wrong = new Wrong(row[0]);
            Evolution<double[]> how = new Evolution<>(wrong, wrong, wrong, wrong, 100, 1, 10, 0, 1, 1);
            PersonFailed e = Check.thrown(PersonFailed.class, () -> costs(Island.first(how, ""), 1), row[0]);
            Check.that(e.getMessage().startsWith(row[1]), e.getMessage());
        }
    }
}
