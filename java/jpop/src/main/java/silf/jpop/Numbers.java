package silf.jpop;

import java.io.ByteArrayOutputStream;

/**
 * Numbers as bytes (spec/jpop P1): seven bits a byte, the lowest first, the top bit set in all but the last; signed ones folded,
 * so that small ones of either sign are short. A reader allocates by no count that it has not seen the bytes of.
 */
public final class Numbers {
    private static final int LONGEST = 10;

    private final byte[] bytes;
    private int at;

    public Numbers(byte[] bytes) {
        this.bytes = bytes;
    }

    /** @param value not negative */
    public static void put(ByteArrayOutputStream out, long value) {
        long left = value;
        while ((left & ~0x7fL) != 0) {
            out.write((int) (left & 0x7f | 0x80));
            left >>>= 7;
        }
        out.write((int) left);
    }

    public static void putSigned(ByteArrayOutputStream out, long value) {
        put(out, value << 1 ^ value >> 63);
    }

    public static void putText(ByteArrayOutputStream out, String text) {
        byte[] bytes = text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
        put(out, bytes.length);
        out.writeBytes(bytes);
    }

    private long any() throws Damaged {
        long value = 0;
        for (int i = 0; i < LONGEST; i++) {
            if (at == bytes.length) {
                throw damaged("cut short within a number");
            }
            byte next = bytes[at++];
            value |= (next & 0x7fL) << 7 * i;
            if (next >= 0) {
                if (i == LONGEST - 1 && next > 1 || i > 0 && next == 0) {
                    throw damaged("a number that is longer than it needs to be");
                }
                return value;
            }
        }
        throw damaged("a number of more than " + LONGEST + " bytes");
    }

    /**
     * A count of things.
     *
     * @param most more are refused
     * @param least_bytes what each of them takes at least
     */
    public int count(int most, int least_bytes, String of) throws Damaged {
        long value = any();
        if (value < 0 || value > most || least_bytes > 0 && value > (bytes.length - at) / least_bytes) {
            throw damaged(Long.toUnsignedString(value) + " " + of + " where at most " + most + " are possible, in "
                    + (bytes.length - at) + " bytes");
        }
        return (int) value;
    }

    /** A number from 0 on. */
    public long number() throws Damaged {
        long value = any();
        if (value < 0) {
            throw damaged("a number of 64 bits");
        }
        return value;
    }

    public long signed() throws Damaged {
        long value = any();
        return value >>> 1 ^ -(value & 1);
    }

    /** The next eight bytes, the lowest first. */
    public long bits() throws Damaged {
        byte[] eight = take(8);
        long value = 0;
        for (int i = 0; i < 8; i++) {
            value |= (eight[i] & 0xffL) << 8 * i;
        }
        return value;
    }

    public static void putBits(ByteArrayOutputStream out, long value) {
        for (int i = 0; i < 8; i++) {
            out.write((int) (value >>> 8 * i));
        }
    }

    public byte[] take(int count) throws Damaged {
        if (bytes.length - at < count) {
            throw damaged("cut short: " + (bytes.length - at) + " bytes where " + count + " should be");
        }
        at += count;
        return java.util.Arrays.copyOfRange(bytes, at - count, at);
    }

    public String text(int most_bytes) throws Damaged {
        byte[] utf8 = take(count(most_bytes, 1, "bytes of text"));
        try {
            return java.nio.charset.StandardCharsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(utf8)).toString();
        } catch (java.nio.charset.CharacterCodingException e) {
            throw damaged("text that is not UTF-8");
        }
    }

    /** @throws Damaged if something follows */
    public void end() throws Damaged {
        if (at != bytes.length) {
            throw damaged((bytes.length - at) + " bytes more than there should be");
        }
    }

    /** With the place. */
    public Damaged damaged(String what) {
        return new Damaged("at byte " + at + ": " + what);
    }
}
