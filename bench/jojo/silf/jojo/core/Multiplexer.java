package silf.jojo.core;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * A link and nothing above it, between this JVM and a {@link Far}: bytes are copied into frames of one lane, which threads of
 * the link write and read. What the paper's figure 13 calls Multi. Not here: values, handlers, credit, trees.
 */
public final class Multiplexer implements AutoCloseable {
    private static final Path FAR = Path.of(0);
    private static final String TAKEN = "taken";
    private static final int HEAD = Frame.HEADER + FAR.size() + Path.ROOT.size();

    private final LinkedBlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private final Link link;
    private final long ahead_bytes;

    /**
     * @param far runs {@link Far}
     * @param ahead_bytes on their way at most
     */
    public Multiplexer(Process far, long ahead_bytes) {
        this.ahead_bytes = ahead_bytes;
        Wire wire = Wire.of("far", far.getInputStream(), far.getOutputStream(), far::destroy);
        link = new Link(wire, new Link.Owner() {
            @Override
            public void frame(Link link, byte[] frame) {
                answers.add(TAKEN);
            }

            @Override
            public void lost(Link link, Link.Loss loss) {
                answers.add(loss.text());
            }
        }).open();
    }

    /** Sends so many messages of that many bytes; returns when the far side has taken them all. */
    public void send(int size, int count) throws IOException, InterruptedException {
        byte[] message = new byte[size];
        int asked = 0;
        long since_bytes = 0;
        for (int i = 0; i < count; i++) {
            send(message);
            since_bytes += size;
            if (since_bytes >= ahead_bytes / 2) {
                since_bytes = 0;
                ask();
                if (++asked > 1) {
                    answer();
                }
            }
        }
        ask();
        if (asked > 0) {
            answer();
        }
        answer();
    }

    /** As a lane does: what is one frame does not wait for room on the link. */
    private void send(byte[] message) throws InterruptedException {
        for (int at = 0; at < message.length; at += Lane.PIECE) {
            int piece = Math.min(Lane.PIECE, message.length - at);
            byte[] frame = frame(Frame.SEND, at == 0, at + piece == message.length, piece);
            System.arraycopy(message, at, frame, HEAD, piece);
            if (piece < message.length) {
                link.awaitRoom();
            }
            send(link, frame);
        }
    }

    private void ask() {
        send(link, frame(Frame.CALL, true, true, 0));
    }

    private void answer() throws IOException, InterruptedException {
        String answer = answers.take();
        if (!answer.equals(TAKEN)) {
            throw new IOException("the far side of the multiplexer: " + answer);
        }
    }

    @Override
    public void close() {
        link.close("over");
    }

    private static byte[] frame(int type, boolean first, boolean last, int payload) {
        byte[] frame = Frame.of(type, (first ? Frame.FIRST : 0) | (last ? Frame.LAST : 0), 0, HEAD - Frame.HEADER + payload);
        Path.ROOT.put(frame, FAR.put(frame, Frame.HEADER));
        return frame;
    }

    private static void send(Link link, byte[] frame) {
        if (link.offer(frame)) {
            link.work();
        }
    }

    /** The far side, in a JVM of its own: takes frames, and answers the one that asks whether all before it were taken. */
    public static final class Far implements Link.Owner {
        private final CountDownLatch over = new CountDownLatch(1);

        public static void main(String[] args) throws InterruptedException {
            Far far = new Far();
            Wire near = Wire.of("near", new FileInputStream(FileDescriptor.in), new FileOutputStream(FileDescriptor.out), () -> {});
            new Link(near, far).open();
            far.over.await();
        }

        @Override
        public void frame(Link link, byte[] frame) {
            if (Frame.type(frame) == Frame.CALL) {
                send(link, Multiplexer.frame(Frame.REPLY, true, true, 0));
            }
        }

        @Override
        public void lost(Link link, Link.Loss loss) {
            over.countDown();
        }
    }
}
