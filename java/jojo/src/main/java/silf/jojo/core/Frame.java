package silf.jojo.core;

/**
 * Frames (spec/jojo J4, J5): arrays of header and payload, composed and checked. A frame is one array from the wire it
 * came by to the wire it leaves by. Not in it: what payloads mean, streams.
 */
final class Frame {
    static final int HEADER = 8;
    /** One frame holds up its link for no longer than this takes to write; twice a pipe's buffer is no faster. */
    static final int PAYLOAD_MOST = 65536;

    static final int HELLO = 1;
    static final int START = 2;
    static final int GOODBYE = 3;
    static final int PING = 4;
    static final int PONG = 5;
    static final int ACK = 6;
    static final int BLOBS = 8;
    static final int WANT = 9;
    static final int READY = 16;
    static final int GO = 17;
    static final int DONE = 18;
    static final int END = 19;
    static final int FAMILY = 20;
    static final int LOST = 21;
    static final int REPORT = 22;
    static final int ROUTED = 32;
    static final int SEND = 32;
    static final int CALL = 33;
    static final int REPLY = 34;
    static final int FAIL = 35;
    static final int CANCEL = 36;
    static final int CREDIT = 37;
    static final int SWITCH = 38;
    static final int NOWAY = 39;

    static final int FIRST = 1;
    static final int LAST = 2;
    static final int DEFLATED = 1;

    /** Flags that each type may have; -1 where there is no such type. */
    private static final byte[] FLAGS = new byte[40];

    static {
        java.util.Arrays.fill(FLAGS, (byte) -1);
        int[] plain = {HELLO, START, GOODBYE, PING, PONG, ACK, WANT, READY, GO, DONE, END, FAMILY, LOST, REPORT};
        for (int type : plain) {
            FLAGS[type] = 0;
        }
        FLAGS[BLOBS] = DEFLATED;
        for (int type = SEND; type <= FAIL; type++) {
            FLAGS[type] = FIRST | LAST;
        }
        FLAGS[CANCEL] = 0;
        FLAGS[CREDIT] = 0;
        FLAGS[SWITCH] = 0;
        FLAGS[NOWAY] = 0;
    }

    private Frame() {}

    // Numbers byte by byte: a VarHandle is no faster where it counts, and costs a JVM that is just starting 20 ms.

    static int u16(byte[] bytes, int at) {
        return bytes[at] & 0xff | (bytes[at + 1] & 0xff) << 8;
    }

    static int i32(byte[] bytes, int at) {
        return u16(bytes, at) | u16(bytes, at + 2) << 16;
    }

    static long i64(byte[] bytes, int at) {
        return i32(bytes, at) & 0xffffffffL | (long) i32(bytes, at + 4) << 32;
    }

    static void put16(byte[] bytes, int at, int value) {
        bytes[at] = (byte) value;
        bytes[at + 1] = (byte) (value >> 8);
    }

    static void put32(byte[] bytes, int at, int value) {
        put16(bytes, at, value);
        put16(bytes, at + 2, value >> 16);
    }

    static void put64(byte[] bytes, int at, long value) {
        put32(bytes, at, (int) value);
        put32(bytes, at + 4, (int) (value >> 32));
    }

    static int type(byte[] frame) {
        return frame[0] & 0xff;
    }

    static int flags(byte[] frame) {
        return frame[1] & 0xff;
    }

    /** The whole lane field: which lane, and the epochs of both ends. */
    static int lane(byte[] frame) {
        return u16(frame, 2);
    }

    static final int LANES = 4;
    static final int EPOCHS = 128;

    static int laneField(int lane, int epochTo, int epochFrom) {
        return lane | epochTo << 2 | epochFrom << 9;
    }

    static int laneNumber(int field) {
        return field & 3;
    }

    static int epochTo(int field) {
        return field >> 2 & 127;
    }

    static int epochFrom(int field) {
        return field >> 9 & 127;
    }

    /** Length of the payload that a header at {@code at} announces, after a look at all of the header. */
    static int check(byte[] bytes, int at) throws Violation {
        int type = bytes[at] & 0xff;
        int allowed = type < FLAGS.length ? FLAGS[type] : -1;
        if (allowed < 0) {
            throw new Violation("a frame of type " + type);
        }
        if ((bytes[at + 1] & ~allowed) != 0) {
            throw new Violation("flags " + (bytes[at + 1] & 0xff) + " on a frame of type " + type);
        }
        if (type < ROUTED && u16(bytes, at + 2) != 0) {
            throw new Violation("a lane on a frame of type " + type);
        }
        int length = i32(bytes, at + 4);
        if (length < 0 || length > PAYLOAD_MOST) {
            throw new Violation("a frame of " + Integer.toUnsignedString(length) + " bytes");
        }
        return length;
    }

    /** A frame with room for a payload of this size. */
    static byte[] of(int type, int flags, int lane, int payload) {
        byte[] frame = new byte[HEADER + payload];
        frame[0] = (byte) type;
        frame[1] = (byte) flags;
        put16(frame, 2, lane);
        put32(frame, 4, payload);
        return frame;
    }

    static byte[] of(int type, byte[] payload) {
        byte[] frame = of(type, 0, 0, payload.length);
        System.arraycopy(payload, 0, frame, HEADER, payload.length);
        return frame;
    }

    static byte[] ofLong(int type, long value) {
        byte[] frame = of(type, 0, 0, 8);
        put64(frame, HEADER, value);
        return frame;
    }

    /** A routed frame of one number: CANCEL, CREDIT, SWITCH, NOWAY. */
    static byte[] routed(int type, int lane, Path to, Path from, long value) {
        byte[] frame = of(type, 0, lane, to.size() + from.size() + 8);
        put64(frame, from.put(frame, to.put(frame, HEADER)), value);
        return frame;
    }

    /** The one number of a frame that has nothing else behind {@code at}. */
    static long number(byte[] frame, int at) throws Violation {
        if (frame.length - at != 8) {
            throw new Violation("a frame of type " + type(frame) + " has " + (frame.length - at) + " bytes, not 8");
        }
        return i64(frame, at);
    }

    /** The first frame of a user's message, of an answer, or of a failure. */
    static boolean isMessage(byte[] frame) {
        int type = type(frame);
        return type >= SEND && type <= FAIL && (frame[1] & FIRST) != 0 && laneNumber(lane(frame)) == Post.MESSAGES;
    }

    /** Frames that say that all before them has been sent; they do not overtake. */
    static boolean isBarrier(byte[] frame) {
        int type = type(frame);
        return type == DONE || type == END || type == LOST || type == GOODBYE || type == SWITCH;
    }

    /**
     * Which frames must stay in order among themselves: equal for frames of one lane. Different lanes may share a key,
     * which costs fairness and nothing else.
     */
    static long key(byte[] frame) {
        if (type(frame) < ROUTED) {
            // Blobs go beside what keeps the tree in order, so that a jar does not delay the news of a loss.
            return type(frame) == BLOBS ? 1 : 0;
        }
        int at = HEADER;
        long key = 0xcbf29ce484222325L ^ lane(frame); // FNV-1a
        for (int path = 0; path < 2; path++) {
            int end = at + 1 + 2 * (frame[at] & 0xff);
            while (at < end) {
                key = (key ^ frame[at++]) * 0x100000001b3L;
            }
        }
        return key;
    }
}
