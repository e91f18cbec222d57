package silf.jojo.bench;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import silf.jojo.Code;
import silf.jojo.Future;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.Multiplexer;
import silf.jojo.testkit.DelayProxy;
import silf.jojo.testkit.SshDaemon;

/** Arrays, beside bare frames over the same command; and small calls while arrays pass. */
final class Bulk {
    private static final int ELEMENTS = 1_000_000;
    private static final long BYTES = ELEMENTS * 8L;
    /** Arrays a sample. */
    private static final int ARRAYS = 16;
    private static final int FRAME_BYTES = 64 << 10;
    /** Arrays under way, so that the link is never idle. */
    private static final int AHEAD = 4;
    private static final long AHEAD_BYTES = 8 << 20;
    /** The paper's WAN: 10 MB/s, 7 ms. */
    private static final double FAR_MS = 7;
    private static final long FAR_BYTES_PER_SECOND = 10_000_000;
    /** How long a point of a figure is measured at least. */
    private static final long FIGURE_ns = 100_000_000;

    private Bulk() {}

    /** Takes arrays, answers with nothing; small ones it answers with themselves. */
    public static final class Sink extends Code {
        @Override
        public Object handle(Message message) {
            return message.tag == 1 ? null : message.contents;
        }
    }

    static void arrays() throws Exception {
        Main.note("double[1M] to the far side, " + ARRAYS + " a sample; raw: the same arrays in frames of 64 KiB written by this JVM to"
                + " a JVM that reads them");
        try (SshDaemon sshd = SshDaemon.start()) {
            for (boolean ssh : new boolean[] {false, true}) {
                String over = ssh ? "ssh" : "a pipe";
                var how = ssh ? Trees.ssh(sshd.command()) : Trees.local();
                Process process = started(ssh ? Trees.with(sshd.command(), "-T", "far") : List.of("sh", "-c"), RawSink.class);
                Trees.run(List.of(Trees.node("far", Sink.class, how)), below -> {
                    double[] array = array();
                    for (int i = 0; i < Main.rounds(20); i++) {
                        double bare = BYTES * ARRAYS * 1e9 / raw(process, array);
                        double ours = BYTES * ARRAYS * 1e9 / jojo(below[0], array);
                        if (i > 0) {
                            Main.sample("raw frames over " + over, "bytes_per_second", bare);
                            Main.sample("arrays over " + over, "bytes_per_second", ours);
                        }
                    }
                });
                process.destroy();
            }
            figures(sshd);
        }
    }

    /** The paper's figures 11 to 13: bytes a second by the size of messages. */
    private static void figures(SshDaemon sshd) throws Exception {
        Main.note("by size: byte arrays, up to " + AHEAD_BYTES + " bytes under way; far: " + FAR_MS + " ms round trip and " + FAR_BYTES_PER_SECOND / 1e6
                + " MB/s each way, as the paper's WAN (testkit's DelayProxy); multiplexer: frames of one lane over a link of the core alone, without"
                + " credit, values, handlers");
        try (DelayProxy proxy = new DelayProxy(sshd.address(), FAR_MS, FAR_BYTES_PER_SECOND)) {
            figure("over a pipe", List.of("sh", "-c"), Trees.local());
            figure("over ssh", Trees.with(sshd.command(), "-T", "far"), Trees.ssh(sshd.command()));
            figure("over ssh, far", Trees.with(sshd.command(proxy.port()), "-T", "far"), Trees.ssh(sshd.command(proxy.port())));
        }
    }

    private static void figure(String over, List<String> shell, NodeSpec.Invocation how) throws Exception {
        Process process = started(shell, RawSink.class);
        try (Multiplexer multiplexer = new Multiplexer(started(shell, Multiplexer.Far.class), AHEAD_BYTES)) {
            Trees.run(List.of(Trees.node("far", Sink.class, how)), below -> {
                for (int size = 1 << 10; size <= 4 << 20; size <<= 2) {
                    double[] best = new double[3];
                    for (int round = 0; round < 3; round++) {
                        best[0] = Math.max(best[0], rate(raw -> rawBytes(process, raw[0], raw[1]), size));
                        best[1] = Math.max(best[1], rate(multi -> multiplexer.send(multi[0], multi[1]), size));
                        best[2] = Math.max(best[2], rate(ours -> jojoBytes(below[0], ours[0], ours[1]), size));
                    }
                    Main.point("frames " + over, size, best[0]);
                    Main.point("multiplexer " + over, size, best[1]);
                    Main.point("Jojo " + over, size, best[2]);
                }
            });
        } finally {
            process.destroy();
        }
    }

    private interface Send {
        void send(int[] sizeAndCount) throws Exception;
    }

    /** Bytes a second, over about as long as {@link #FIGURE_ns}. */
    private static double rate(Send send, int size) throws Exception {
        for (int count = 1; ; count *= 4) {
            long begun = System.nanoTime();
            send.send(new int[] {size, count});
            long took_ns = System.nanoTime() - begun;
            if (took_ns > FIGURE_ns) {
                return (double) size * count * 1e9 / took_ns;
            }
        }
    }

    private static void jojoBytes(Node node, int size, int count) throws Exception {
        Message message = new Message(1, new byte[size]);
        Deque<Future> under = new ArrayDeque<>();
        for (int i = 0; i < count; i++) {
            if (under.size() * (long) size >= AHEAD_BYTES) {
                under.remove().touch();
            }
            under.add(node.callFuture(message));
        }
        while (!under.isEmpty()) {
            under.remove().touch();
        }
    }

