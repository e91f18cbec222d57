package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Reads the pieces that a body came in, one behind the other, little-endian, without joining them. Answers each want of
 * more than there is with a {@link Violation}. One thread.
 */
final class In {
    private final List<byte[]> pieces;
    private final int[] begins;
    private int next = 1;
    private byte[] now;
    private int at;
    private long left;

    /** @param begins where the body begins in each piece; it ends with the piece */
    In(List<byte[]> pieces, int[] begins) {
        this.pieces = pieces;
        this.begins = begins;
        this.now = pieces.get(0);
        this.at = begins[0];
        for (int i = 0; i < begins.length; i++) {
            left += pieces.get(i).length - begins[i];
        }
    }

    In(byte[] bytes, int at) {
        this(List.of(bytes), new int[] {at});
    }

    /** Bytes that are still to be read. */
    long left() {
        return left;
    }

    private Violation cut() {
        return new Violation("a value is cut off");
    }

    /** Whether {@code count} more bytes lie together; then they are taken, from {@code now[at - count]}. */
    private boolean together(int count) throws Violation {
        if (left < count) {
            throw cut();
        }
        if (now.length - at >= count) {
            at += count;
            left -= count;
            return true;
        }
        return false;
    }

    int u8() throws Violation {
        if (together(1)) {
            return now[at - 1] & 0xff;
        }
        step();
        return u8();
    }

    private void step() {
        now = pieces.get(next);
        at = begins[next++];
    }

    int u16() throws Violation {
        return together(2) ? Frame.u16(now, at - 2) : u8() | u8() << 8;
    }

    int i32() throws Violation {
        return together(4) ? Frame.i32(now, at - 4) : u16() | u16() << 16;
    }

    long i64() throws Violation {
        return together(8) ? Frame.i64(now, at - 8) : i32() & 0xffffffffL | (long) i32() << 32;
    }

    /** A count of things of at least this size each, so that what is made for it was paid for in bytes. */
    int count(int bytesEach) throws Violation {
        int count = i32();
        if (count < 0 || (long) count * bytesEach > left) {
            throw new Violation(Integer.toUnsignedString(count) + " elements in " + left + " bytes");
        }
        return count;
    }

    void bytes(byte[] to, int from, int count) throws Violation {
        if (left < count) {
            throw cut();
        }
        while (count > 0) {
            int here = here(count, 1);
            System.arraycopy(now, at - here, to, from, here);
            from += here;
            count -= here;
        }
    }

    /** Takes up to {@code most} elements that lie together: at least one, whole ones, or 0 if one is split. */
    int here(int most, int bytesEach) {
        if (at == now.length) {
            step();
        }
        int here = Math.min(most, (now.length - at) / bytesEach);
        at += here * bytesEach;
        left -= (long) here * bytesEach;
        return here;
    }

    /** The array that the last {@link #here} took from, and where what it took ends. */
    byte[] array() {
        return now;
    }

    int end() {
        return at;
    }

    String name() throws Violation {
        return text(u16());
    }

    String text(int count) throws Violation {
        if (together(count)) {
            return new String(now, at - count, count, StandardCharsets.UTF_8);
        }
        byte[] bytes = new byte[count];
        bytes(bytes, 0, count);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** The next {@code count} bytes as a stream. */
    InputStream stream(int count) {
        return new InputStream() {
            private int rest = count;

            @Override
            public int read() throws IOException {
                if (rest == 0) {
                    return -1;
                }
                rest--;
                return u8();
            }

            @Override
            public int read(byte[] to, int from, int most) throws IOException {
                if (most == 0) {
                    return 0;
                }
                if (rest == 0) {
                    return -1;
                }
                int got = Math.min(most, rest);
                bytes(to, from, got);
                rest -= got;
                return got;
            }

            @Override
            public int available() {
                return rest;
            }
        };
    }
}
