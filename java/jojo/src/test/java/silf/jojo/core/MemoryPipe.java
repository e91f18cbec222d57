package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Bytes from one thread to another, through as much room as a kernel's pipe has. As with that, an interrupt ends no read or write. */
final class MemoryPipe {
    private final byte[] ring = new byte[65536];
    private int begin;
    private int count;
    private boolean closed;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();

    final InputStream in = new InputStream() {
        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] to, int at, int most) throws IOException {
            lock.lock();
            try {
                while (count == 0) {
                    if (closed) {
                        return -1;
                    }
                    changed.awaitUninterruptibly();
                }
                int now = Math.min(Math.min(most, count), ring.length - begin);
                System.arraycopy(ring, begin, to, at, now);
                begin = (begin + now) % ring.length;
                count -= now;
                changed.signalAll();
                return now;
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void close() {
            shut();
        }
    };

    final OutputStream out = new OutputStream() {
        @Override
        public void write(int b) throws IOException {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] from, int at, int most) throws IOException {
            lock.lock();
            try {
                while (most > 0) {
                    while (count == ring.length && !closed) {
                        changed.awaitUninterruptibly();
                    }
                    if (closed) {
                        throw new IOException("the pipe is closed");
                    }
                    int end = (begin + count) % ring.length;
                    int now = Math.min(Math.min(most, ring.length - count), ring.length - end);
                    System.arraycopy(from, at, ring, end, now);
                    count += now;
                    at += now;
                    most -= now;
                    changed.signalAll();
                }
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void close() {
            shut();
        }
    };

    private void shut() {
        lock.lock();
        try {
            closed = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
