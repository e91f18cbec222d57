package silf.jojo.core;

import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Frames on their way out of one link. Whoever adds a frame while nobody writes becomes the writer, and writes what others
 * add meanwhile as well: bytes accumulate while a write is pending, with no timer and no lock. Lanes take turns, so that a
 * small message does not wait behind another lane's bulk. Threads that must not wait (link threads, and virtual ones where
 * a write may unmount them) leave the writing to the link's own thread. Not in it: credit, reading, what frames mean.
 */
final class Outbox {
    /** What a lane may write in one turn: a quarter of a full frame's time is what a small message waits at most. */
    private static final int TURN = 16 << 10;
    /** Small frames are written together, up to what a pipe takes at once. */
    private static final int BATCH = 64 << 10;
    /** What a sender of bulk may leave here before it waits: enough to keep the wire busy, little to stand behind. */
    private static final int BULK_MOST = 128 << 10;
    /** A user's thread that happens to be the writer gives the task away after so much. */
    private static final int FAVOUR_MOST = 256 << 10;
    /** What a resumable link keeps unacknowledged (J13): a second at 4 MB/s. */
    static final int KEPT_MOST = 4 << 20;

    interface Broken {
        /** The wire failed under the writer, who stops: nothing is written until {@link #resume}. */
        void broken(IOException cause);

        /** The frame that ends this side (GOODBYE) has been written. */
        void said();
    }

    private final ConcurrentLinkedQueue<byte[]> arrived = new ConcurrentLinkedQueue<>();
    /** Frames added and not yet accounted for by the writer; above 0 there is a writer. */
    private final AtomicInteger owed = new AtomicInteger();

    private final AtomicLong pending_bytes = new AtomicLong();
    private volatile boolean closed;
    private volatile OutputStream out;
    private final boolean unmounts;
    private final Broken broken;
    private final LinkThread thread;
    private volatile boolean given;
    private volatile boolean waiters;

    // Of the writer alone, handed on through `owed` and `given`.
    private final Map<Long, ArrayDeque<byte[]>> lanes = new HashMap<>();
    private final ArrayDeque<Long> turns = new ArrayDeque<>();
    /** Frames that may not overtake any other: each stands in all lanes that had something when it came. */
    private final Map<byte[], int[]> barriers = new java.util.IdentityHashMap<>();
    private final byte[] batch = new byte[BATCH];
    private int filled;
    private volatile boolean stopped;

    // Resumption (J13): guarded by `kept`.
    private final ArrayDeque<byte[]> kept;
    private long kept_bytes;
    private long numbered;
    private long confirmed;

    /** @param thread whether it has a thread of its own to write; without, only tests of one thread work */
    Outbox(String name, OutputStream out, boolean unmounts, boolean resumable, Broken broken) {
        this.out = out;
        this.unmounts = unmounts;
        this.broken = broken;
        this.kept = resumable ? new ArrayDeque<>() : null;
        this.thread = new LinkThread(name + " out", this::serve);
        thread.start();
    }

    /**
     * Adds a frame. Never waits.
     *
     * @return whether nobody writes: the caller must call {@link #work}, soon and without a lock
     */
    boolean offer(byte[] frame) {
        if (closed) {
            return false;
        }
        pending_bytes.addAndGet(frame.length);
        arrived.add(frame);
        return owed.getAndIncrement() == 0;
    }

    /** Writes what is there, in this thread or, if it must not wait, in the link's own. */
    void work() {
        if (LinkThread.here() || unmounts && Threads.isVirtual(Thread.currentThread())) {
            give();
        } else {
            write(FAVOUR_MOST);
        }
    }

    /** Waits while more than a little bulk is pending. For threads of users only. */
    void awaitRoom() throws InterruptedException {
        if (pending_bytes.get() <= BULK_MOST || LinkThread.here()) {
            return;
        }
        synchronized (this) {
            while (!closed && pending_bytes.get() > BULK_MOST) {
                waiters = true;
                wait();
            }
        }
    }

    /** Waits until nothing is pending, or it is too late. */
    void drain(Deadline deadline) throws InterruptedException {
        while (!closed && owed.get() > 0 && !deadline.passed()) {
            Thread.sleep(0, 200_000);
        }
    }

    private void give() {
        given = true;
        LockSupport.unpark(thread);
    }

    private void serve() {
        while (!closed) {
            if (given) {
                given = false;
                write(Long.MAX_VALUE);
            } else {
                LockSupport.park(this);
            }
        }
    }

    private void write(long favour) {
        if (stopped) {
            return; // keeps the role until resume() takes it
        }
        try {
            for (int seen = owed.get(); ; ) {
                take();
                while (!turns.isEmpty()) {
                    favour -= turn();
                    take();
                    if (favour < 0 && !turns.isEmpty()) {
                        flush();
                        give();
                        return;
                    }
                }
                flush();
                seen = owed.addAndGet(-seen);
                if (seen == 0) {
                    return;
                }
            }
        } catch (IOException e) {
            stopped = true;
            filled = 0;
            if (kept == null) {
                close();
            }
            broken.broken(e);
        }
    }

