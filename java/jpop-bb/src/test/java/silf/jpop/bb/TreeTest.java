package silf.jpop.bb;

import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.InOneJvm;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Scratch;
import silf.jpop.Trees;
import silf.jpop.bb.problems.Knapsack;

/** Branch and bound on Jojo's trees: the same result on each, whoever dies; what a person's code does wrong is said. */
public final class TreeTest {
    /** Trees whose nodes die, of a run; {@code -Djpop.kills=200} for what the goal asks. */
    private static final int KILLED_TREES = Integer.getInteger("jpop.kills", 12);
    private static final AtomicInteger TREES = new AtomicInteger();

    /** A tree of nodes in this JVM, with names of its own. */
    private static NodeSpec tree(NodeSpec.FaultPolicy faults, int... below) {
        return InOneJvm.named(Trees.local(below), "t" + TREES.incrementAndGet() + "-", faults);
    }

    private static <S> Result<S> solve(Problem<S> problem, NodeSpec tree, String... properties) throws JojoException {
        Properties all = new Properties();
        for (int i = 0; i < properties.length; i += 2) {
            all.setProperty(properties[i], properties[i + 1]);
        }
        return BranchAndBound.solve(problem, tree, all, InOneJvm.launcher());
    }

    public void every_tree_finds_the_same_solution() throws JojoException {
        Knapsack items = Instances.items(7, 28);
        Result<Knapsack.Load> alone = solve(items, tree(NodeSpec.FaultPolicy.FAIL));
        for (int[] shape : new int[][] {{1}, {2}, {4}, {2, 2}, {2, 1, 2}}) {
            Result<Knapsack.Load> result = solve(items, tree(NodeSpec.FaultPolicy.FAIL, shape));
            Check.equal(alone.value(), result.value(), "value");
            Check.equal(alone.position(), result.position(), "position");
            Check.equal(alone.solution().toString(), result.solution().toString(), "solution");
        }
    }

    public void nodes_and_subtrees_die_and_the_result_is_the_same() throws JojoException {
        for (int run = 0; run < KILLED_TREES; run++) {
            SplittableRandom random = new SplittableRandom(run);
            Knapsack items = Instances.items(100 + run, 30);
            Result<Knapsack.Load> alone = solve(items, tree(NodeSpec.FaultPolicy.FAIL));
            NodeSpec.FaultPolicy faults = random.nextBoolean() ? NodeSpec.FaultPolicy.GO_ON
                    : new NodeSpec.FaultPolicy(NodeSpec.FaultPolicy.Kind.RESTART, 100, 60_000, 1);
            NodeSpec tree = tree(faults, 1 + random.nextInt(3), 1 + random.nextInt(2));
            List<String> names = InOneJvm.below(tree);
            Set<Integer> when = new TreeSet<>();
            for (int kills = 1 + random.nextInt(5); kills > 0; kills--) {
                when.add(1 + random.nextInt((int) Math.max(2, alone.expanded())));
            }
            Problem<Knapsack.Load> slow = Slow.of(items, count -> {
                if (when.contains(count)) {
                    InOneJvm.kill(names.get(Math.floorMod(count * 31, names.size())));
                }
            });
            Result<Knapsack.Load> result = solve(slow, tree);
            Check.equal(alone.value(), result.value(), "value of run " + run);
            Check.equal(alone.position(), result.position(), "position of run " + run);
        }
    }

