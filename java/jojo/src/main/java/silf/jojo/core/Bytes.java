package silf.jojo.core;

import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing array of bytes, little-endian. One thread. */
final class Bytes extends OutputStream {
    /** Java's arrays end a little below this. */
    private static final int SIZE_MOST = Integer.MAX_VALUE - 64;
    /** What is kept for the next message; a larger one was an exception. */
    private static final int KEPT_MOST = 1 << 20;

    byte[] array;
    int size;

    Bytes(int room) {
        array = new byte[room];
    }

    /** Empties it for another use. */
    Bytes clear() {
        if (array.length > KEPT_MOST) {
            array = new byte[1024];
        }
        size = 0;
        return this;
    }

    /** Makes room and answers where it begins. */
    int room(long count) {
        long need = size + count;
        if (need > array.length) {
            if (need > SIZE_MOST) {
                throw new OutOfMemoryError("a message of more than 2 GiB");
            }
            array = Arrays.copyOf(array, (int) Math.min(SIZE_MOST, Math.max(need, 2L * array.length)));
        }
        int at = size;
        size = (int) need;
        return at;
    }

    Bytes u8(int value) {
        int at = room(1); // before `array` is looked at: it may be another one then
        array[at] = (byte) value;
        return this;
    }

    Bytes u16(int value) {
        int at = room(2);
        Frame.put16(array, at, value);
        return this;
    }

    Bytes i32(int value) {
        int at = room(4);
        Frame.put32(array, at, value);
        return this;
    }

    Bytes i64(long value) {
        int at = room(8);
        Frame.put64(array, at, value);
        return this;
    }

    /** A name of spec/jojo: length in two bytes, UTF-8. */
    Bytes name(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > 65535) {
            throw new IllegalArgumentException("a name of " + bytes.length + " bytes: " + text.substring(0, 100) + "...");
        }
        u16(bytes.length);
        return all(bytes);
    }

    Bytes all(byte[] bytes) {
        write(bytes, 0, bytes.length);
        return this;
    }

    @Override
    public void write(int b) {
        u8(b);
    }

    @Override
    public void write(byte[] from, int at, int count) {
        int to = room(count);
        System.arraycopy(from, at, array, to, count);
    }

    byte[] toArray() {
        return Arrays.copyOf(array, size);
    }
}
