package silf.jojo.core;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/**
 * A connected pair of byte streams to another JVM: what a launcher makes and a {@link Link} speaks over. One thread reads
 * and one at a time writes, so that neither stream needs a lock or a buffer of its own. Not in it: frames.
 */
public interface Wire extends Closeable {
    /** Bytes from the peer, beginning behind the marker of spec/jojo J2. */
    InputStream in();

    /** Bytes to the peer. Written in large pieces, then flushed. */
    OutputStream out();

    /** For messages to people: "pad00 (ssh)". */
    String name();

    /**
     * Whether a virtual thread that writes here may be unmounted while it waits, as on sockets. Pipes hold it mounted.
     */
    default boolean parksWriter() {
        return true;
    }

    /**
     * What is known about why the peer has gone, once it has: exit status, the last words on stderr. Empty when nothing
     * is. May wait a moment for the process to be reaped.
     */
    default String diagnosis() {
        return "";
    }

    /**
     * Once its end was seen: whether it was cut on the way, so that the peer may be there still. May wait a moment. A wire for
     * which no other can be had need not know.
     */
    default boolean wasCut() {
        return true;
    }

    /**
     * Another wire to the same JVM, as the one that began this one (spec/jojo J13).
     *
     * @param process the JVM's number over there, as it said
     * @throws Gone when there is no such JVM any more, or no other wire can be had
     */
    default Wire again(long process, Deadline deadline) throws IOException {
        throw new Gone(name() + " cannot be had again");
    }

    /** There is nobody to be connected to. */
    final class Gone extends IOException {
        private static final long serialVersionUID = 1;

        public Gone(String text) {
            super(text);
        }
    }

    /** Ends both directions, at once; a reader that waits gets an end or an exception. More than once is fine. */
    @Override
    void close() throws IOException;

    /** A wire of two streams and nothing behind them. */
    static Wire of(String name, InputStream in, OutputStream out, Closeable close) {
        return new Wire() {
            @Override
            public InputStream in() {
                return in;
            }

            @Override
            public OutputStream out() {
                return out;
            }

            @Override
            public String name() {
                return name;
            }

            @Override
            public void close() throws IOException {
                close.close();
            }
        };
    }
}
