package silf.jpop.bb;

import java.util.SplittableRandom;
import silf.jpop.bb.problems.Knapsack;
import silf.jpop.bb.problems.Salesman;

/** Instances that follow from a seed: of tests and of {@code ./x bench jpop}. */
public final class Instances {
    private Instances() {}

    /** Items that are hard for their number: each is worth nearly as much for its weight as any other. */
    public static Knapsack items(long seed, int count) {
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

    /** Cities anywhere in a square. */
    public static Salesman cities(long seed, int count) {
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
}
