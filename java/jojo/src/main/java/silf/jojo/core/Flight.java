package silf.jojo.core;

import java.util.ArrayDeque;

/**
 * How much of what was written to a link has not been read at the other end (spec/jojo J16: marks are PINGs), and how much
 * of that there should be: enough that the link is never idle, and so little that what comes last waits for a moment only.
 * Pipes, ssh and sockets would hold megabytes. Delays above the least one are queues; they grow the window while they are
 * short and shrink it while they are long, as LEDBAT does, which looks at the least of some as well (RFC 6817). No clock, no
 * frames: values in, values out.
 */
final class Flight {
    /** The queue that is aimed at: what a small message behind bulk waits on a link, about. */
    static final long QUEUE_ns = 1_000_000;
    /** What a pipe takes: less would idle between two wake-ups. */
    static final long LEAST = 64 << 10;
    /** An ssh channel's own window is half of it. */
    static final long MOST = 4 << 20;

    private static final long BEGIN = 128 << 10;
    /** Marks of a window: each is a small frame both ways. */
    private static final int MARKS = 4;
    /** So many delays are looked at together: a queue is in all of them, a processor that was busy elsewhere only in some. */
    private static final int FILTER = 2;
    /** The least delay of so long a time counts: routes change. */
    private static final long AGE_ns = 60_000_000_000L;

    private record Mark(long nonce, long written, long at_ns) {}

    private final ArrayDeque<Mark> marks = new ArrayDeque<>();
    private long written;
    private long passed;
    private long window = BEGIN;
    private long nonces;
    private long marked;
    private long changed_ns;
    private long least_ns = Long.MAX_VALUE;
    private long before_ns = Long.MAX_VALUE;
    private long aged_ns;
    private long recent_ns = Long.MAX_VALUE;
    private int looked;
    /** Somebody asked since the last mark; small messages alone are not worth marks. */
    private boolean bulk;

    private boolean full;
    /** No queue has been seen yet. */
    private boolean fast = true;

    /** @return whether a mark is due */
    boolean wrote(int bytes) {
        written += bytes;
        if (!bulk && marks.isEmpty()) {
            passed = written;
            marked = written;
            return false;
        }
        return written - marked >= window / MARKS;
    }

    /** The nonce of a mark that is written now. */
    long mark(long now_ns) {
        marked = written;
        bulk = false;
        marks.add(new Mark(++nonces, written, now_ns));
        return nonces;
    }

    /**
     * Whether so much more, that waits to be written, would be too much. Not where nothing waits and no mark is under way, as when the
     * window has shrunk below what was written behind the last one: only what is written next brings a mark.
     */
    boolean isFull(long waiting) {
        bulk = true;
        boolean is = waiting + written - passed > window && (waiting > 0 || !marks.isEmpty());
        full |= is;
        return is;
    }

    /** A mark has been answered. Any other nonce says nothing. */
    void passed(long nonce, long now_ns) {
        if (marks.isEmpty() || nonce < marks.peek().nonce || nonce > nonces) {
            return;
        }
        Mark mark = marks.poll();
        while (mark.nonce < nonce) {
            mark = marks.poll();
        }
        passed = mark.written;
        long took_ns = Math.max(1, now_ns - mark.at_ns);
        if (now_ns - aged_ns > AGE_ns) {
            aged_ns = now_ns;
            before_ns = least_ns;
            least_ns = took_ns;
        }
        least_ns = Math.min(least_ns, took_ns);
        if (mark.at_ns < changed_ns) {
            return; // it was under way before the last change could be felt
        }
        recent_ns = Math.min(recent_ns, took_ns);
        if (++looked < FILTER) {
            return;
        }
        took_ns = recent_ns;
        recent_ns = Long.MAX_VALUE;
        looked = 0;
        // On a far link a longer queue is not felt, and delays vary more.
        long base_ns = Math.min(least_ns, before_ns);
        long queue_ns = Math.max(QUEUE_ns, base_ns / 4);
        fast &= took_ns <= base_ns + queue_ns / 4;
        if (took_ns > base_ns + queue_ns) {
            window = Math.max(LEAST, (long) (window * ((double) (base_ns + queue_ns) / took_ns)));
        } else if (full) {
            window = Math.min(MOST, fast ? 2 * window : window + window / 8);
        } else {
            return;
        }
        full = false;
        changed_ns = now_ns;
    }

    /** Another wire: what was on its way is not any more. */
    void begin() {
        marks.clear();
        passed = written;
        marked = written;
    }

    long window() {
        return window;
    }
}
