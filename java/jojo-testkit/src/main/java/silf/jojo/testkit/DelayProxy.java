package silf.jojo.testkit;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/**
 * A TCP port that leads to another one as if it were far away.
 *
 * <p>The model, for each connection and direction by itself: bytes that arrive at t leave at max(t + half the round trip,
 * when the ones before them have left) and take count / rate to do so; nothing is lost or reordered. The rate is one for
 * all connections, which take turns at a queue of {@link #QUEUE_MOST_MS}; at most {@link #HELD_MOST_BYTES} of a connection
 * are under way; beyond these a sender is held up as by a full window. Connecting takes one round trip before the first byte moves. Delays
 * are kept to a tenth of a millisecond.
 *
 * <p>What the model lacks: congestion control, loss, jitter.
 */
public final class DelayProxy implements Closeable {
    /** 300 ms at 100 MB/s: the kernel's own buffers, not this one, are to limit a fast far link. */
    private static final int HELD_MOST_BYTES = 32 << 20;

    /** The buffer of a modem or a router of a slow line. */
    private static final long QUEUE_MOST_MS = 200;

    /** Pieces so small that a rate of some kB/s is smooth. */
    private static final int PIECE_BYTES = 4096;

    /** A sleep of the kernel is late by about this; the rest is spun. */
    private static final long SPIN_NS = 60_000;

    private final ServerSocket door;
    private final InetSocketAddress target;
    private final long halfTrip_ns;
    private final Line up;
    private final Line down;
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean closed = new AtomicBoolean();

    /**
     * @param roundTrip_ms both directions together
     * @param bytesPerSecond of each direction, over all connections; 0 for as fast as it goes
     */
    public DelayProxy(InetSocketAddress target, double roundTrip_ms, long bytesPerSecond) throws IOException {
        this.target = target;
        this.halfTrip_ns = (long) (roundTrip_ms * 1e6 / 2);
        this.up = new Line(bytesPerSecond);
        this.down = new Line(bytesPerSecond);
        this.door = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
        thread("delay proxy", this::accept);
    }

    /** What has come for the target so far, and from it: over all connections. */
    public long[] bytes() {
        return new long[] {up.bytes(), down.bytes()};
    }

    public int port() {
        return door.getLocalPort();
    }

    /** All connections are cut, as when a cable is; new ones are taken. */
    public void cut() {
        for (Socket socket : sockets) {
            shut(socket);
        }
    }

    @Override
    public void close() {
        closed.set(true);
        shut(door);
        cut();
    }

    private void accept() {
        while (!closed.get()) {
            try {
                Socket near = door.accept();
                Socket far = new Socket();
                sockets.add(near);
                sockets.add(far);
                thread("delay proxy: a connection", () -> connect(near, far));
            } catch (IOException e) {
                if (!closed.get()) {
                    throw new IllegalStateException("the delay proxy's port", e);
                }
            }
        }
    }

    private void connect(Socket near, Socket far) {
        try {
            waitUntil(System.nanoTime() + 2 * halfTrip_ns);
            far.connect(target);
            near.setTcpNoDelay(true);
            far.setTcpNoDelay(true);
            pump(near, far, up);
            pump(far, near, down);
        } catch (IOException e) {
            shut(near);
            shut(far);
        }
    }

    private void pump(Socket from, Socket to, Line line) {
        Flight flight = new Flight();
        thread("delay proxy: in", () -> {
            try {
                InputStream in = from.getInputStream();
                byte[] buffer = new byte[PIECE_BYTES];
                int n;
                while ((n = in.read(buffer)) > 0) {
                    line.awaitTurn();
                    byte[] bytes = java.util.Arrays.copyOf(buffer, n);
                    flight.add(new Piece(bytes, line.leaves(System.nanoTime(), n) + halfTrip_ns));
                }
            } catch (IOException e) {
                // as its end
            }
            flight.add(new Piece(null, System.nanoTime() + halfTrip_ns));
        });
        thread("delay proxy: out", () -> {
            try {
                OutputStream out = to.getOutputStream();
                for (Piece piece = flight.take(); piece.bytes() != null; piece = flight.take()) {
                    waitUntil(piece.due_ns());
                    out.write(piece.bytes());
                }
                to.shutdownOutput();
            } catch (IOException e) {
                flight.abandon();
                shut(from);
            }
            if (from.isOutputShutdown()) { // the other direction has ended before
                shut(from);
                shut(to);
            }
        });
    }

    /** One direction's rate. */
    private static final class Line {
        private final long bytesPerSecond;
        private long free_ns = System.nanoTime();
        private long bytes;

        Line(long bytesPerSecond) {
            this.bytesPerSecond = bytesPerSecond;
        }

        /** When the last of {@code count} bytes that came now has gone through. */
        synchronized long leaves(long now_ns, int count) {
            bytes += count;
            if (bytesPerSecond == 0) {
                return now_ns;
            }
            free_ns = Math.max(free_ns, now_ns) + count * 1_000_000_000L / bytesPerSecond;
            return free_ns;
        }

        void awaitTurn() {
            while (true) {
                long due_ns;
                synchronized (this) {
                    due_ns = free_ns - QUEUE_MOST_MS * 1_000_000;
                }
                if (bytesPerSecond == 0 || due_ns <= System.nanoTime()) {
                    return;
                }
                waitUntil(due_ns);
            }
        }

        synchronized long bytes() {
            return bytes;
        }
    }

    private record Piece(byte[] bytes, long due_ns) {}

    /** What is under way. */
    private static final class Flight {
        private final Deque<Piece> pieces = new ArrayDeque<>();
        private int held;
        private boolean abandoned;

        synchronized void add(Piece piece) {
            while (held > HELD_MOST_BYTES && !abandoned) {
                await();
            }
            pieces.add(piece);
            held += piece.bytes() == null ? 0 : piece.bytes().length;
            notifyAll();
        }

        synchronized Piece take() {
            while (pieces.isEmpty()) {
                await();
            }
            Piece piece = pieces.remove();
            held -= piece.bytes() == null ? 0 : piece.bytes().length;
            notifyAll();
            return piece;
        }

        synchronized void abandon() {
            abandoned = true;
            notifyAll();
        }

        private void await() {
            try {
                wait();
            } catch (InterruptedException e) {
                throw new IllegalStateException("nobody interrupts a proxy", e);
            }
        }
    }

    private static void waitUntil(long due_ns) {
        long left;
        while ((left = due_ns - System.nanoTime()) > 0) {
            if (left > SPIN_NS) {
                LockSupport.parkNanos(left - SPIN_NS);
            } else {
                Thread.onSpinWait();
            }
        }
    }

    private static void shut(Closeable closeable) {
        try {
            closeable.close();
        } catch (IOException e) {
            // it is shut
        }
    }

    private static void thread(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }
}
