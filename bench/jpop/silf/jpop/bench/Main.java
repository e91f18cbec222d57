package silf.jpop.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.core.InOneJvm;
import silf.jpop.Trees;
import silf.jpop.bb.BranchAndBound;
import silf.jpop.bb.Instances;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Result;
import silf.jpop.bb.Slow;
import silf.jpop.bb.problems.Knapsack;
import silf.jpop.bb.problems.Salesman;

/**
 * Measures one row of `./x bench jpop` and prints what it saw, a line each, tabs between: {@code sample SERIES UNIT VALUE},
 * {@code point CURVE X Y}, {@code note TEXT}, {@code missing SERIES WHY}. Not here: what is to be reached, and the report
 * (bench/src/jpop.rs).
 *
 * <p>Arguments: the row's key; {@code quick} for fewer rounds; for {@code kills} instead the first run and the one behind the last.
 */
public final class Main {
    private static boolean quick;

    private Main() {}

    public static void main(String[] args) {
        quick = args.length > 1 && args[1].equals("quick");
        try {
            switch (args.length == 0 ? "" : args[0]) {
                case "sleeping" -> sleeping();
                case "cores" -> cores();
                case "extra" -> extra();
                case "kills" -> kills(args.length > 2 ? Integer.parseInt(args[1]) : 0, args.length > 2 ? Integer.parseInt(args[2]) : quick ? 40 : KILLED);
                default -> throw new IllegalArgumentException("rows: sleeping, cores, extra, kills");
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.out.println("missing\t-\t" + e.toString().replaceAll("\\s+", " "));
        }
        System.exit(0);
    }

    private static synchronized void sample(String series, String unit, double value) {
        System.out.printf(Locale.ROOT, "sample\t%s\t%s\t%.9g%n", series, unit, value);
        System.out.flush();
    }

    private static synchronized void point(String curve, double x, double y) {
        System.out.printf(Locale.ROOT, "point\t%s\t%.9g\t%.9g%n", curve, x, y);
        System.out.flush();
    }

    private static synchronized void note(String text) {
        System.out.println("note\t" + text.replaceAll("\\s+", " "));
    }

    private static <S> Result<S> here(Problem<S> problem, NodeSpec tree) throws JojoException {
        return BranchAndBound.solve(problem, tree, new Properties(), InOneJvm.launcher());
    }

    // -- sleeping ----------------------------------------------------------------------------------------------------

    private static final int SLEEP_ms = 8;
    /** Some 30,000 states: four seconds of 64 nodes. */
    private static final int DEEP = 13;

    private static List<long[]> lopsided(long[] state, int deep) {
        List<long[]> below = new ArrayList<>();
        SplittableRandom random = new SplittableRandom(state[1]);
        int count = state[0] >= deep ? 0 : state[0] < 6 ? 3 : random.nextInt(4);
        for (int i = 0; i < count; i++) {
            below.add(new long[] {state[0] + 1, random.nextLong()});
        }
        return below;
    }

    /** A tree of states as lopsided as its seed says. Each is evaluated once: its bound, which rules out nothing, takes 8 ms of sleep. */
    record Sleeper(int deep, int sleep_ms) implements Problem<long[]> {
        private static final long serialVersionUID = 1;
        /** What the sleeps took indeed, and how many there were. */
        static final LongAdder SLEPT_ns = new LongAdder();

        static final LongAdder SLEPT = new LongAdder();

        @Override
        public long[] root() {
            return new long[] {0, 7};
        }

        @Override
        public List<long[]> branch(long[] state) {
            return lopsided(state, deep);
        }

        @Override
        public long bound(long[] state) {
            long begun = System.nanoTime();
            try {
                Thread.sleep(sleep_ms);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            SLEPT_ns.add(System.nanoTime() - begun);
            SLEPT.increment();
            return 0;
        }

        @Override
        public OptionalLong value(long[] state) {
            return OptionalLong.empty();
        }
    }

    /** Evaluations sleep: two cores would not carry 64 nodes that compute. Nodes are threads of this JVM, messages as ever. */
    private static void sleeping() throws JojoException, InterruptedException {
        long states = here(new Sleeper(DEEP, 0), Trees.local()).expanded();
        note(states + " states of " + SLEEP_ms + " ms each; ideal: all of them shared out evenly; bare: as many threads of this JVM"
                + " that sleep as often, and do nothing else");
        for (int round = 0; round < (quick ? 1 : 3); round++) {
            for (int[] shape : round == 0 ? new int[][] {{4, 4, 4}, {2, 4, 4}, {2, 2, 4}} : new int[][] {{4, 4, 4}}) {
                int nodes = shape[0] * shape[1] * shape[2];
                double ideal = states * SLEEP_ms / 1e3 / nodes;
                double bare = bare(nodes, (int) (states / nodes));
                Sleeper.SLEPT_ns.reset();
                Sleeper.SLEPT.reset();
                long busy_ns = -processor_ns();
                double took = here(new Sleeper(DEEP, SLEEP_ms), Trees.local(shape)).took_ns() / 1e9;
                busy_ns += processor_ns();
                point("ideal", nodes, ideal);
                point("bare", nodes, bare);
                point("measured", nodes, took);
                sample("share of ideal, " + nodes + " nodes", "plain", ideal / took);
                sample("share of bare, " + nodes + " nodes", "plain", bare / took);
                sample("share asleep, " + nodes + " nodes", "plain", Sleeper.SLEPT_ns.sum() / 1e9 / nodes / took);
                sample("processors busy, " + nodes + " nodes", "plain", busy_ns / 1e9 / took);
                sample("a sleep, " + nodes + " nodes", "seconds", Sleeper.SLEPT_ns.sum() / 1e9 / Sleeper.SLEPT.sum());
            }
        }
    }

    private static long processor_ns() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** How long so many threads take that sleep so often. */
    private static double bare(int threads, int times) throws InterruptedException {
        long begun = System.nanoTime();
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(() -> {
                Sleeper sleeper = new Sleeper(0, SLEEP_ms);
                for (int each = 0; each < times; each++) {
                    sleeper.bound(new long[2]);
                }
            });
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
        return (System.nanoTime() - begun) / 1e9;
    }

    // -- cores -------------------------------------------------------------------------------------------------------

    /** Half a millisecond of one processor, or so. */
    private static final int STEPS = 250_000;

    /** The same tree, whose bounds are worth so many steps of arithmetic. */
    record Cruncher(int deep, int steps) implements Problem<long[]> {
        private static final long serialVersionUID = 1;

        @Override
        public long[] root() {
            return new long[] {0, 7};
        }

        @Override
        public List<long[]> branch(long[] state) {
            return lopsided(state, deep);
        }

        @Override
        public long bound(long[] state) {
            long x = state[1];
            for (int i = 0; i < steps; i++) {
                x = (x ^ x >>> 17) * 6364136223846793005L + 1442695040888963407L;
            }
            return x == 0 ? 1 : 0; // so that no compiler leaves it out
        }

        @Override
        public OptionalLong value(long[] state) {
            return OptionalLong.empty();
        }
    }

    /** JVMs of their own: one works, or two do, on all of a tree in which nothing is ruled out. */
    private static void cores() throws JojoException {
        note("every state is looked at, by one node and by two; a bound computes for half a millisecond");
        for (int round = 0; round < (quick ? 1 : 3); round++) {
            Result<long[]> one = BranchAndBound.solve(new Cruncher(DEEP, STEPS), Trees.local(1));
            Result<long[]> two = BranchAndBound.solve(new Cruncher(DEEP, STEPS), Trees.local(2));
            sample("one node", "seconds", one.took_ns() / 1e9);
            sample("two nodes", "seconds", two.took_ns() / 1e9);
            sample("two nodes are faster, times", "plain", (double) one.took_ns() / two.took_ns());
        }
    }

    private static void same(Result<?> one, Result<?> two) throws JojoException {
        if (one.value() != two.value() || !one.position().equals(two.position())) {
            throw new JojoException("two results: " + one + " and " + two);
        }
    }

    // -- extra -------------------------------------------------------------------------------------------------------

    /** Fewer are over before all nodes have begun; more take too long. */
    private static final long LEAST = 10_000;
    private static final long MOST = 1_000_000;

    /** What four nodes look at, over what one looks at: ten knapsacks and ten tours, the first that are worth a tree. */
    private static void extra() throws JojoException {
        note("the first ten instances of each kind for which one node looks at " + LEAST + " to " + MOST + " states");
        for (int kind = 0; kind < 2; kind++) {
            int passed = 0;
            for (int seed = 200; passed < 10; seed++) {
                Problem<?> problem = kind == 0 ? Instances.items(seed, 80) : Instances.cities(seed, 28);
                passed += extra(problem, seed) ? 1 : 0;
            }
        }
    }

    private static <S> boolean extra(Problem<S> problem, int seed) throws JojoException {
        Result<S> alone = here(problem, Trees.local());
        if (alone.expanded() < LEAST || alone.expanded() > MOST) {
            return false;
        }
        Result<S> four = here(problem, Trees.local(2, 2));
        same(alone, four);
        sample("states of four nodes / of one", "plain", (double) four.expanded() / alone.expanded());
        note(problem + " of seed " + seed + ": " + alone.expanded() + " states alone, " + four.expanded() + " by four");
        return true;
    }

    // -- kills -------------------------------------------------------------------------------------------------------

    private static final int KILLED = 200;

    /** Runs of which some branchings cut a node off, with all below it. */
    private static void kills(int from, int to) throws JojoException {
        int others = 0;
        AtomicInteger killed = new AtomicInteger();
        for (int run = from; run < to; run++) {
            SplittableRandom random = new SplittableRandom(run);
            Knapsack items = Instances.items(1_000 + run, 36);
            Result<Knapsack.Load> alone = here(items, Trees.local());
            FaultPolicy faults = random.nextBoolean() ? FaultPolicy.GO_ON : new FaultPolicy(FaultPolicy.Kind.RESTART, 100, 60_000, 1);
            NodeSpec tree = InOneJvm.named(Trees.local(1 + random.nextInt(3), 1 + random.nextInt(3)), "k" + run + "-", faults);
            List<String> names = InOneJvm.below(tree);
            Set<Integer> when = new TreeSet<>();
            for (int kills = 1 + random.nextInt(5); kills > 0; kills--) {
                when.add(1 + random.nextInt((int) Math.max(2, alone.expanded())));
            }
            Result<Knapsack.Load> result = here(Slow.of(items, count -> {
                if (when.contains(count) && InOneJvm.kill(names.get(Math.floorMod(count * 31, names.size())))) {
                    killed.incrementAndGet();
                }
            }), tree);
            if (result.value() != alone.value() || !result.position().equals(alone.position())) {
                others++;
            }
            sample("states with kills / without", "plain", (double) result.expanded() / alone.expanded());
        }
        sample("runs with another result", "plain", others);
        note(to - from + " runs, " + killed + " nodes and subtrees cut off");
    }
}
