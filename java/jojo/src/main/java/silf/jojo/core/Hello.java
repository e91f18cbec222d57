package silf.jojo.core;

import java.util.Arrays;

/**
 * The first frame of a side (spec/jojo J6).
 *
 * @param java feature version of its JVM
 * @param incarnation new with each start of a node
 * @param received numbered frames that this side has, when it resumes {@code session}
 * @param sessionHigh half of the link's secret; both are 0 for a link that cannot be resumed
 * @param sessionLow the other half
 * @param held first 8 bytes of the hashes of blobs that this side has from earlier runs
 */
record Hello(int java, long incarnation, long received, long sessionHigh, long sessionLow, long[] held) {
    static final int VERSION = 1;
    /** So that HELLO is one frame. */
    static final int HELD_MOST = 8000;

    private static final int FIXED = 2 + 2 + 8 + 8 + 16 + 4;

    static Hello here(long incarnation) {
        return here(incarnation, new long[0]);
    }

    static Hello here(long incarnation, long[] held) {
        return new Hello(Runtime.version().feature(), incarnation, 0, 0, 0, held);
    }

    byte[] frame() {
        byte[] frame = Frame.of(Frame.HELLO, 0, 0, FIXED + 8 * held.length);
        Frame.put16(frame, 8, VERSION);
        Frame.put16(frame, 10, java);
        Frame.put64(frame, 12, incarnation);
        Frame.put64(frame, 20, received);
        Frame.put64(frame, 28, sessionHigh);
        Frame.put64(frame, 36, sessionLow);
        Frame.put32(frame, 44, held.length);
        for (int i = 0; i < held.length; i++) {
            Frame.put64(frame, 48 + 8 * i, held[i]);
        }
        return frame;
    }

    static Hello read(byte[] frame) throws Violation {
        int size = frame.length - Frame.HEADER;
        if (Frame.type(frame) != Frame.HELLO || size < 2) {
            throw new Violation("a frame of type " + Frame.type(frame) + " in place of HELLO");
        }
        int version = Frame.u16(frame, 8);
        if (version != VERSION) {
            throw new Violation("version " + version + "; this side speaks " + VERSION);
        }
        if (size < FIXED) {
            throw new Violation("HELLO is cut off");
        }
        int count = Frame.i32(frame, 44);
        if (count < 0 || count > HELD_MOST || size != FIXED + 8 * count) {
            throw new Violation("HELLO of " + size + " bytes for " + Integer.toUnsignedString(count) + " hashes");
        }
        long[] held = new long[count];
        for (int i = 0; i < count; i++) {
            held[i] = Frame.i64(frame, 48 + 8 * i);
        }
        return new Hello(
                Frame.u16(frame, 10),
                Frame.i64(frame, 12),
                Frame.i64(frame, 20),
                Frame.i64(frame, 28),
                Frame.i64(frame, 36),
                held);
    }

    boolean sameSession(Hello other) {
        return sessionHigh == other.sessionHigh && sessionLow == other.sessionLow;
    }

    Hello withSession(long high, long low) {
        return new Hello(java, incarnation, received, high, low, held);
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
