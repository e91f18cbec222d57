package silf.jojo.launch;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** Writes the marker of spec/jojo J2, or finds it in a stream, and keeps what login scripts wrote before it. */
public final class Marker {
    private static final byte[] BYTES = {0, 'J', 'O', 'J', 'O', '/', '1', '\n'};

    private Marker() {}

    public static void write(OutputStream out) throws IOException {
        out.write(BYTES);
    }

    /**
     * Reads to the marker's last byte and not one further.
     *
     * @param stray takes what came before
     * @return false when the stream ended first
     */
    static boolean find(InputStream in, Tail stray) throws IOException {
        int matched = 0;
        byte[] one = new byte[1];
        while (matched < BYTES.length) {
            int c = in.read();
            if (c < 0) {
                stray.add(BYTES, 0, matched);
                return false;
            }
            if (c == BYTES[matched]) {
                matched++;
                continue;
            }
            // Only the first byte is NUL, so a match cannot begin inside a failed one except with this byte.
            stray.add(BYTES, 0, matched);
            matched = c == BYTES[0] ? 1 : 0;
            if (matched == 0) {
                one[0] = (byte) c;
                stray.add(one, 0, 1);
            }
        }
        return true;
    }
}
