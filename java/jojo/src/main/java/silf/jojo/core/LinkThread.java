package silf.jojo.core;

/**
 * A platform thread that others depend on to go on: it reads or writes a link, or serves classes. Never a virtual one (a
 * virtual thread that loads a class holds its carrier until such a thread brings the bytes), and never one that runs code
 * of the user or waits for room on a link it does not write, but for a {@link LinkReader} whose place another can take.
 */
class LinkThread extends Thread {
    /** Ours run no deep calls. */
    private static final long STACK_bytes = 256 << 10;

    LinkThread(String name, Runnable work) {
        this(name, work, STACK_bytes);
    }

    LinkThread(String name, Runnable work, long stack_bytes) {
        super(null, work, "jojo " + name, stack_bytes);
        setDaemon(true);
    }

    /** Whether this thread must not wait for any link. */
    boolean isNeeded() {
        return true;
    }

    /** Whether the current thread must not wait for any link. */
    static boolean here() {
        return currentThread() instanceof LinkThread it && it.isNeeded();
    }
}
