package silf.jojo.core;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

/**
 * The thread that reads a link. When it has taken all that has come it first runs its errands: it writes what the frames
 * have caused, and runs a handler, for both of which another thread would have to be woken. An errand may wait for
 * anything: another reader goes on in this one's place at once when it waits for messages, or else when it takes longer than a
 * moment, and this one ends with its errand. Not in it: frames, links.
 */
final class LinkReader extends LinkThread {
    /**
     * For how long, once or twice, a link is not read because its reader is away. A thread that looks every millisecond makes
     * each call over three ssh take half as long again: it scatters who passes the call on over the processors.
     */
    private static final long MOMENT_ns = 10_000_000;
    /** The watch looks so often in vain before it sleeps. */
    private static final int LOOKS = 4;

    private final Link link;
    private final List<Outbox> unwritten = new ArrayList<>();
    private Runnable handler;
    private boolean taking;
    private boolean away;
    private boolean replaced;
    /** How often it went on errands. */
    volatile long errands;

    /** @param work is given the reader */
    LinkReader(String name, Link link, java.util.function.Consumer<LinkReader> work) {
        // It runs handlers: a stack as other threads have it.
        super(name + " in", () -> work.accept((LinkReader) currentThread()), 0);
        this.link = link;
    }

    private static LinkReader taking() {
        return currentThread() instanceof LinkReader me && me.taking ? me : null;
    }

    /** Whether the current thread is a reader that writes what was offered there in a moment. */
    static boolean writes(Outbox outbox) {
        LinkReader me = taking();
        return me != null && me.unwritten.add(outbox);
    }

    /** Whether the current thread is a reader that runs the handler in a moment. */
    static boolean handles(Runnable handler) {
        LinkReader me = taking();
        if (me == null || me.handler != null || me.link.hasMore()) {
            return false;
        }
        me.handler = handler;
        return true;
    }

    /** The current thread is about to wait for what may have to be read first: if it should read itself, another does. */
    static void waits() {
        if (currentThread() instanceof LinkReader me && me.away && !me.replaced) {
            me.replaced = me.link.replace(me);
        }
    }

    /** Whether the current thread is a reader in whose place another reads. */
    static boolean isReplaced() {
        return currentThread() instanceof LinkReader me && me.replaced;
    }

    /** From now on a frame is being dealt with, or not. */
    void take(boolean begins) {
        taking = begins;
    }

    @Override
    boolean isNeeded() {
        return !away;
    }

    boolean hasErrands() {
        return handler != null || !unwritten.isEmpty();
    }

    /** While the link is lent. */
    void runErrands() {
        away = true;
        errands++;
        Watch.wake();
        for (Outbox outbox : unwritten) {
            outbox.workBriefly();
        }
        unwritten.clear();
        Runnable next = handler;
        handler = null;
        if (next != null) {
            next.run();
        }
        away = false;
    }

    /** Reading has come to an end: leaves what was offered to other threads. */
    void leaveErrands() {
        taking = false;
        unwritten.forEach(Outbox::give);
        unwritten.clear();
    }

    /** Looks after links whose readers are away. One for a JVM; sleeps while no reader runs errands. */
    static final class Watch {
        private static final Set<Link> LINKS = ConcurrentHashMap.newKeySet();
        private static final LinkThread THREAD = new LinkThread("watch", Watch::look);
        private static volatile boolean busy;
        private static volatile boolean asleep;

        static {
            THREAD.start();
        }

        private Watch() {}

        static void add(Link link) {
            LINKS.add(link);
        }

        static void remove(Link link) {
            LINKS.remove(link);
        }

        static void wake() {
            busy = true;
            if (asleep) {
                asleep = false;
                LockSupport.unpark(THREAD);
            }
        }

        private static void look() {
            for (int idle = 0; ; ) {
                boolean away = busy;
                busy = false;
                for (Link link : LINKS) {
                    away |= link.overlook();
                }
                idle = away ? 0 : idle + 1;
                if (idle < LOOKS) {
                    LockSupport.parkNanos(MOMENT_ns);
                    continue;
                }
                idle = 0;
                asleep = true;
                while (asleep && !busy) {
                    LockSupport.park();
                }
                asleep = false;
            }
        }
    }
}
