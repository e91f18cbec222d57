package silf.jojo.core;

import java.io.FilterInputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** A wire that a test can have stand still, both ways. */
final class Gate implements Wire {
    private final Wire wire;
    // Guarded by this.
    private boolean shut;

    Gate(Wire wire) {
        this.wire = wire;
    }

    synchronized void shut() {
        shut = true;
    }

    synchronized void open() {
        shut = false;
        notifyAll();
    }

    /** As with a pipe, an interrupt ends no read or write. */
    private synchronized void pass() {
        boolean interrupted = false;
        while (shut) {
            try {
                wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public InputStream in() {
        return new FilterInputStream(wire.in()) {
            @Override
            public int read(byte[] to, int at, int most) throws IOException {
                int count = super.read(to, at, most);
                pass();
                return count;
            }
        };
    }

    @Override
    public OutputStream out() {
        return new FilterOutputStream(wire.out()) {
            @Override
            public void write(byte[] from, int at, int count) throws IOException {
                pass();
                out.write(from, at, count);
            }
        };
    }

    @Override
    public String name() {
        return wire.name();
    }

    /** What stands still closes nothing either. */
    @Override
    public void close() throws IOException {
        pass();
        wire.close();
    }
}
