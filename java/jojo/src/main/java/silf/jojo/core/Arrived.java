package silf.jojo.core;

import java.util.ArrayList;
import java.util.List;
import silf.jojo.JojoException;

/** A message that has come in whole, or is about to: its frames as they came, not yet decoded, but for large arrays ({@link Filling}). */
final class Arrived {
    final int type;
    final Inlane lane;
    final long call;
    final int tag;
    private final int announced;
    private final List<byte[]> frames;
    private int[] begins;
    private int size;
    /** Then there are no frames. */
    private Filling filling;
    /** Credit that is due when it is handed on. */
    int cost;
    /** What it holds of its node's budget for large messages. */
    long reserved_bytes;
    /** Handed on, or dropped: it needs no room any more. */
    boolean over;

    Arrived(int type, Inlane lane, long call, int tag, int announced, byte[] frame, int begin, boolean whole) {
        this.type = type;
        this.lane = lane;
        this.call = call;
        this.tag = tag;
        this.announced = announced;
        this.frames = whole ? List.of(frame) : new ArrayList<>();
        this.begins = new int[whole ? 1 : 8];
        if (whole) {
            begins[0] = begin;
            size = frame.length - begin;
        } else {
            add(frame, begin);
        }
    }

    /** There is room for all of it: a large array is put together from here on. Before there are more frames than the first. */
    void fill() {
        filling = Filling.begin(frames.get(0), begins[0], announced);
        if (filling != null) {
            frames.clear();
        }
    }

    private void add(byte[] frame, int begin) {
        if (filling != null) {
            filling.more(frame, begin);
            size += frame.length - begin;
            return;
        }
        if (begins.length == frames.size()) {
            begins = java.util.Arrays.copyOf(begins, 2 * begins.length);
        }
        begins[frames.size()] = begin;
        frames.add(frame);
        size += frame.length - begin;
    }

    void more(byte[] frame, int begin) throws Violation {
        if ((long) size + frame.length - begin > announced) {
            throw new Violation("a message of more than the " + announced + " bytes that it announced");
        }
        add(frame, begin);
    }

    void end() throws Violation {
        if (size != announced) {
            throw new Violation("a message of " + size + " bytes that announced " + announced);
        }
    }

    int announced() {
        return announced;
    }

    /** The same without its bytes: it was decoded. */
    Arrived emptied() {
        return new Arrived(type, lane, call, tag, 0, new byte[0], 0, true);
    }

    /** What it says. As {@link Decoder#decode}. */
    Object value(UserClasses classes, String from) throws JojoException {
        return filling != null ? filling.array : Decoder.decode(body(), classes, from);
    }

    In body() {
        return new In(frames, java.util.Arrays.copyOf(begins, frames.size()));
    }
}
