package silf.jojo.core;

import java.lang.reflect.Array;
import java.util.ArrayDeque;
import silf.jojo.JojoException;
import silf.jojo.NodeLostException;

/**
 * The sending end of a lane (spec/jojo J9): values to frames, within the credit that the other end gives. Not in it: how
 * a route is found.
 */
final class Lane {
    /** What may be sent before the other end has said anything. */
    static final long BEGIN = 65536;
    /** What a frame costs beside its payload: as much as a receiver spends on keeping it. */
    static final int FRAME_COST = 64;
    /** Credit that pieces of large messages leave to small ones, so that these do not wait for the next CREDIT behind them. */
    private static final int LEFT = 8 << 10;
    /** Body bytes of a frame of a large message: two such frames, with their heads, are what credit allows at first. */
    static final int PIECE = (28 << 10) - 256;
    /** What such a frame costs at most: heads are small. */
    private static final int PIECE_COST = 28 << 10;

    private static final int HEAD = 8 + 4 + 4;

    final Path to;
    private final String name;
    private final Path from;
    private final int number;
    private final int field;
    // Guarded by this.
    private long sent;
    private long limit = BEGIN;
    private NodeLostException lost;
    private Route link;
    /**
     * Messages of several frames that have begun, by their calls' numbers, oldest first. All but the oldest leave credit for a
     * frame of it: however many have begun, one can end. (The other end finds room for them in the same order.)
     */
    private final ArrayDeque<Long> begun = new ArrayDeque<>();

    /** @param link the first route; null when there is none (then it is lost from the beginning) */
    Lane(Path to, String name, int epochTo, Path from, int epochFrom, int number, Route link) {
        this.to = to;
        this.name = name;
        this.from = from;
        this.number = number;
        this.field = Frame.laneField(number, epochTo, epochFrom);
        this.link = link;
    }

    int field() {
        return field;
    }

    /** What one CREDIT says; a lower one than before says nothing. */
    synchronized void credit(long told) {
        if (told > limit) {
            limit = told;
            notifyAll();
        }
    }

    /** Who waits for credit, and whoever comes, is told. */
    synchronized void lose(NodeLostException why) {
        lost = why;
        notifyAll();
    }

    /**
     * Sends a value; returns when all of it is on its way.
     *
     * @param call 0 only for SEND
     */
    void send(int type, long call, int tag, Object value) throws JojoException {
        int head = Frame.HEADER + to.size() + from.size();
        Bytes bytes = new Bytes(head + HEAD + 112);
        bytes.room(head + HEAD);
        Object array = Encoder.encode(value, bytes);
        int elements = 0;
        int size = 1;
        if (array != null) {
            elements = Array.getLength(array);
            size = Tag.size(Tag.ofArray(array.getClass()));
        }
        long body = bytes.size - head - HEAD + (long) elements * size;
        if (body > Integer.MAX_VALUE - 64) {
            throw new JojoException("a message of " + body + " bytes for node " + name + ": 2 GiB are the most");
        }
        if (array == null && body <= PIECE) {
            byte[] frame = bytes.toArray();
            header(frame, type, Frame.FIRST | Frame.LAST);
            first(frame, head, call, tag, (int) body);
            try {
                go(frame, call, 0);
            } catch (InterruptedException e) {
                throw interrupted(e);
            }
            return;
        }
        pieces(type, call, tag, bytes, head, array, elements, size, body);
    }

    /** Sends a value that was encoded before: it is the whole of {@code body}. */
    void sendBody(int type, long call, int tag, byte[] body) throws JojoException {
        int head = Frame.HEADER + to.size() + from.size();
        Bytes bytes = new Bytes(head + HEAD + body.length);
        bytes.room(head + HEAD);
        bytes.all(body);
        pieces(type, call, tag, bytes, head, null, 0, 1, body.length);
    }

    private void pieces(
            int type, long call, int tag, Bytes bytes, int head, Object array, int elements, int size, long body)
            throws JojoException {
        long id = call != 0 ? call : Calls.number();
        int at = head + HEAD; // in bytes
        int element = 0;
        boolean first = true;
        boolean last;
        boolean interrupted = false;
        try {
            do {
                int front = head + (first ? HEAD : 8);
                int encoded = Math.min(PIECE, bytes.size - at);
                int count = array == null ? 0 : Math.min(elements - element, (PIECE - encoded) / size);
                byte[] frame = new byte[front + encoded + count * size];
                System.arraycopy(bytes.array, at, frame, front, encoded);
                at += encoded;
                if (count > 0) {
                    Elements.put(Tag.ofArray(array.getClass()), array, element, count, frame, front + encoded);
                    element += count;
                }
                last = at == bytes.size && element == elements;
                header(frame, type, (first ? Frame.FIRST : 0) | (last ? Frame.LAST : 0));
                if (first) {
                    first(frame, head, last && type == Frame.SEND ? call : id, tag, (int) body);
                } else {
                    Frame.put64(frame, head, id);
                }
                interrupted |= goInTurn(frame, id, first);
                first = false;
            } while (!last);
        } finally {
            ended(id);
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Half a message would hold its room at the other end for ever: once it has begun, an interrupt waits for its end. */
    private boolean goInTurn(byte[] frame, long id, boolean first) throws JojoException {
        for (boolean interrupted = false; ; interrupted = true) {
            try {
                link().awaitRoom();
                go(frame, id, LEFT);
                return interrupted;
            } catch (InterruptedException e) {
                if (first) {
                    throw interrupted(e);
                }
            }
        }
    }

    private synchronized void ended(long id) {
        if (begun.remove(id) && !begun.isEmpty()) {
            notifyAll();
        }
    }

    private void header(byte[] frame, int type, int flags) {
        frame[0] = (byte) type;
        frame[1] = (byte) flags;
        Frame.put16(frame, 2, field);
        Frame.put32(frame, 4, frame.length - Frame.HEADER);
        from.put(frame, to.put(frame, Frame.HEADER));
    }

    private static void first(byte[] frame, int at, long call, int tag, int body) {
        Frame.put64(frame, at, call);
        Frame.put32(frame, at + 8, tag);
        Frame.put32(frame, at + 12, body);
    }

    /** @param left how much credit must be left behind it */
    private void go(byte[] frame, long id, int left) throws JojoException, InterruptedException {
        int cost = frame.length - Frame.HEADER + FRAME_COST;
        int flags = Frame.flags(frame);
        boolean whole = flags == (Frame.FIRST | Frame.LAST);
        Route route;
        boolean write;
        synchronized (this) {
            while (sent + cost > limit - left - (whole || isOldest(id) ? 0 : PIECE_COST) && lost == null) {
                LinkReader.waits();
                wait();
            }
            if (lost != null) {
                throw lost.again();
            }
            if (!whole && (flags & Frame.FIRST) != 0) {
                begun.add(id);
            }
            sent += cost;
            route = link;
            write = route.offer(frame);
        }
        if (write) {
            route.work();
        }
    }

    private boolean isOldest(long id) {
        return begun.isEmpty() || begun.peek() == id;
    }

    private synchronized Route link() {
        return link;
    }

    /** From the next frame on by another route. */
    synchronized void reroute(Route next) {
        link = next;
    }

    private JojoException interrupted(InterruptedException e) {
        Thread.currentThread().interrupt();
        return new JojoException("interrupted while sending to node " + name, e);
    }
}
