package silf.jojo.core;

/**
 * A platform thread that others depend on to go on: it reads or writes a link, or serves classes. Never a virtual one (a
 * virtual thread that loads a class holds its carrier until such a thread brings the bytes), and never one that runs code
 * of the user or waits for room on a link it does not write.
 */
final class LinkThread extends Thread {
    LinkThread(String name, Runnable work) {
        super(null, work, "jojo " + name, 256 << 10);
        setDaemon(true);
    }

    /** Whether the current thread must not wait for any link. */
    static boolean here() {
        return currentThread() instanceof LinkThread;
    }
}
