package silf.jpop.ga;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.InOneJvm;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Scratch;
import silf.jpop.Cities;
import silf.jpop.Trees;
import silf.jpop.Words;
import silf.jpop.ga.problems.Real;
import silf.jpop.ga.problems.Tours;

/** Genetic algorithms on Jojo's trees: known optima are found, runs are reproducible, who dies is done without. */
public final class GeneticsTest {
    private static final AtomicInteger TREES = new AtomicInteger();

    private static NodeSpec tree(NodeSpec.FaultPolicy faults, int... below) {
        return named(Trees.local(below), "g" + TREES.incrementAndGet() + "-", faults);
    }

    private static NodeSpec named(NodeSpec node, String prefix, NodeSpec.FaultPolicy faults) {
        return new NodeSpec(prefix + node.name(), node.host(), node.code(), node.invocation(), faults, false, node.files(),
                node.children().stream().map(child -> named(child, prefix, faults)).toList());
    }

    private static <G> Outcome<G> evolve(Evolution<G> evolution, NodeSpec tree, String... properties) throws JojoException {
        Properties all = new Properties();
        for (int i = 0; i < properties.length; i += 2) {
            all.setProperty(properties[i], properties[i + 1]);
        }
        return Genetics.evolve(evolution, tree, all, InOneJvm.launcher());
    }

    public void known_functions_come_near_their_least() throws JojoException {
        for (Real.Known function : Real.Known.values()) {
            // Rosenbrock's valley is long and flat.
            Real real = new Real(function, function == Real.Known.ROSENBROCK ? 2 : 5);
            for (Crossover<double[]> cross : Arrays.asList(new Real.Blx(real, 0.5), new Real.Sbx(real, 10))) {
                Outcome<double[]> outcome = evolve(real.evolution(cross).until(3_000, 1e-3), tree(NodeSpec.FaultPolicy.FAIL));
                Check.that(outcome.cost() <= 1e-3, function + " by " + cross + ": " + outcome.cost());
            }
        }
    }

    public void a_tour_of_tsplib_is_the_published_one() throws JojoException {
        Tours tours = new Tours(Cities.read(Words.of("spec/jpop/vectors/valid/gr17-2085.tsp")));
        // On one node all follows from the seed; not every seed gets there.
        Outcome<int[]> outcome = evolve(tours.evolution().withPopulation(200, 2).until(2_000, 2085).withSeed(3), tree(NodeSpec.FaultPolicy.FAIL));
        Check.equal(2085.0, outcome.cost(), "gr17");
        Check.equal(2085.0, tours.cost(outcome.best()), "its tour");
    }

    public void on_one_node_a_run_follows_from_its_seed() throws JojoException {
        Real real = new Real(Real.Known.ACKLEY, 4);
        Evolution<double[]> how = real.evolution(new Real.Sbx(real, 10)).until(60, 0);
        double[] once = evolve(how, tree(NodeSpec.FaultPolicy.FAIL)).best();
        Check.that(Arrays.equals(once, evolve(how, tree(NodeSpec.FaultPolicy.FAIL)).best()), "twice the same seed");
        Check.that(!Arrays.equals(once, evolve(how.withSeed(5), tree(NodeSpec.FaultPolicy.FAIL)).best()), "two seeds");
    }

    public void every_island_has_its_generations_on_every_tree() throws JojoException {
        Real real = new Real(Real.Known.RASTRIGIN, 8);
        for (int[] shape : new int[][] {{3}, {2, 2}, {2, 1, 2}}) {
            int islands = Arrays.stream(shape).reduce(1, (a, b) -> a * b);
            Outcome<double[]> outcome = evolve(real.evolution(new Real.Blx(real, 0.5)).until(40, -1), tree(NodeSpec.FaultPolicy.FAIL, shape));
            Check.equal(40L * islands, outcome.generations(), "generations on " + Arrays.toString(shape));
        }
    }

    /** A function that does something at some of its evaluations. Only where all nodes are in one JVM. */
    record Counting(Real real, int number) implements Individuals<double[]> {
        private static final long serialVersionUID = 1;
        static final java.util.Map<Integer, java.util.function.IntConsumer> AT = new java.util.concurrent.ConcurrentHashMap<>();
        static final java.util.Map<Integer, AtomicInteger> COUNT = new java.util.concurrent.ConcurrentHashMap<>();

        @Override
        public double[] random(RandomGenerator random) {
            return real.random(random);
        }

        @Override
        public double cost(double[] x) {
            AT.get(number).accept(COUNT.get(number).incrementAndGet());
            return real.cost(x);
        }

        @Override
        public void write(java.io.ByteArrayOutputStream out, double[] x) {
            real.write(out, x);
        }

        @Override
        public double[] read(silf.jpop.Numbers in) throws silf.jpop.Damaged {
            return real.read(in);
        }
    }

    private static Evolution<double[]> counting(int number, java.util.function.IntConsumer at) {
        Counting.AT.put(number, at);
        Counting.COUNT.put(number, new AtomicInteger());
        Real real = new Real(Real.Known.RASTRIGIN, 4);
        return Evolution.of(new Counting(real, number), new Real.Blx(real, 0.5), new Real.Nudge(real, 0.25, 0.05)).until(60, -1);
    }

    public void nodes_and_subtrees_die_and_the_others_go_on() throws JojoException {
        NodeSpec.FaultPolicy again = new NodeSpec.FaultPolicy(NodeSpec.FaultPolicy.Kind.RESTART, 100, 60_000, 1);
        for (NodeSpec.FaultPolicy faults : new NodeSpec.FaultPolicy[] {NodeSpec.FaultPolicy.GO_ON, again}) {
            for (String victim : new String[] {"n0", "n1.1"}) {
                NodeSpec tree = tree(faults, 2, 2);
                String name = "g" + TREES.get() + "-" + victim;
                Outcome<double[]> outcome = evolve(counting(TREES.get(), count -> {
                    if (count == 3_000) {
                        Check.that(InOneJvm.kill(name), "there is no " + name);
                    }
                }), tree, "jpop.tick.ms", "20");
                Check.that(outcome.generations() >= 60, outcome.generations() + " generations");
            }
        }
    }

    public void a_run_goes_on_from_its_checkpoint_when_all_of_its_tree_was_lost() throws Exception {
        Path file = Scratch.file("ga.checkpoint");
        int number = 1_000_000;
        int fails = 0;
        for (int round = 0; ; round++) {
            Evolution<double[]> how = counting(number, count -> {
                if (count == 3_500) {
                    throw new IllegalStateException("pulled the plug");
                }
            });
            try {
                // Alone it is known what is kept when: 60 generations are three times what is bred before the plug.
                Outcome<double[]> outcome = evolve(how, tree(NodeSpec.FaultPolicy.FAIL),
                        "jpop.checkpoint", file.toString(), "jpop.checkpoint.ms", "1");
                Check.that(fails > 0, "it was never interrupted");
                Evolution<double[]> whole = counting(number, count -> {});
                Check.that(Arrays.equals(evolve(whole, tree(NodeSpec.FaultPolicy.FAIL)).best(), outcome.best()), "another outcome");
                return;
            } catch (JojoException e) {
                Check.that(e.getMessage().contains("pulled the plug"), e.getMessage());
                fails++;
                Check.that(fails < 50, "it does not get on");
            }
        }
    }
}
