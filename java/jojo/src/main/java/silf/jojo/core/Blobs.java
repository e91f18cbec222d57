package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** BLOBS frames (spec/jojo J8): written, and read piece by piece. Not in it: where blobs are from, or go. */
final class Blobs {
    static final int BYTES = 0;
    static final int HELD = 1;
    static final int ABSENT = 2;
    static final int UNAVAILABLE = 3;

    /** Entries of one frame before deflation: classes share much, so that many together shrink to a half. */
    private static final int TOGETHER = 60 << 10;
    /** Less is not worth it. */
    private static final int DEFLATE_LEAST = 512;
    /** A piece's own fields, with the longest name. */
    private static final int NAME_MOST = 4096;
    /** A class is at most some hundred kB; a resource may be a model or a native library. */
    static final int BLOB_MOST = 512 << 20;

    private Blobs() {}

    /** Collects entries and makes frames of them, in order. */
    static final class Writer {
        private final java.util.function.Consumer<byte[]> frames;
        private final Bytes entries = new Bytes(4096);

        Writer(java.util.function.Consumer<byte[]> frames) {
            this.frames = frames;
        }

        void add(Blob blob) {
            if (blob.absent()) {
                entry(ABSENT, blob.name(), 32);
                return;
            }
            int at = 0;
            do {
                entry(BYTES, blob.name(), 64);
                int count = Math.min(blob.bytes().length - at, TOGETHER - Math.min(entries.size, TOGETHER - 4096));
                entries.i64(blob.hash()).i32(blob.bytes().length).i32(at).i32(count);
                entries.write(blob.bytes(), at, count);
                at += count;
            } while (at < blob.bytes().length);
        }

        /** The receiver has it from an earlier run. */
        void held(Blob blob) {
            entry(HELD, blob.name(), 64);
            entries.i64(blob.hash()).i32(blob.bytes().length).i64(0);
        }

        void unavailable(String name, String why) {
            entry(UNAVAILABLE, name, 4096);
            entries.name(why.substring(0, Math.min(why.length(), 1000)));
        }

        private void entry(int kind, String name, int more) {
            if (name.length() > NAME_MOST / 4) {
                throw new IllegalArgumentException("a resource's name of " + name.length() + " characters");
            }
            if (entries.size > 0 && entries.size + name.length() * 3 + more > TOGETHER) {
                flush();
            }
            entries.u8(kind).name(name);
        }

        /** What is not yet in a frame, in one. */
        void flush() {
            if (entries.size == 0) {
                return;
            }
            byte[] payload = entries.toArray();
            int flags = 0;
            if (payload.length >= DEFLATE_LEAST) {
                byte[] small = deflate(payload);
                if (small.length < payload.length) {
                    payload = small;
                    flags = Frame.DEFLATED;
                }
            }
            byte[] frame = Frame.of(Frame.BLOBS, flags, 0, payload.length);
            System.arraycopy(payload, 0, frame, Frame.HEADER, payload.length);
            frames.accept(frame);
            entries.size = 0;
        }

        private static byte[] deflate(byte[] bytes) {
            Deflater deflater = new Deflater();
            deflater.setInput(bytes);
            deflater.finish();
            byte[] small = new byte[bytes.length];
            int size = deflater.deflate(small);
            boolean all = deflater.finished();
            deflater.end();
            return all ? java.util.Arrays.copyOf(small, size) : bytes;
        }
    }

    interface Taker {
        void blob(Blob blob);

        void unavailable(String name, String why);

        /** It was said to be held here, by this hash. */
        default void held(String name, long hash, int size) throws Violation {
            throw new Violation(name + " is said to be held here");
        }
    }

    /** Puts pieces together. One thread. */
    static final class Reader {
        private final Taker taker;
        private final Map<String, byte[]> begun = new HashMap<>();

        Reader(Taker taker) {
            this.taker = taker;
        }

        void frame(byte[] frame) throws Violation {
            In in = (Frame.flags(frame) & Frame.DEFLATED) != 0
                    ? new In(inflate(frame), 0)
                    : new In(frame, Frame.HEADER);
            while (in.left() > 0) {
                int kind = in.u8();
                String name = in.name();
                switch (kind) {
                    case BYTES -> piece(name, in);
                    case HELD -> held(name, in);
                    case ABSENT -> taker.blob(Blob.unhashed(name, null));
                    case UNAVAILABLE -> taker.unavailable(name, in.name());
                    default -> throw new Violation("an entry of kind " + kind + " among blobs");
                }
            }
        }

        private void held(String name, In in) throws Violation {
            long hash = in.i64();
            int whole = in.i32();
            if (whole < 0 || whole > BLOB_MOST || in.i64() != 0) {
                throw new Violation(name + " is held, and has bytes all the same");
            }
            taker.held(name, hash, whole);
        }

        private void piece(String name, In in) throws Violation {
            long hash = in.i64();
            int whole = in.i32();
            int at = in.i32();
            int count = in.count(1);
            if (whole < 0 || whole > BLOB_MOST || at < 0 || (long) at + count > whole) {
                throw new Violation("a piece of " + name + " is not in it");
            }
            byte[] bytes;
            if (at == 0) {
                bytes = new byte[count == whole ? whole : Math.min(whole, 1 << 20)];
                begun.put(name, bytes);
            } else {
                bytes = begun.get(name);
                if (bytes == null) {
                    throw new Violation("a piece of " + name + " that never began");
                }
                if (at + count > bytes.length) {
                    // Grows with what has come, not with what was announced.
                    bytes = java.util.Arrays.copyOf(bytes, (int) Math.min(whole, Math.max(at + count, 2L * bytes.length)));
                    begun.put(name, bytes);
                }
            }
            in.bytes(bytes, at, count);
            if (at + count == whole) {
                begun.remove(name);
                bytes = bytes.length == whole ? bytes : java.util.Arrays.copyOf(bytes, whole);
                taker.blob(new Blob(name, bytes, hash));
            }
        }

        private static byte[] inflate(byte[] frame) throws Violation {
            Inflater inflater = new Inflater();
            try {
                inflater.setInput(frame, Frame.HEADER, frame.length - Frame.HEADER);
                // What one frame may hold when it is not deflated, and no bomb.
                byte[] bytes = new byte[2 * Frame.PAYLOAD_MOST];
                int size = inflater.inflate(bytes);
                if (!inflater.finished()) {
                    throw new Violation("BLOBS that inflate to more than " + bytes.length + " bytes, or to no end");
                }
                return java.util.Arrays.copyOf(bytes, size);
            } catch (DataFormatException e) {
                throw new Violation("BLOBS that do not inflate: " + e.getMessage());
            } finally {
                inflater.end();
            }
        }
    }

    /** All of some blobs as frames, for an opening (J3). */
    static byte[] frames(List<Blob> blobs) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Writer writer = new Writer(frame -> bytes.write(frame, 0, frame.length));
        for (Blob blob : new ArrayList<>(blobs)) {
            writer.add(blob);
        }
        writer.flush();
        return bytes.toByteArray();
    }
}