    public void a_run_goes_on_from_its_checkpoint_when_all_of_its_tree_was_lost() throws Exception {
        Path file = Scratch.file("bb.checkpoint");
        Knapsack items = Instances.items(11, 34);
        Result<Knapsack.Load> alone = solve(items, tree(NodeSpec.FaultPolicy.FAIL));
        // The client fails in mid-run: its nodes end with it. Marks of an older checkpoint are what is gone on from.
        Failing failing = new Failing(items);
        int rounds = 0;
        for (; ; rounds++) {
            Failing.left = (int) (alone.expanded() / 4 + 500) * (1 + rounds); // ends even if the machine lets nothing be kept
            try {
                Result<Knapsack.Load> result = solve(failing, tree(NodeSpec.FaultPolicy.FAIL, 2),
                        "jpop.checkpoint", file.toString(), "jpop.checkpoint.ms", "1", "jpop.tick.ms", "1");
                Check.equal(alone.value(), result.value(), "value");
                Check.equal(alone.position(), result.position(), "position");
                Check.that(rounds > 0, "it was never interrupted");
                break;
            } catch (JojoException e) {
                Check.that(e.getMessage().contains("pulled the plug"), e.getMessage());
                Check.that(rounds < 200, "it does not get on");
            }
        }
        // Once more: all is known.
        Failing.left = 1_000;
        Check.equal(alone.value(), solve(failing, tree(NodeSpec.FaultPolicy.FAIL, 2), "jpop.checkpoint", file.toString()).value(), "again");
        JojoException other = Check.thrown(JojoException.class,
                () -> solve(Instances.items(12, 34), tree(NodeSpec.FaultPolicy.FAIL), "jpop.checkpoint", file.toString()), "another problem");
        Check.that(other.getMessage().contains("of another problem"), other.getMessage());
    }

    /** Fails after so many branchings. */
    record Failing(Knapsack inner) implements Problem<Knapsack.Load> {
        private static final long serialVersionUID = 1;
        static volatile int left;

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
            if (load.decided() > 5 && --left < 0) {
                throw new IllegalStateException("pulled the plug");
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

    /** Does one thing wrong at one place. */
    record Wrong(String how) implements Problem<String> {
        private static final long serialVersionUID = 1;

        @Override
        public String root() {
            return "";
        }

        @Override
        public List<String> branch(String state) {
            if (how.equals("throws") && state.equals("ab")) {
                throw new IllegalArgumentException("of mine");
            }
            if (how.equals("endless")) {
                return List.of(state.equals("a") ? "b" : "a");
            }
            return how.equals("null") && state.equals("ab") ? null : state.length() == 4 ? List.of() : List.of(state + "a", state + "b");
        }

        @Override
        public long bound(String state) {
            return how.equals("bound") && state.equals("ab") ? 30 : how.equals("huge") ? Long.MAX_VALUE : 0;
        }

        @Override
        public OptionalLong value(String state) {
            return state.length() == 4 && !how.equals("none") ? OptionalLong.of(state.startsWith("aa") ? 40 : 20 - state.indexOf('b')) : OptionalLong.empty();
        }
    }

    public void what_a_persons_code_does_wrong_ends_the_run_and_is_said_with_the_subproblem() {
        String of = Wrong.class.getName();
        String[][] rows = {
            {"throws", of + ".branch of subproblem [0.1] (ab) threw java.lang.IllegalArgumentException: of mine"},
            {"null", of + ".branch of subproblem [0.1] (ab) gave null"},
            {"bound", of + ".bound of subproblem [0.1] (ab) is 30, but subproblem [0.1.0.0] below it is a solution of 19"},
            {"huge", of + ".bound of subproblem [] () is 9223372036854775807, which is further from 0"},
            {"endless", of + ".branch goes on below 10000 levels"},
        };
        for (String[] row : rows) {
            for (int[] shape : new int[][] {{}, {1, 1}}) {
                JojoException e = Check.thrown(
                        JojoException.class, () -> solve(new Wrong(row[0]), tree(NodeSpec.FaultPolicy.GO_ON, shape)), row[0]);
                Check.that(e.getMessage().contains(row[1]), row[0] + ": " + e.getMessage());
                Check.that(e.getMessage().contains("node t" + TREES.get() + "-"), "the node: " + e.getMessage());
            }
        }
    }

    public void a_problem_without_a_solution_has_none() throws JojoException {
        Wrong none = new Wrong("none");
        for (int[] shape : new int[][] {{}, {2}}) {
            Result<String> result = solve(none, tree(NodeSpec.FaultPolicy.FAIL, shape));
            Check.that(!result.found() && result.solution() == null, "found " + result);
        }
    }
}
