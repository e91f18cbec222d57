package silf.jpop.bb;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.SplittableRandom;

/** A random problem of a few hundred states, with many equal values and bounds as loose as its seed says. */
record Maze(long seed, int deep, int wide, int loose) implements Problem<int[]> {
    private static final long serialVersionUID = 1;

    @Override
    public int[] root() {
        return new int[0];
    }

    private SplittableRandom random(int[] state) {
        return new SplittableRandom(seed * 31 + java.util.Arrays.hashCode(state));
    }

    @Override
    public List<int[]> branch(int[] state) {
        if (state.length >= deep) {
            return List.of();
        }
        int count = random(state).nextInt(wide + 1);
        if (state.length == 0) {
            count = wide;
        }
        List<int[]> below = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int[] next = java.util.Arrays.copyOf(state, state.length + 1);
            next[state.length] = i;
            below.add(next);
        }
        return below;
    }

    /** The best below, less something; looked up by looking at all. */
    @Override
    public long bound(int[] state) {
        return best(state) - random(state).nextInt(loose + 1);
    }

    private long best(int[] state) {
        long best = value(state).orElse(1_000);
        for (int[] below : branch(state)) {
            best = Math.min(best, best(below));
        }
        return best;
    }

    @Override
    public OptionalLong value(int[] state) {
        SplittableRandom random = random(state);
        random.nextInt();
        return state.length > 0 && random.nextInt(3) == 0 ? OptionalLong.of(random.nextInt(8)) : OptionalLong.empty();
    }

    @Override
    public String show(int[] state) {
        return java.util.Arrays.toString(state);
    }
}
