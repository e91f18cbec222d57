package silf.jpop.bb;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import silf.jpop.Damaged;
import silf.jpop.Numbers;

/** Open subproblems and solutions as bytes, and back (spec/jpop B3, B4): in messages and in checkpoints. */
final class Coded {
    /** Open subproblems of a whole tree: 1,000 nodes of depth 1,000 that each keep four a level. */
    static final int OPEN_MOST = 1 << 22;
    /** Children of one state; more are a branching without end. */
    static final int CHILDREN_MOST = 1 << 24;

    private Coded() {}

    /** @param opens in order of position */
    static byte[] opens(List<? extends Open<?>> opens) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(16 + 16 * opens.size());
        Numbers.put(out, opens.size());
        int[] before = {};
        for (Open<?> open : opens) {
            before = put(out, open.at, before);
            Numbers.putSigned(out, open.bound);
        }
        return out.toByteArray();
    }

    static <S> List<Open<S>> opens(byte[] bytes) throws Damaged {
        Numbers in = new Numbers(bytes);
        List<Open<S>> opens = opens(in);
        in.end();
        return opens;
    }

    static <S> List<Open<S>> opens(Numbers in) throws Damaged {
        int count = in.count(OPEN_MOST, 3, "open subproblems");
        List<Open<S>> opens = new ArrayList<>(count);
        int[] before = {};
        Position last = null;
        for (int i = 0; i < count; i++) {
            before = children(in, before);
            Position at = Position.of(before);
            if (last != null && last.compareTo(at) >= 0) {
                throw in.damaged("subproblem " + at + " stands behind " + last);
            }
            if (last != null && last.holds(at)) {
                throw in.damaged("subproblem " + at + " is below " + last);
            }
            last = at;
            opens.add(new Open<>(at, value(in), null));
        }
        return opens;
    }

    /** @param best null for none */
    static byte[] best(Best best) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(32);
        put(out, best);
        return out.toByteArray();
    }

    static void put(ByteArrayOutputStream out, Best best) {
        Numbers.put(out, best == null ? 0 : 1);
        if (best != null) {
            put(out, best.at(), new int[0]);
            Numbers.putSigned(out, best.cost());
        }
    }

    static Best best(byte[] bytes) throws Damaged {
        Numbers in = new Numbers(bytes);
        Best best = best(in);
        in.end();
        return best;
    }

    static Best best(Numbers in) throws Damaged {
        if (in.count(1, 0, "solutions") == 0) {
            return null;
        }
        Position at = Position.of(children(in, new int[0]));
        return new Best(value(in), at);
    }

    private static long value(Numbers in) throws Damaged {
        long value = in.signed();
        if (value > Problem.VALUE_MOST || value < -Problem.VALUE_MOST) {
            throw in.damaged("a value of " + value);
        }
        return value;
    }

    private static int[] put(ByteArrayOutputStream out, Position at, int[] before) {
        int[] children = at.children();
        int same = 0;
        while (same < Math.min(before.length, children.length) && before[same] == children[same]) {
            same++;
        }
        Numbers.put(out, same);
        Numbers.put(out, children.length - same);
        for (int i = same; i < children.length; i++) {
            Numbers.put(out, children[i]);
        }
        return children;
    }

    private static int[] children(Numbers in, int[] before) throws Damaged {
        int same = in.count(before.length, 0, "levels shared with the one before");
        int more = in.count(Position.DEPTH_MOST - same, 1, "levels");
        int[] children = new int[same + more];
        System.arraycopy(before, 0, children, 0, same);
        for (int i = same; i < children.length; i++) {
            children[i] = in.count(CHILDREN_MOST, 0, "children");
        }
        return children;
    }
}
