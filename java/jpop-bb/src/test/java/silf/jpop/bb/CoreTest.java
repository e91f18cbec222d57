package silf.jpop.bb;

import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import silf.jojo.JojoException;
import silf.jojo.testkit.Check;

/** Branch and bound as values: every history ends with the one best solution, and nothing is lost on the way. */
public final class CoreTest {
    /** Histories of a run; {@code -Djpop.histories=N} for more. */
    private static final int HISTORIES = Integer.getInteger("jpop.histories", 10_000);
    private static final long SEED = Long.getLong("jpop.seed", 1);
    private static final int[][] SHAPES = {{}, {1}, {2}, {4}, {2, 2}, {3, 2}, {1, 3}, {2, 2, 2}, {1, 1, 1, 2}};

    private static Best first(Map<Position, Long> solutions) {
        Best best = null;
        for (var solution : solutions.entrySet()) {
            Best it = new Best(solution.getValue(), solution.getKey());
            best = it.surpasses(best) ? it : best;
        }
        return best;
    }

    private static void histories(int count, boolean kills) throws JojoException {
        int killed = 0;
        int found = 0;
        Maze maze = null;
        Map<Position, Long> solutions = null;
        for (int i = 0; i < count; i++) {
            SplittableRandom random = new SplittableRandom(SEED * 1_000_003 + i);
            if (i % 5 == 0) { // to look at all of a problem takes longer than a history
                maze = new Maze(random.nextLong(), 2 + random.nextInt(5), 1 + random.nextInt(4), random.nextInt(6));
                solutions = Histories.solutions(maze);
            }
            int[] shape = SHAPES[random.nextInt(SHAPES.length)];
            long seed = random.nextLong();
            var history = new Histories<>(seed, maze, solutions, shape, kills ? random.nextInt(6) : 0);
            try {
                Best best = history.run();
                Check.equal(first(solutions), best, "the result");
                found += best == null ? 0 : 1;
            } catch (AssertionError | JojoException e) {
                throw new AssertionError("history " + i + " of -Djpop.seed=" + SEED + ": " + maze + " on " + List.of(shape), e);
            }
            killed += history.killed;
        }
        Check.that(found > count / 2, "only " + found + " problems had a solution");
        Check.that(!kills || killed > count / 2, "only " + killed + " nodes were lost");
    }

    public void every_history_ends_with_the_first_of_the_best() throws JojoException {
        histories(HISTORIES / 4, false);
    }

    public void every_history_with_losses_ends_with_the_first_of_the_best_and_no_subproblem_is_lost() throws JojoException {
        histories(HISTORIES, true);
    }
}
