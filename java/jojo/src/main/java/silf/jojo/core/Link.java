package silf.jojo.core;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import silf.jojo.config.NodeSpec;

/**
 * One connection to a neighbour: frames in and out over a wire, signs of life (spec/jojo J16), resumption (J13), and one
 * end. Not in it: what frames mean to the tree, credit, who the neighbours are.
 */
final class Link implements Route {
    /** J16. */
    static final long QUIET_ns = 2_000_000_000L;

    static final long SILENT_ns = 7_000_000_000L;
    /** A peer that is at fault may not even read why. */
    private static final long LAST_WORD_MOST_ms = 300;

    static final int OVER = 0;
    static final int VERSION = 1;
    static final int VIOLATION = 2;
    static final int NO_SESSION = 3;
    static final int NO_BOOT = 4;
    static final int GIVEN_UP = 5;

    /** Who a link's frames are for. Called by the link's reader, in order, and must not wait. */
    interface Owner {
        void frame(Link link, byte[] frame) throws IOException;

        /** Once: nothing comes any more. Whoever waits for the peer is told now. */
        void lost(Link link, Loss loss);

        /** Once, as the last call: the same with what is known about the peer's process, which may take a second to be known. */
        default void explained(Link link, Loss loss) {}
    }

    /**
     * Why a link is no more.
     *
     * @param code what the peer said in GOODBYE, or -1 when it said nothing
     * @param text for people
     */
    record Loss(int code, String text) {
        boolean inOrder() {
            return code == OVER;
        }
    }

    /** How a cut link gets another wire; absent for wires that are their peer's life line. */
    interface Redial {
        /**
         * A new wire with both HELLOs said, or an exception when there is none before the deadline; after {@link Wire.Gone} it is
         * not asked again.
         */
        Resumed again(Hello ours, Deadline deadline) throws IOException, InterruptedException;

        /** How long a cut link may take to come back. */
        long most_ms();

        /** Whether one that was silent for too long is worth it. */
        boolean afterSilence();

        /** Whether the other end has come with another wire, so that the one before was cut. */
        default boolean hasCome() {
            return false;
        }

        /** @param received what the peer's HELLO said */
        record Resumed(Wire wire, FrameReader reader, long received) {
            /** Reads the peer's HELLO. */
            static Resumed greeted(Wire wire, Hello ours) throws IOException {
                FrameReader reader = new FrameReader(wire.in());
                byte[] frame = reader.next();
                if (frame == null) {
                    throw new IOException("closed before HELLO");
                }
                Hello theirs = Hello.read(frame);
                if (!theirs.sameSession(ours)) {
                    throw new Violation("HELLO of another session");
                }
                return new Resumed(wire, reader, theirs.received());
            }
        }
    }

    final String name;
    private final Owner owner;
    private final Redial redial;
    /** Ours, with the session; null until it is known. */
    private volatile Hello hello;
    private final Outbox outbox;
    /** The reader that is away on errands: whoever takes it out reads on. */
    private final AtomicReference<LinkReader> lent = new AtomicReference<>();
    // Of the watch alone: who was away at its last look, and for the how manieth time.
    private LinkReader seen;
    private long seenErrands;
    private final AtomicBoolean over = new AtomicBoolean();
    private volatile Wire wire;
    private volatile FrameReader reader;
    private volatile long heard_ns;
    /** For how long it may be silent; 0 while it may for ever, as a JVM that has not said its first word. */
    private volatile long silentMost_ns;

    private volatile boolean closing;
    private volatile Loss said;
    private long received;
    private long unacknowledged_bytes;

    /** What the owner knows the peer by. */
    volatile Object peer;

    Link(Wire wire, Owner owner) {
        this(wire, new FrameReader(wire.in()), owner, null, null);
    }

    /** @param redial for a link that can be resumed, with its session in {@code hello} or {@link #session} later; else null */
    Link(Wire wire, FrameReader reader, Owner owner, Redial redial, Hello hello) {
        this.name = wire.name();
        this.wire = wire;
        this.reader = reader;
        this.owner = owner;
        this.redial = redial;
        this.hello = hello;
        this.heard_ns = System.nanoTime();
        this.outbox = new Outbox(name, wire.out(), wire.parksWriter(), redial != null, new Outbox.Broken() {
            @Override
            public void broken(IOException cause) {
                cut("could not write: " + cause.getMessage());
            }

            @Override
            public void said() {
                closing = true;
            }
        });
    }