    /** Moves what has arrived to the lanes. */
    private void take() {
        long lastKey = 0;
        ArrayDeque<byte[]> last = null;
        for (byte[] frame; (frame = arrived.poll()) != null; ) {
            if (Frame.isBarrier(frame) && !turns.isEmpty()) {
                barriers.put(frame, new int[] {lanes.size()});
                for (ArrayDeque<byte[]> lane : lanes.values()) {
                    lane.add(frame);
                }
                continue;
            }
            long key = Frame.key(frame);
            if (last == null || key != lastKey) {
                last = lanes.get(key);
                if (last == null) {
                    last = new ArrayDeque<>();
                    lanes.put(key, last);
                    turns.add(key);
                }
                lastKey = key;
            }
            last.add(frame);
        }
    }

    /** Writes one lane's turn; answers how many bytes. */
    private int turn() throws IOException {
        Long key = turns.poll();
        ArrayDeque<byte[]> lane = lanes.get(key);
        int sum = 0;
        boolean last = false;
        try {
            while (sum < TURN && !lane.isEmpty()) {
                byte[] frame = lane.poll();
                if (!barriers.isEmpty()) {
                    int[] before = barriers.get(frame);
                    if (before != null && --before[0] > 0) {
                        continue;
                    }
                    barriers.remove(frame);
                }
                sum += frame.length;
                last |= Frame.type(frame) == Frame.GOODBYE;
                put(frame);
            }
        } finally {
            // Of what could not be written, a resumable link has kept what counts; the rest has its turn again.
            if (lane.isEmpty()) {
                lanes.remove(key);
            } else {
                turns.add(key);
            }
            if (pending_bytes.addAndGet(-sum) <= BULK_MOST / 2 && waiters) {
                synchronized (this) {
                    waiters = false;
                    notifyAll();
                }
            }
        }
        if (last) {
            flush();
            broken.said();
        }
        return sum;
    }

    private void put(byte[] frame) throws IOException {
        if (kept != null && isNumbered(frame)) {
            keep(frame);
        }
        if (frame.length > BATCH - filled) {
            spill();
        }
        if (frame.length > BATCH / 4) {
            spill();
            out.write(frame, 0, frame.length);
        } else {
            System.arraycopy(frame, 0, batch, filled, frame.length);
            filled += frame.length;
        }
    }

    private void spill() throws IOException {
        if (filled > 0) {
            int size = filled;
            filled = 0;
            out.write(batch, 0, size);
        }
    }

    private void flush() throws IOException {
        spill();
        out.flush();
    }

    /** What resumption counts (J13): all that says something new about the tree, its code or its messages. */
    static boolean isNumbered(byte[] frame) {
        return Frame.type(frame) >= Frame.BLOBS;
    }

    // -- resumption --------------------------------------------------------------------------------------------------

    private void keep(byte[] frame) throws IOException {
        synchronized (kept) {
            numbered++;
            kept.add(frame);
            kept_bytes += frame.length;
            while (kept_bytes > KEPT_MOST && !closed) {
                // The peer owes an ACK; it sends one every KEPT_MOST / 8 bytes, so this is a wire that does not move.
                flush();
                try {
                    kept.wait(1000);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new IOException("interrupted while the peer acknowledges nothing", e);
                }
            }
        }
    }

    /** The peer has received this many numbered frames. */
    void confirm(long received) throws Violation {
        if (kept == null) {
            throw new Violation("ACK on a link that cannot be resumed");
        }
        synchronized (kept) {
            if (received < confirmed || received > numbered) {
                throw new Violation("ACK " + received + " where " + confirmed + " to " + numbered + " can be");
            }
            for (; confirmed < received; confirmed++) {
                kept_bytes -= kept.poll().length;
            }
            kept.notifyAll();
        }
    }

    /**
     * Goes on over another wire, behind frames that were written but not received. The caller has closed the old wire, so
     * that a writer on it has failed or will.
     */
    void resume(OutputStream next, long received) throws IOException {
        if (owed.getAndIncrement() != 0) {
            // There is a writer, on the closed wire or stopped already.
            long begun = System.nanoTime();
            while (!stopped && !closed) {
                if (System.nanoTime() - begun > 10_000_000_000L) {
                    throw new IOException("the writer does not leave the old wire");
                }
                LockSupport.parkNanos(100_000);
            }
        }
        stopped = true; // should the new wire fail as well
        confirm(received);
        out = next;
        List<byte[]> again;
        synchronized (kept) {
            again = new ArrayList<>(kept);
        }
        for (byte[] frame : again) {
            next.write(frame);
        }
        next.flush();
        stopped = false;
        give();
    }

    /** Whether all that was added has been written, and what is numbered acknowledged. */
    boolean isSettled() {
        if (owed.get() > 0 || kept == null) {
            return owed.get() == 0;
        }
        synchronized (kept) {
            return kept.isEmpty();
        }
    }

    /** Nothing more is taken or written; who waits goes on. */
    void close() {
        closed = true;
        LockSupport.unpark(thread);
        synchronized (this) {
            notifyAll();
        }
        if (kept != null) {
            synchronized (kept) {
                kept.notifyAll();
            }
        }
    }
}
