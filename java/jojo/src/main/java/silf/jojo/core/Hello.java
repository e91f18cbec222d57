package silf.jojo.core;

import java.util.Arrays;

/**
 * The first frame of a side (spec/jojo J6).
 *
 * @param java feature version of its JVM
 * @param incarnation new with each start of a node
 * @param received numbered frames that this side has, when it resumes {@code session}
 * @param session two halves of the link's secret; 0, 0 for a link that cannot be resumed
 * @param held first 8 bytes of the hashes of blobs that this side has from earlier runs
 */
record Hello(int java, long incarnation, long received, long sessionHigh, long sessionLow, long[] held) {
    static final int VERSION = 1;
    /** So that HELLO is one frame. */
    static final int HELD_MOST = 8000;

    private static final int FIXED = 2 + 2 + 8 + 8 + 16 + 4;

    static Hello here(long incarnation) {
        return new Hello(Runtime.version().feature(), incarnation, 0, 0, 0, new long[0]);
    }

    byte[] frame() {
        byte[] frame = Frame.of(Frame.HELLO, 0, 0, FIXED + 8 * held.length);
        Frame.SHORT.set(frame, 8, (short) VERSION);
        Frame.SHORT.set(frame, 10, (short) java);
        Frame.LONG.set(frame, 12, incarnation);
        Frame.LONG.set(frame, 20, received);
        Frame.LONG.set(frame, 28, sessionHigh);
        Frame.LONG.set(frame, 36, sessionLow);
        Frame.INT.set(frame, 44, held.length);
        for (int i = 0; i < held.length; i++) {
            Frame.LONG.set(frame, 48 + 8 * i, held[i]);
        }
        return frame;
    }

    static Hello read(byte[] frame) throws Violation {
        int size = frame.length - Frame.HEADER;
        if (Frame.type(frame) != Frame.HELLO || size < 2) {
            throw new Violation("a frame of type " + Frame.type(frame) + " in place of HELLO");
        }
        int version = (short) Frame.SHORT.get(frame, 8) & 0xffff;
        if (version != VERSION) {
            throw new Violation("version " + version + "; this side speaks " + VERSION);
        }
        if (size < FIXED) {
            throw new Violation("HELLO is cut off");
        }
        int count = (int) Frame.INT.get(frame, 44);
        if (count < 0 || count > HELD_MOST || size != FIXED + 8 * count) {
            throw new Violation("HELLO of " + size + " bytes for " + Integer.toUnsignedString(count) + " hashes");
        }
        long[] held = new long[count];
        for (int i = 0; i < count; i++) {
            held[i] = (long) Frame.LONG.get(frame, 48 + 8 * i);
        }
        return new Hello(
                (short) Frame.SHORT.get(frame, 10) & 0xffff,
                (long) Frame.LONG.get(frame, 12),
                (long) Frame.LONG.get(frame, 20),
                (long) Frame.LONG.get(frame, 28),
                (long) Frame.LONG.get(frame, 36),
                held);
    }

    boolean sameSession(Hello other) {
        return sessionHigh == other.sessionHigh && sessionLow == other.sessionLow;
    }

    Hello withReceived(long count) {
        return new Hello(java, incarnation, count, sessionHigh, sessionLow, held);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Hello hello && Arrays.equals(frame(), hello.frame());
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(frame());
    }

    /** Without the session, which is a secret. */
    @Override
    public String toString() {
        return "Hello[java " + java + ", " + held.length + " blobs held]";
    }
}
