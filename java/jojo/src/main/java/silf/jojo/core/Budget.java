package silf.jojo.core;

import java.util.ArrayDeque;

/**
 * How many bytes of large messages a node holds while they come in. One that finds no room waits its turn, without credit,
 * so that what has begun can end.
 */
final class Budget {
    private record Waiter(long bytes, Runnable go) {}

    private final long most_bytes;
    private long free_bytes;
    private final ArrayDeque<Waiter> waiters = new ArrayDeque<>();

    Budget(long most_bytes) {
        this.most_bytes = most_bytes;
        this.free_bytes = most_bytes;
    }

    /** A third of the heap: the bytes of a message and the object made of them are there at the same time. */
    static Budget ofThisJvm() {
        return new Budget(Runtime.getRuntime().maxMemory() / 3);
    }

    /** A message of more can never be had. */
    long most_bytes() {
        return most_bytes;
    }

    /** True if there is room; else {@code go} is called later, once there is, by whoever gave it back. */
    synchronized boolean take(long bytes, Runnable go) {
        if (waiters.isEmpty() && bytes <= free_bytes) {
            free_bytes -= bytes;
            return true;
        }
        waiters.add(new Waiter(bytes, go));
        return false;
    }

    void give(long bytes) {
        ArrayDeque<Runnable> now = new ArrayDeque<>();
        synchronized (this) {
            free_bytes += bytes;
            while (!waiters.isEmpty() && waiters.peek().bytes() <= free_bytes) {
                free_bytes -= waiters.peek().bytes();
                now.add(waiters.poll().go());
            }
        }
        now.forEach(Runnable::run);
    }
}
