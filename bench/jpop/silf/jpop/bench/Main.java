package silf.jpop.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.core.InOneJvm;
import silf.jpop.Trees;
import silf.jpop.bb.BranchAndBound;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Result;
import silf.jpop.bb.problems.Knapsack;
import silf.jpop.bb.problems.Salesman;

/**
 * Measures one row of `./x bench jpop` and prints what it saw, a line each, tabs between: {@code sample SERIES UNIT VALUE},
 * {@code point CURVE X Y}, {@code note TEXT}, {@code missing SERIES WHY}. Not here: what is to be reached, and the report
 * (bench/src/jpop.rs).
 *
 * <p>Arguments: the row's key; {@code quick} for fewer rounds.
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
                case "kills" -> kills();
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
            List<long[]> below = new ArrayList<>();
            SplittableRandom random = new SplittableRandom(state[1]);
            int count = state[0] >= deep ? 0 : state[0] < 6 ? 3 : random.nextInt(4);
            for (int i = 0; i < count; i++) {
                below.add(new long[] {state[0] + 1, random.nextLong()});
            }
            return below;
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
                double took = here(new Sleeper(DEEP, SLEEP_ms), Trees.local(shape)).took_ns() / 1e9;
                point("ideal", nodes, ideal);
                point("bare", nodes, bare);
                point("measured", nodes, took);
                sample("share of ideal, " + nodes + " nodes", "plain", ideal / took);
                sample("share of bare, " + nodes + " nodes", "plain", bare / took);
                sample("share asleep, " + nodes + " nodes", "plain", Sleeper.SLEPT_ns.sum() / 1e9 / nodes / took);
                sample("a sleep, " + nodes + " nodes", "seconds", Sleeper.SLEPT_ns.sum() / 1e9 / Sleeper.SLEPT.sum());
            }
        }
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

    private static Salesman cities(long seed, int count) {
        SplittableRandom random = new SplittableRandom(seed);
        int[] x = random.ints(count, 0, 1000).toArray();
        int[] y = random.ints(count, 0, 1000).toArray();
        long[][] ways = new long[count][count];
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++) {
                ways[i][j] = Math.round(Math.hypot(x[i] - x[j], y[i] - y[j]));
            }
        }
        return Salesman.of(ways);
    }

    /** JVMs of their own: one works, or two do; the same problems in turn. */
    private static void cores() throws JojoException {
        for (int round = 0; round < (quick ? 2 : 5); round++) {
            Salesman cities = cities(40 + round, 30);
            Result<Salesman.Tour> one = BranchAndBound.solve(cities, Trees.local(1));
            Result<Salesman.Tour> two = BranchAndBound.solve(cities, Trees.local(2));
            sample("one node", "seconds", one.took_ns() / 1e9);
            sample("two nodes", "seconds", two.took_ns() / 1e9);
            sample("two nodes are faster, times", "plain", (double) one.took_ns() / two.took_ns());
            sample("states a second, times", "plain",
                    (double) two.expanded() / two.took_ns() / one.expanded() * one.took_ns());
            same(one, two);
        }
    }

    private static void same(Result<?> one, Result<?> two) throws JojoException {
        if (one.value() != two.value() || !one.position().equals(two.position())) {
            throw new JojoException("two results: " + one + " and " + two);
        }
    }

    // -- extra -------------------------------------------------------------------------------------------------------

    static Knapsack items(long seed, int count) {
        SplittableRandom random = new SplittableRandom(seed);
        long[] values = new long[count];
        long[] weights = new long[count];
        long sum = 0;
        for (int i = 0; i < count; i++) {
            weights[i] = 1 + random.nextInt(1000);
            values[i] = weights[i] + 50 + random.nextInt(20);
            sum += weights[i];
        }
        return Knapsack.of(sum / 2, values, weights);
    }

    /** What four nodes look at, over what one looks at: ten knapsacks and ten tours. */
    private static void extra() throws JojoException {
        for (int instance = 0; instance < 20; instance++) {
            Problem<?> problem = instance < 10 ? items(200 + instance, 80) : cities(300 + instance, 28);
            extra(problem, instance);
        }
    }

    private static <S> void extra(Problem<S> problem, int instance) throws JojoException {
        Result<S> alone = here(problem, Trees.local());
        Result<S> four = here(problem, Trees.local(2, 2));
        same(alone, four);
        sample("states of four nodes / of one", "plain", (double) four.expanded() / alone.expanded());
        note("instance " + instance + ": " + problem + ", " + alone.expanded() + " states alone, " + four.expanded() + " by four");
    }

    // -- kills -------------------------------------------------------------------------------------------------------

    /** Another problem, of whose branchings some end a node. */
    record Deadly(Knapsack inner, int run) implements Problem<Knapsack.Load> {
        private static final long serialVersionUID = 1;
        static final ConcurrentHashMap<Integer, AtomicInteger> COUNT = new ConcurrentHashMap<>();
        static volatile Set<Integer> when = Set.of();
        static volatile List<String> names = List.of();
        static final AtomicInteger killed = new AtomicInteger();

        @Override
        public boolean maximises() {
            return true;
        }

        @Override
        public Knapsack.Load root() {
            return inner.root();
        }

        @Override
        public List<Knapsack.Load> branch(Knapsack.Load load) {
            int count = COUNT.get(run).incrementAndGet();
            if (when.contains(count) && InOneJvm.kill(names.get(Math.floorMod(count * 31, names.size())))) {
                killed.incrementAndGet();
            }
            return inner.branch(load);
        }

        @Override
        public long bound(Knapsack.Load load) {
            return inner.bound(load);
        }

        @Override
        public OptionalLong value(Knapsack.Load load) {
            return inner.value(load);
        }
    }

    private static NodeSpec named(NodeSpec node, String prefix, FaultPolicy faults, List<String> names) {
        names.add(prefix + node.name());
        return new NodeSpec(prefix + node.name(), node.host(), node.code(), node.invocation(), faults, false, node.files(),
                node.children().stream().map(child -> named(child, prefix, faults, names)).toList());
    }

    private static void kills() throws JojoException {
        int others = 0;
        int runs = quick ? 40 : 200;
        for (int run = 0; run < runs; run++) {
            SplittableRandom random = new SplittableRandom(run);
            Knapsack items = items(1_000 + run, 36);
            Result<Knapsack.Load> alone = here(items, Trees.local());
            FaultPolicy faults = random.nextBoolean() ? FaultPolicy.GO_ON : new FaultPolicy(FaultPolicy.Kind.RESTART, 100, 60_000, 1);
            List<String> names = new ArrayList<>();
            NodeSpec tree = named(Trees.local(1 + random.nextInt(3), 1 + random.nextInt(3)), "k" + run + "-", faults, names);
            Set<Integer> when = new TreeSet<>();
            for (int kills = 1 + random.nextInt(5); kills > 0; kills--) {
                when.add(1 + random.nextInt((int) Math.max(2, alone.expanded())));
            }
            Deadly.COUNT.put(run, new AtomicInteger());
            Deadly.when = when;
            Deadly.names = names.subList(1, names.size());
            Result<Knapsack.Load> result = here(new Deadly(items, run), tree);
            if (result.value() != alone.value() || !result.position().equals(alone.position())) {
                others++;
            }
            sample("states with kills / without", "plain", (double) result.expanded() / alone.expanded());
        }
        sample("runs with another result", "plain", others);
        note(runs + " runs, " + Deadly.killed + " nodes and subtrees cut off");
    }
}
