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
    /** A user's thread that happens to be the writer gives the task away after so much. */
    private static final int FAVOUR_MOST = 256 << 10;
    /** And a link's reader, which has other things to do, after so much. */
    private static final int BRIEF_MOST = 8 << 10;
    /** What a resumable link keeps unacknowledged (J13): a second at 4 MB/s. */
    static final int KEPT_MOST = 4 << 20;

    /**
     * Who sends again so soon after the last write sends many: then the link's own thread writes, and what comes meanwhile
     * goes with it. Less than any answer takes.
     */
    private static final long SOON_ns = 5_000;

    /** A write that takes longer has waited for room in a pipe. */
    private static final long SLOW_ns = 1_000_000;
    /** For so long after one the link's own thread writes what its readers would. */
    private static final long SLOW_FOR_ns = 20_000_000;

    /** A write to a wire that was closed fails at once. */
    private static final long LEAVE_MOST_ms = 10_000;

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
    /** Somebody waits for room. */
    private volatile boolean waiters;
    /** Somebody waits for the writer to have nothing to do. */
    private volatile boolean awaited;
    // Guarded by itself.
    private final Flight flight = new Flight();
    // Guarded by flight.
    private long sent_bytes;
    private long sentMessages;

    // Of the writer alone, handed on through `owed` and `given`.
    private final Map<Long, ArrayDeque<byte[]>> lanes = new HashMap<>();
    private final ArrayDeque<Long> turns = new ArrayDeque<>();
    /** Frames that may not overtake any other: each stands in all lanes that had something when it came. */
    private final Map<byte[], int[]> barriers = new java.util.IdentityHashMap<>();
    private final byte[] batch = new byte[BATCH];
    private int filled;
    /** When something was written last. */
    private long wrote_ns = System.nanoTime() - SOON_ns;

    private volatile long slowUntil_ns = System.nanoTime();

    private volatile boolean stopped;

    // Resumption (J13): guarded by `kept`.
    private final ArrayDeque<byte[]> kept;
    private long kept_bytes;
    private long numbered;
    private long confirmed;

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
        if (LinkReader.writes(this)) {
            return;
        }
        if (LinkThread.here()
                || unmounts && Threads.isVirtual(Thread.currentThread())
                || System.nanoTime() - wrote_ns < SOON_ns) {
            give();
        } else {
            write(FAVOUR_MOST);
        }
    }

    /** Waits while more than a little bulk is pending, or on its way. For threads of users only. */
    void awaitRoom() throws InterruptedException {
        if (LinkThread.here()) {
            return;
        }
        synchronized (flight) {
            while (!closed && flight.isFull(pending_bytes.get())) {
                waiters = true;
                LinkReader.waits();
                flight.wait();
            }
        }
    }

    /** What has been written so far. */
    Sent sent() {
        synchronized (flight) {
            return new Sent(sentMessages, sent_bytes);
        }
    }

    /** A PING of this side was answered. */
    void answered(long nonce) {
        synchronized (flight) {
            flight.passed(nonce, System.nanoTime());
            room();
        }
    }

    /** Whoever waits looks again. */
    private void room() {
        if (waiters && (closed || !flight.isFull(pending_bytes.get()))) {
            waiters = false;
            flight.notifyAll();
        }
    }

    /** Waits until nothing is pending, or it is too late. */
    void drain(Deadline deadline) throws InterruptedException {
        synchronized (flight) {
            awaited = true;
            while (!closed && owed.get() > 0 && !deadline.passed()) {
                flight.wait(Math.max(1, deadline.left_ms()));
            }
        }
    }

    /** Of a resumable link: waits until what is numbered was acknowledged, or it is too late. */
    void awaitConfirmed(Deadline deadline) throws InterruptedException {
        synchronized (kept) {
            while (!closed && !kept.isEmpty() && !deadline.passed()) {
                kept.wait(Math.max(1, deadline.left_ms()));
            }
        }
    }

    /** The writer has nothing more to write, or stopped: who waits for that looks. */
    private void rest() {
        if (awaited) {
            synchronized (flight) {
                flight.notifyAll();
            }
        }
    }

    /** As {@link #work}, in a thread that is missed elsewhere: not where writing has been slow lately. */
    void workBriefly() {
        long begun_ns = System.nanoTime();
        if (pending_bytes.get() > BRIEF_MOST || begun_ns - slowUntil_ns < 0) {
            give();
            return;
        }
        write(BRIEF_MOST);
        long now_ns = System.nanoTime();
        if (now_ns - begun_ns > SLOW_ns) {
            slowUntil_ns = now_ns + SLOW_FOR_ns;
        }
    }

    /** Leaves the writing to the link's own thread. */
    void give() {
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
                wrote_ns = System.nanoTime();
                seen = owed.addAndGet(-seen);
                if (seen == 0) {
                    rest();
                    return;
                }
            }
        } catch (IOException e) {
            stopped = true;
            filled = 0;
            if (kept == null) {
                close();
            }
            rest();
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
        int messages = 0;
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
                messages += Frame.isMessage(frame) ? 1 : 0;
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
            wrote(sum, messages, !last);
        }
        if (last) {
            flush();
            broken.said();
        }
        return sum;
    }

    /** @param more whether frames may follow */
    private void wrote(int bytes, int messages, boolean more) throws IOException {
        long nonce = 0;
        synchronized (flight) {
            sent_bytes += bytes;
            sentMessages += messages;
            pending_bytes.addAndGet(-bytes);
            if (flight.wrote(bytes) && more) {
                nonce = flight.mark(System.nanoTime());
            }
            room();
        }
        if (nonce != 0) {
            put(Frame.ofLong(Frame.PING, nonce));
        }
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
        boolean interrupted = false;
        synchronized (kept) {
            try {
                numbered++;
                kept.add(frame);
                kept_bytes += frame.length;
                while (kept_bytes > KEPT_MOST && !closed) {
                    // The peer owes an ACK; it sends one every KEPT_MOST / 8 bytes, so this is a wire that does not move.
                    flush();
                    LinkReader.waits();
                    try {
                        kept.wait(1000);
                    } catch (InterruptedException e) {
                        interrupted = true; // it ends no write, as none to a socket
                    }
                }
            } finally {
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    /** The peer has received this many numbered frames. Fewer than before say nothing: an ACK may have waited while the wire was cut. */
    void confirm(long received) throws Violation {
        if (kept == null) {
            throw new Violation("ACK on a link that cannot be resumed");
        }
        synchronized (kept) {
            if (received > numbered) {
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
    void resume(OutputStream next, long received) throws IOException, InterruptedException {
        if (owed.getAndIncrement() != 0) {
            // There is a writer, on the closed wire or stopped already.
            Deadline leaving = Deadline.in_ms(LEAVE_MOST_ms);
            synchronized (flight) {
                awaited = true;
                while (!stopped && !closed) {
                    if (leaving.passed()) {
                        throw new IOException("the writer does not leave the old wire");
                    }
                    flight.wait(Math.max(1, leaving.left_ms()));
                }
            }
        }
        synchronized (flight) {
            flight.begin();
            room();
        }
        stopped = true; // should the new wire fail as well
        synchronized (kept) {
            if (received < confirmed) {
                throw new Violation("HELLO of " + received + " received where " + confirmed + " were confirmed");
            }
        }
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

    /** Nothing more is taken or written; who waits goes on. */
    void close() {
        closed = true;
        LockSupport.unpark(thread);
        synchronized (flight) {
            flight.notifyAll();
        }
        if (kept != null) {
            synchronized (kept) {
                kept.notifyAll();
            }
        }
    }
}
