package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** Bytes from one thread to another, through as much room as a kernel's pipe has. */
final class MemoryPipe {
    private final byte[] ring = new byte[65536];
    private int begin;
    private int count;
    private boolean closed;

    final InputStream in = new InputStream() {
        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] to, int at, int most) throws IOException {
            synchronized (MemoryPipe.this) {
                while (count == 0) {
                    if (closed) {
                        return -1;
                    }
                    pause();
                }
                int now = Math.min(Math.min(most, count), ring.length - begin);
                System.arraycopy(ring, begin, to, at, now);
                begin = (begin + now) % ring.length;
                count -= now;
                MemoryPipe.this.notifyAll();
                return now;
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
            synchronized (MemoryPipe.this) {
                while (most > 0) {
                    while (count == ring.length && !closed) {
                        pause();
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
                    MemoryPipe.this.notifyAll();
                }
            }
        }

        @Override
        public void close() {
            shut();
        }
    };

    private void pause() throws IOException {
        try {
            wait();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    private synchronized void shut() {
        closed = true;
        notifyAll();
    }
}
