package silf.jojo.launch;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** The last bytes of a stream, for an error that quotes them. Safe for threads. */
final class Tail {
    private final int mostBytes;
    private ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    Tail(int mostBytes) {
        this.mostBytes = mostBytes;
    }

    synchronized void add(byte[] from, int offset, int count) {
        bytes.write(from, offset, count);
        if (bytes.size() > 2 * mostBytes) {
            byte[] all = bytes.toByteArray();
            bytes = new ByteArrayOutputStream();
            bytes.write(all, all.length - mostBytes, mostBytes);
        }
    }

    /** As text; what no terminal should see is a question mark. */
    synchronized String text() {
        byte[] all = bytes.toByteArray();
        int count = Math.min(all.length, mostBytes);
        return new String(all, all.length - count, count, StandardCharsets.UTF_8).replace("\r", "").replaceAll("[\\p{Cntrl}&&[^\n\t]]", "?");
    }
}