    /** The peer has said by what session this link can be resumed. */
    void session(Hello theirs) {
        hello = Hello.here(0).withSession(theirs.sessionHigh(), theirs.sessionLow());
    }

    /** Begins to read. */
    Link open() {
        LinkReader.Watch.add(this);
        new LinkReader(name, this, this::read).start();
        return this;
    }

    /** Whether more has come than the frame that is being dealt with. Of the reader. */
    boolean hasMore() {
        return reader.more();
    }

    /**
     * Has another reader go on where one is away since the last look. Of the watch.
     *
     * @return whether one is away
     */
    boolean overlook() {
        LinkReader away = lent.get();
        if (away == null) {
            seen = null;
        } else if (away != seen || away.errands != seenErrands) {
            seen = away;
            seenErrands = away.errands;
        } else {
            replace(away);
        }
        return away != null;
    }

    /** Has another reader go on where this one is away. */
    boolean replace(LinkReader away) {
        try {
            new LinkReader(name, this, me -> {
                if (lent.compareAndSet(away, null)) {
                    read(me);
                }
            }).start();
            return true;
        } catch (OutOfMemoryError e) {
            return false; // no thread to be had: at the watch's next look
        }
    }

    /** What this side has sent. */
    Sent sent() {
        return outbox.sent();
    }

    @Override
    public boolean offer(byte[] frame) {
        return outbox.offer(frame);
    }

    @Override
    public void work() {
        outbox.work();
    }

    @Override
    public void awaitRoom() throws InterruptedException {
        outbox.awaitRoom();
    }

    /** From now on signs of life are asked for, and so long a silence is an end. */
    void watch(long silentMost_ns) {
        heard_ns = System.nanoTime();
        this.silentMost_ns = silentMost_ns;
    }

    /** The longest silence of a node that is still coming up: what its start may take. JVMs that start starve each other. */
    static long silentWhileStarting_ns(NodeSpec spec) {
        return Math.max(SILENT_ns, TimeUnit.MILLISECONDS.toNanos(spec.invocation().launchMost_ms()));
    }

    /** Once a second or so. */
    void tick(long now_ns) {
        long most_ns = silentMost_ns;
        if (most_ns == 0 || over.get()) {
            return;
        }
        long quiet = now_ns - heard_ns;
        if (quiet > most_ns) {
            String why = "silent for " + most_ns / 1_000_000_000 + " s";
            if (redial != null && !redial.afterSilence()) {
                end(why, false);
            } else {
                cut(why);
            }
        } else if (quiet > QUIET_ns) {
            send(Frame.ofLong(Frame.PING, 0));
        }
    }

    /** This side's last word. The wire stays until the peer has closed it, or {@link #close}. */
    void goodbye(int code, String text) {
        send(goodbyeFrame(code, text));
    }

    /** Waits until all that was sent is with the operating system, or it is too late. */
    void drain(Deadline deadline) throws InterruptedException {
        outbox.drain(deadline);
    }

    /** Of a resumable link: waits until the peer has all that was sent, or it is too late. */
    void settle(Deadline deadline) throws InterruptedException {
        drain(deadline);
        send(Frame.ofLong(Frame.PING, 0)); // is answered by an ACK as well
        outbox.awaitConfirmed(deadline);
    }

    static byte[] goodbyeFrame(int code, String text) {
        // 1024 chars are at most 3 KiB.
        byte[] bytes = text.substring(0, Math.min(text.length(), 1024)).getBytes(StandardCharsets.UTF_8);
        byte[] frame = Frame.of(Frame.GOODBYE, 0, 0, 4 + bytes.length);
        Frame.put32(frame, Frame.HEADER, code);
        System.arraycopy(bytes, 0, frame, Frame.HEADER + 4, bytes.length);
        return frame;
    }

    static Loss readGoodbye(byte[] frame) throws Violation {
        if (frame.length < Frame.HEADER + 4) {
            throw new Violation("GOODBYE is cut off");
        }
        int at = Frame.HEADER + 4;
        return new Loss(
                Frame.i32(frame, Frame.HEADER),
                Text.printable(new String(frame, at, frame.length - at, StandardCharsets.UTF_8)));
    }

    /** Ends it now, from this side. The owner hears of it as of any end. */
    void close(String why) {
        closing = true;
        end(why, false);
    }

    Wire wire() {
        return wire;
    }