    private static void rawBytes(Process process, int size, int count) throws Exception {
        OutputStream out = process.getOutputStream();
        byte[] frame = new byte[8 + Math.min(size, FRAME_BYTES)];
        ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN).putInt(frame.length - 8);
        for (long left = (long) size * count; left > 0; left -= frame.length - 8) {
            out.write(frame);
        }
        out.write(new byte[8]); // no length: answer
        out.flush();
        if (process.getInputStream().read() < 0) {
            throw new IllegalStateException("the raw peer has gone");
        }
    }

    private static double[] array() {
        return new java.util.Random(1).doubles(ELEMENTS).toArray();
    }

    private static long jojo(Node node, double[] array) throws Exception {
        Message message = new Message(1, array);
        Deque<Future> under = new ArrayDeque<>();
        long begun = System.nanoTime();
        for (int i = 0; i < ARRAYS; i++) {
            if (under.size() == AHEAD) {
                under.remove().touch();
            }
            under.add(node.callFuture(message));
        }
        while (!under.isEmpty()) {
            under.remove().touch();
        }
        return System.nanoTime() - begun;
    }

    private static long raw(Process process, double[] array) throws Exception {
        OutputStream out = process.getOutputStream();
        ByteBuffer frame = ByteBuffer.allocate(8 + FRAME_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        long begun = System.nanoTime();
        for (int i = 0; i < ARRAYS; i++) {
            for (int at = 0; at < ELEMENTS; at += FRAME_BYTES / 8) {
                int count = Math.min(FRAME_BYTES / 8, ELEMENTS - at);
                frame.clear();
                frame.putInt(count * 8).putInt(0);
                frame.asDoubleBuffer().put(array, at, count);
                out.write(frame.array(), 0, 8 + count * 8);
            }
        }
        out.write(new byte[8]); // no length: answer
        out.flush();
        if (process.getInputStream().read() < 0) {
            throw new IllegalStateException("the raw peer has gone");
        }
        return System.nanoTime() - begun;
    }

    /** The far side of raw frames: decodes each array that they make up. */
    public static final class RawSink {
        public static void main(String[] args) throws Exception {
            InputStream in = System.in;
            double[] array = new double[ELEMENTS];
            ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES).order(ByteOrder.LITTLE_ENDIAN);
            byte[] header = new byte[8];
            int at = 0;
            while (in.readNBytes(header, 0, 8) == 8) {
                int length = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN).getInt();
                if (length == 0) {
                    System.out.write(1);
                    System.out.flush();
                    continue;
                }
                in.readNBytes(frame.array(), 0, length);
                frame.clear().asDoubleBuffer().get(array, at, length / 8);
                at += length / 8;
                at = at + FRAME_BYTES / 8 > ELEMENTS ? 0 : at;
            }
        }
    }

    static void beside() throws Exception {
        Main.note("each sample is one small call over ssh while double[1M] pass without a pause, the same way; bare: "
                + Peers.BARE_BYTES + " bytes to `ssh ... cat` and back while the same arrays pass in raw frames by an ssh of their own,"
                + " so that what they wait for is processors, and nothing else");
        try (SshDaemon sshd = SshDaemon.start()) {
            Trees.run(List.of(Trees.node("far", Sink.class, Trees.ssh(sshd.command()))), below -> {
                Node node = below[0];
                double[] array = array();
                for (int i = 0; i < 20_000; i++) {
                    node.call(new Message(2, 1L));
                }
                calls(node, "small call alone");
                AtomicBoolean over = new AtomicBoolean();
                Thread bulk = new Thread(() -> {
                    try {
                        while (!over.get()) {
                            jojo(node, array);
                        }
                    } catch (Exception e) {
                        Main.missing("small call beside bulk", e.toString());
                    }
                });
                bulk.start();
                jojo(node, array);
                calls(node, "small call beside bulk");
                over.set(true);
                bulk.join();
            });
            bareBeside(sshd);
        }
    }

    private static void bareBeside(SshDaemon sshd) throws Exception {
        Process sink = started(Trees.with(sshd.command(), "-T", "far"), RawSink.class);
        try {
            double[] array = array();
            AtomicBoolean over = new AtomicBoolean();
            Thread bulk = new Thread(() -> {
                try {
                    while (!over.get()) {
                        raw(sink, array);
                    }
                } catch (Exception e) {
                    Main.missing("bare beside bulk", e.toString());
                }
            });
            bulk.start();
            Peers.bare("bare ssh beside bulk", sshd, 1, 2000, 2000);
            over.set(true);
            bulk.join();
        } finally {
            sink.destroy();
        }
    }

    /** A JVM that takes frames, by a shell here or there. */
    private static Process started(List<String> shell, Class<?> taker) throws IOException {
        String java = "exec " + System.getProperty("java.home") + "/bin/java -cp " + System.getProperty("java.class.path") + " '" + taker.getName() + "'";
        return new ProcessBuilder(Trees.with(shell, java)).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    private static void calls(Node node, String series) throws Exception {
        for (int i = 0; i < Main.rounds(2000); i++) {
            long begun = System.nanoTime();
            node.call(new Message(2, 1L));
            Main.seconds(series, System.nanoTime() - begun);
        }
    }
}
