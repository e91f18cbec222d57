package silf.jojo.core;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * The receiving end of a lane (spec/jojo J9): frames to messages, and credit for what was handed on. Frames come from one
 * thread at a time. Not in it: what becomes of a message.
 */
final class Inlane {
    /** What a fast sender may have on its way: a megabyte keeps 10 MB/s busy over 100 ms. */
    private static final long WINDOW_MOST = 1 << 20;
    /** What all senders to one node may have on their way to it, however many they are, above {@link Lane#BEGIN} each. */
    private static final long WINDOWS_MOST = 64 << 20;
    /** Messages that one sender may have begun at a time: one a thread of its. */
    private static final int BEGUN_MOST = 4096;

    /** What lanes of one node share. */
    interface Owner {
        /** How many lanes there are. */
        int lanes();

        void credit(Inlane lane, byte[] frame);

        Budget budget();
    }

    final Path from;
    final int epochFrom;
    final int number;
    private final Path here;
    private final int epochHere;
    private final Owner owner;
    private final Map<Long, Arrived> begun = new ConcurrentHashMap<>();
    /** Begun as well, and too large: their frames are passed over. */
    private final Set<Long> refused = ConcurrentHashMap.newKeySet();
    // Guarded by this.
    private long received;
    private long taken;
    private long told = Lane.BEGIN;
    private boolean lost;

    Inlane(Path from, int epochFrom, int number, Path here, int epochHere, Owner owner) {
        this.from = from;
        this.epochFrom = epochFrom;
        this.number = number;
        this.here = here;
        this.epochHere = epochHere;
        this.owner = owner;
    }

    /**
     * Takes a frame of SEND, CALL, REPLY or FAIL.
     *
     * @param at behind the paths
     * @param refused gets a message that is too large for this JVM, at its first frame
     * @return a message that is complete with this frame, else null
     */
    Arrived take(byte[] frame, int at, Consumer<Arrived> refused) throws Violation {
        int cost = frame.length - Frame.HEADER + Lane.FRAME_COST;
        synchronized (this) {
            if (received + cost > told) {
                throw new Violation("from " + from + " came more than its credit of " + told);
            }
            received += cost;
        }
        int type = Frame.type(frame);
        int flags = Frame.flags(frame);
        boolean last = (flags & Frame.LAST) != 0;
        if (frame.length - at < 8) {
            throw new Violation("a message frame is cut off");
        }
        long call = Frame.i64(frame, at);
        if ((flags & Frame.FIRST) != 0) {
            if (frame.length - at < 16) {
                throw new Violation("a message's first frame is cut off");
            }
            int tag = Frame.i32(frame, at + 8);
            int announced = Frame.i32(frame, at + 12);
            at += 16;
            if (announced < 0 || frame.length - at > announced || last && frame.length - at != announced) {
                throw new Violation("a message of " + Integer.toUnsignedString(announced) + " bytes whose first frame has "
                        + (frame.length - at));
            }
            Arrived message = new Arrived(type, this, call, tag, announced, frame, at, last);
            if (last) {
                message.cost = cost;
                return message;
            }
            begin(message, cost, refused);
            return null;
        }
        return goOn(type, call, frame, at + 8, cost, last);
    }

    private void begin(Arrived message, int cost, Consumer<Arrived> refuse) throws Violation {
        if (begun.size() + refused.size() >= BEGUN_MOST || message.call == 0
                || refused.contains(message.call) || begun.putIfAbsent(message.call, message) != null) {
            throw new Violation("message " + message.call + " of " + from + " begins where it cannot");
        }
        if (message.announced() > owner.budget().most_bytes()) {
            refused.add(message.call);
            begun.remove(message.call);
            refuse.accept(message);
            taken(cost);
            return;
        }
        message.cost = cost; // no credit for it until there is room
        if (owner.budget().take(message.announced(), () -> admit(message))) {
            message.cost = 0;
            message.reserved_bytes = message.announced();
            if (number == Post.MESSAGES) {
                message.fill();
            }
            taken(cost);
        }
    }

    /** There is room for a message that waited: its sender may go on. In whatever thread gave the room back. */
    private void admit(Arrived message) {
        int due;
        synchronized (this) {
            if (lost || message.over) {
                due = -1;
            } else {
                message.reserved_bytes = message.announced();
                due = message.cost;
                message.cost = 0;
            }
        }
        if (due < 0) {
            owner.budget().give(message.announced());
        } else {
            taken(due);
        }
    }

    private Arrived goOn(int type, long call, byte[] frame, int at, int cost, boolean last) throws Violation {
        Arrived message = begun.get(call);
        if (message == null) {
            if (!refused.contains(call)) {
                throw new Violation("message " + call + " of " + from + " goes on and never began");
            }
            taken(cost); // of a message that was refused
            if (last) {
                refused.remove(call);
            }
            return null;
        }
        if (message.type != type) {
            throw new Violation("message " + call + " of " + from + " changes its type");
        }
        message.more(frame, at);
        boolean paid;
        synchronized (this) {
            paid = message.reserved_bytes > 0;
            if (!paid) {
                message.cost += cost;
            }
        }
        if (paid) {
            taken(cost);
        }
        if (!last) {
            return null;
        }
        message.end();
        begun.remove(call);
        return message;
    }

    /** A message was handed on, or dropped: its room is free. */
    void handedOn(Arrived message) {
        int due;
        long reserved_bytes;
        synchronized (this) { // against admit
            message.over = true;
            due = message.cost;
            reserved_bytes = message.reserved_bytes;
            message.cost = 0;
            message.reserved_bytes = 0;
        }
        if (due > 0) {
            taken(due);
        }
        if (reserved_bytes > 0) {
            owner.budget().give(reserved_bytes);
        }
    }

    private void taken(long cost) {
        long window = Math.min(WINDOW_MOST, Math.max(Lane.BEGIN, WINDOWS_MOST / Math.max(1, owner.lanes())));
        byte[] frame = null;
        synchronized (this) {
            taken += cost;
            if (taken + window - told >= window / 4) {
                told = taken + window;
                frame = Frame.routed(
                        Frame.CREDIT, Frame.laneField(number, epochFrom, epochHere), from, here, told);
            }
        }
        if (frame != null) {
            owner.credit(this, frame);
        }
    }

    /** The other end is no more: what had begun to come is dropped. */
    void lose() {
        long reserved_bytes = 0;
        synchronized (this) {
            lost = true;
            for (Arrived message : begun.values()) {
                reserved_bytes += message.reserved_bytes;
                message.reserved_bytes = 0;
            }
        }
        if (reserved_bytes > 0) {
            owner.budget().give(reserved_bytes);
        }
        begun.clear();
    }
}