    /** The peer has another wire for this link; the old one is of no use. Never the one that is in use by now. */
    static void cut(Wire old) {
        shut(old);
    }

    private void cut(String why) {
        if (redial != null && !closing && !over.get()) {
            shut(wire); // the reader sees to the rest
        } else {
            end(why, false);
        }
    }

    private void read(LinkReader me) {
        for (; ; ) {
            String why;
            try {
                byte[] frame = reader.next();
                if (frame != null) {
                    me.take(true);
                    take(frame);
                    me.take(false);
                    if (reader.more() || !me.hasErrands()) {
                        continue;
                    }
                    lent.set(me);
                    me.runErrands();
                    if (lent.compareAndSet(me, null)) {
                        continue;
                    }
                    return;
                }
                why = "closed by the other side";
            } catch (Violation e) {
                me.leaveErrands();
                lastWord(VIOLATION, e.getMessage());
                end("violated the protocol: " + e.getMessage(), true);
                return;
            } catch (IOException e) {
                why = "could not read: " + e.getMessage();
            } catch (RuntimeException | StackOverflowError | OutOfMemoryError e) {
                me.leaveErrands();
                lastWord(VIOLATION, e.toString());
                end("a frame could not be dealt with: " + e, true);
                return;
            }
            me.leaveErrands();
            if (over.get() || closing || said != null || redial == null || !resume()) {
                end(why, true);
                return;
            }
        }
    }

    private void lastWord(int code, String text) {
        goodbye(code, text);
        try {
            drain(Deadline.in_ms(LAST_WORD_MOST_ms));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void take(byte[] frame) throws IOException {
        heard_ns = System.nanoTime();
        switch (Frame.type(frame)) {
            case Frame.PING -> {
                if (redial != null) {
                    send(Frame.ofLong(Frame.ACK, received));
                }
                send(Frame.ofLong(Frame.PONG, Frame.number(frame, Frame.HEADER)));
            }
            case Frame.PONG -> outbox.answered(Frame.number(frame, Frame.HEADER));
            case Frame.ACK -> outbox.confirm(Frame.number(frame, Frame.HEADER));
            case Frame.GOODBYE -> {
                said = readGoodbye(frame);
                owner.frame(this, frame);
            }
            default -> {
                if (redial != null && Outbox.isNumbered(frame)) {
                    received++;
                    unacknowledged_bytes += frame.length;
                    if (unacknowledged_bytes >= Outbox.KEPT_MOST / 8) {
                        unacknowledged_bytes = 0;
                        send(Frame.ofLong(Frame.ACK, received));
                    }
                }
                owner.frame(this, frame);
            }
        }
    }

    /** Another wire may be cut as well before it is in use; then there is another, until it is too late. */
    private boolean resume() {
        Deadline deadline = Deadline.in_ms(redial.most_ms());
        heard_ns = System.nanoTime();
        Hello ours = hello;
        // A shell that has come reads what the wire carries: it can be written to again, and was cut all the same.
        if (ours == null || !(wire.wasCut() || redial.hasCome())) {
            return false;
        }
        while (!over.get() && !deadline.passed()) {
            shut(wire);
            try {
                Redial.Resumed next = redial.again(ours.withReceived(received), deadline);
                wire = next.wire();
                reader = next.reader();
                if (over.get()) {
                    shut(wire);
                    return false;
                }
                outbox.resume(wire.out(), next.received());
                heard_ns = System.nanoTime();
                return true;
            } catch (Wire.Gone e) {
                return false;
            } catch (IOException e) {
                // Once more.
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return false;
    }

    private void end(String why, boolean byReader) {
        if (!over.compareAndSet(false, true)) {
            return;
        }
        LinkReader.Watch.remove(this);
        Runnable last = () -> {
            outbox.close();
            Loss loss = said;
            if (loss != null) {
                shut(wire);
                owner.lost(this, loss);
            } else {
                loss = new Loss(-1, why);
                owner.lost(this, loss);
                String more = wire.diagnosis();
                loss = more.isEmpty() ? loss : new Loss(-1, why + "; " + more);
                shut(wire);
            }
            owner.explained(this, loss);
        };
        if (byReader) {
            last.run();
        } else {
            new LinkThread(name + " end", last).start();
        }
    }

    private static void shut(Wire wire) {
        try {
            wire.close();
        } catch (IOException e) {
            // It is of no use any more, closed or not.
        }
    }

    @Override
    public String toString() {
        return name;
    }
}
