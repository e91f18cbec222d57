package silf.jojo.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Elements of primitive arrays to little-endian bytes and back, many at a time. */
final class Elements {
    private Elements() {}

    private static ByteBuffer view(byte[] bytes, int at, int size) {
        return ByteBuffer.wrap(bytes, at, size).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Writes {@code count} elements from {@code from} on. */
    static void put(int tag, Object array, int from, int count, byte[] to, int at) {
        ByteBuffer view = view(to, at, count * Tag.size(tag));
        switch (tag) {
            case Tag.BYTES -> System.arraycopy(array, from, to, at, count);
            case Tag.SHORTS -> view.asShortBuffer().put((short[]) array, from, count);
            case Tag.CHAR_ARRAY -> view.asCharBuffer().put((char[]) array, from, count);
            case Tag.INTS -> view.asIntBuffer().put((int[]) array, from, count);
            case Tag.LONGS -> view.asLongBuffer().put((long[]) array, from, count);
            case Tag.FLOATS -> view.asFloatBuffer().put((float[]) array, from, count);
            case Tag.DOUBLES -> view.asDoubleBuffer().put((double[]) array, from, count);
            default -> {
                boolean[] flags = (boolean[]) array;
                for (int i = 0; i < count; i++) {
                    to[at + i] = (byte) (flags[from + i] ? 1 : 0);
                }
            }
        }
    }

    static Object make(int tag, int count) {
        return switch (tag) {
            case Tag.BYTES -> new byte[count];
            case Tag.SHORTS -> new short[count];
            case Tag.CHAR_ARRAY -> new char[count];
            case Tag.INTS -> new int[count];
            case Tag.LONGS -> new long[count];
            case Tag.FLOATS -> new float[count];
            case Tag.DOUBLES -> new double[count];
            default -> new boolean[count];
        };
    }

    /** Reads {@code count} elements to {@code to} on. */
    static void get(int tag, byte[] from, int at, Object array, int to, int count) {
        ByteBuffer view = view(from, at, count * Tag.size(tag));
        switch (tag) {
            case Tag.BYTES -> System.arraycopy(from, at, array, to, count);
            case Tag.SHORTS -> view.asShortBuffer().get((short[]) array, to, count);
            case Tag.CHAR_ARRAY -> view.asCharBuffer().get((char[]) array, to, count);
            case Tag.INTS -> view.asIntBuffer().get((int[]) array, to, count);
            case Tag.LONGS -> view.asLongBuffer().get((long[]) array, to, count);
            case Tag.FLOATS -> view.asFloatBuffer().get((float[]) array, to, count);
            case Tag.DOUBLES -> view.asDoubleBuffer().get((double[]) array, to, count);
            default -> {
                boolean[] flags = (boolean[]) array;
                for (int i = 0; i < count; i++) {
                    flags[to + i] = from[at + i] != 0;
                }
            }
        }
    }
}
