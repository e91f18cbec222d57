package silf.jojo.testkit;

import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/** What tests say: is it so, is it equal, does it come to be so. */
public final class Check {
    /** Longer than anything takes on a loaded machine. */
    private static final long UNTIL_MOST_MS = 60_000;

    private Check() {}

    public static void that(boolean so, String otherwise) {
        if (!so) {
            throw new AssertionError(otherwise);
        }
    }

    public static void equal(Object expected, Object actual, String of) {
        if (!Objects.deepEquals(expected, actual)) {
            throw new AssertionError(of + "\n  expected: " + expected + "\n  actual:   " + actual);
        }
    }

    /** Looks until it is so. */
    public static void until(String what, Callable<Boolean> so) throws Exception {
        long begun = System.nanoTime();
        while (!so.call()) {
            that(System.nanoTime() - begun < TimeUnit.MILLISECONDS.toNanos(UNTIL_MOST_MS), "not within " + UNTIL_MOST_MS + " ms: " + what);
            TimeUnit.MILLISECONDS.sleep(5);
        }
    }

    /** The exception of this class that it throws. */
    public static <E extends Throwable> E thrown(Class<E> type, Callable<?> by, String of) {
        try {
            by.call();
        } catch (Throwable e) {
            if (type.isInstance(e)) {
                return type.cast(e);
            }
            throw new AssertionError(of + ": threw " + e, e);
        }
        throw new AssertionError(of + ": nothing was thrown");
    }
}
