package silf.jojo.core;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;

/** Cuts a byte stream into frames. One thread. Allocates nothing by a length that {@link Frame#check} has not seen. */
final class FrameReader {
    /** What a pipe holds: one read takes all that has come. */
    private static final int BUFFER = 65536;

    private final InputStream in;
    private final byte[] buffer = new byte[BUFFER];
    private int at;
    private int end;

    FrameReader(InputStream in) {
        this.in = in;
    }

    /** Whether the whole next frame is here already. */
    boolean more() {
        return end - at >= Frame.HEADER && end - at - Frame.HEADER >= Frame.i32(buffer, at + 4);
    }

    /** The next frame, or null at the end of the stream between two frames. */
    byte[] next() throws IOException {
        while (end - at < Frame.HEADER) {
            if (at > 0) {
                System.arraycopy(buffer, at, buffer, 0, end - at);
                end -= at;
                at = 0;
            }
            int got = in.read(buffer, end, buffer.length - end);
            if (got < 0) {
                if (end == 0) {
                    return null;
                }
                throw new EOFException("the stream ends within a frame's header");
            }
            end += got;
        }
        int size = Frame.HEADER + Frame.check(buffer, at);
        byte[] frame = new byte[size];
        int here = Math.min(size, end - at);
        System.arraycopy(buffer, at, frame, 0, here);
        at += here;
        while (here < size) {
            // Straight to its place, unless it is small and more may have come behind it.
            if (size - here >= buffer.length / 2) {
                int got = in.read(frame, here, size - here);
                if (got < 0) {
                    throw new EOFException("the stream ends within a frame");
                }
                here += got;
            } else {
                end = Math.max(in.read(buffer, 0, buffer.length), 0);
                if (end == 0) {
                    throw new EOFException("the stream ends within a frame");
                }
                at = Math.min(size - here, end);
                System.arraycopy(buffer, 0, frame, here, at);
                here += at;
            }
        }
        return frame;
    }
}
