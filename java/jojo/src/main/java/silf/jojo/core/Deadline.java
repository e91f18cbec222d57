package silf.jojo.core;

import java.time.Duration;

/** An instant by the monotonic clock of this JVM. Never leaves it: clocks of hosts are not compared. */
public record Deadline(long at_ns) {
    public static Deadline in(Duration time) {
        long ns;
        try {
            ns = time.toNanos();
        } catch (ArithmeticException e) {
            ns = Long.MAX_VALUE / 2; // centuries
        }
        return new Deadline(System.nanoTime() + Math.min(ns, Long.MAX_VALUE / 2));
    }

    public static Deadline in_ms(long ms) {
        return in(Duration.ofMillis(ms));
    }

    /** What is left of it, not below 0. */
    public long left_ns() {
        return Math.max(0, at_ns - System.nanoTime());
    }

    /** What is left of it in whole milliseconds, rounded up: 0 only when it has passed. */
    public long left_ms() {
        return (left_ns() + 999_999) / 1_000_000;
    }

    public boolean passed() {
        return left_ns() == 0;
    }
}
