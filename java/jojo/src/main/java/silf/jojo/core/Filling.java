package silf.jojo.core;

/**
 * A primitive array that is a whole message (spec/jojo J10, tags 12 to 19), put together as its frames come: each is copied once,
 * while it is warm, and is garbage at once. Kept until all have come they would be copied by collectors, and all be read again.
 * Not in it: whether there is room for it (Budget).
 */
final class Filling {
    /** Tag and count. */
    private static final int HEAD = 1 + 4;
    /** Memory is taken for what is only announced yet: not more than this at once. */
    private static final int MOST_BYTES = 64 << 20;

    final Object array;
    private final int tag;
    private final int count;
    private int done;
    /** An element that a frame's end has split; foreign senders may. */
    private final byte[] split = new byte[8];
    private int splitBytes;

    private Filling(Object array, int tag, int count) {
        this.array = array;
        this.tag = tag;
        this.count = count;
    }

    /**
     * Begins with the first piece of a body.
     *
     * @param announced bytes of the whole body
     * @return null where the body is something else, is very large, or memory is short: then it is kept as it comes, and judged
     *     when it is decoded
     */
    static Filling begin(byte[] frame, int at, int announced) {
        int tag = frame.length - at < HEAD || announced > MOST_BYTES ? 0 : frame[at] & 0xff;
        if (tag < Tag.BYTES || tag > Tag.BOOLEANS) {
            return null;
        }
        int count = Frame.i32(frame, at + 1);
        if (count < 0 || HEAD + (long) count * Tag.size(tag) != announced) {
            return null;
        }
        try {
            Filling filling = new Filling(Elements.make(tag, count), tag, count);
            filling.more(frame, at + HEAD);
            return filling;
        } catch (OutOfMemoryError e) {
            return null;
        }
    }

    /** The next piece; all together are no more than was announced. */
    void more(byte[] frame, int at) {
        int size = Tag.size(tag);
        while (splitBytes > 0 && at < frame.length) {
            split[splitBytes++] = frame[at++];
            if (splitBytes == size) {
                Elements.get(tag, split, 0, array, done++, 1);
                splitBytes = 0;
            }
        }
        int whole = Math.min((frame.length - at) / size, count - done);
        Elements.get(tag, frame, at, array, done, whole);
        done += whole;
        at += whole * size;
        while (at < frame.length) {
            split[splitBytes++] = frame[at++];
        }
    }
}
