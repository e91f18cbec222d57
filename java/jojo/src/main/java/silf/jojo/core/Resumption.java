package silf.jojo.core;

import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Marker;
import silf.jojo.launch.Script;

/**
 * How a link of the tree whose wire was cut gets another (spec/jojo J13): the parent has its command run once more, and the
 * shell that comes up over there tells the node's JVM its own number; the JVM takes over the shell's ends of the wire. Not in
 * it: what is sent again ({@link Outbox}), the command ({@link Script}).
 */
final class Resumption {
    /** The property of a program that says how long a cut link may take to come back, in ms; 0: none does. */
    static final String PROPERTY = "jojo.resumeMostMs";
    private static final String NUMBER = "[0-9]{1,9}";
    /** Without it: what J17 leaves of its five seconds, and as long as one ssh takes at a round trip of 300 ms. */
    static final long MOST_ms = 3_000;

    private Resumption() {}

    /** For a node and its parent the same: 0 when the link between them ends with its wire. */
    static long most_ms(NodeSpec node, Map<String, String> properties) {
        if (!node.invocation().reconnects()) {
            return 0;
        }
        String said = properties.getOrDefault(PROPERTY, "");
        return said.matches(NUMBER) ? Long.parseLong(said) : MOST_ms;
    }

    /** Null, or what is wrong with a program's property. */
    static String unfit(String said) {
        return said == null || said.matches(NUMBER)
                ? null
                : "the property " + PROPERTY + " is \"" + Text.printable(said) + "\"; it must be milliseconds, nine digits at most";
    }

    /** A link to a child. */
    static Link toChild(Wire wire, NodeSpec node, Map<String, String> properties, Link.Owner owner) {
        long most_ms = most_ms(node, properties);
        return most_ms == 0 ? new Link(wire, owner) : new Link(wire, new FrameReader(wire.in()), owner, new OfParent(wire, most_ms), null);
    }

    private static final class OfParent implements Link.Redial {
        private final long most_ms;
        private Wire wire;

        OfParent(Wire wire, long most_ms) {
            this.wire = wire;
            this.most_ms = most_ms;
        }

        @Override
        public Resumed again(Hello ours, Deadline deadline) throws IOException {
            if (ours.sessionLow() == 0) {
                throw new Wire.Gone("the node cannot be given another wire");
            }
            Wire next = wire.again(ours.sessionLow(), deadline);
            AtomicBoolean greeted = new AtomicBoolean();
            CompletableFuture.delayedExecutor(deadline.left_ms(), TimeUnit.MILLISECONDS).execute(() -> {
                if (!greeted.get()) {
                    Link.cut(next);
                }
            });
            try {
                next.out().write(ours.frame());
                next.out().flush();
                Resumed resumed = Resumed.greeted(next, ours);
                greeted.set(true);
                wire = next;
                return resumed;
            } catch (IOException | RuntimeException e) {
                Link.cut(next);
                throw e;
            }
        }

        @Override
        public long most_ms() {
            return most_ms;
        }

        @Override
        public boolean afterSilence() {
            return false; // whoever waits for it has waited long enough
        }
    }

    /** At a node that has no file for shells: it counts frames as its parent does, and that is all. */
    static final class Never implements Link.Redial {
        @Override
        public Resumed again(Hello ours, Deadline deadline) throws IOException {
            throw new Wire.Gone("no other wire can be had");
        }

        @Override
        public long most_ms() {
            return 0;
        }

        @Override
        public boolean afterSilence() {
            return false;
        }
    }

    /** At a node, for the link to its parent. */
    static final class OfNode implements Link.Redial {
        private static final long LOOK_ms = 10;

        private final RandomAccessFile file;
        private final long most_ms;
        private long read;

        /**
         * @param path of the file in which shells leave their numbers, a line each behind what it has now
         */
        OfNode(String path, long most_ms) throws IOException {
            this.file = new RandomAccessFile(path, "r");
            this.read = file.length();
            this.most_ms = most_ms;
        }

        @Override
        public Resumed again(Hello ours, Deadline deadline) throws IOException, InterruptedException {
            long shell = next(deadline);
            Wire wire = new NodesWire(shell);
            try {
                Marker.write(wire.out());
                wire.out().write(ours.frame());
                return Resumed.greeted(wire, ours);
            } catch (IOException | RuntimeException e) {
                wire.close();
                throw e;
            }
        }

        /** The last shell that has come and was not taken yet. */
        private long next(Deadline deadline) throws IOException, InterruptedException {
            while (!deadline.passed()) {
                if (file.length() > read) {
                    file.seek(read);
                    byte[] bytes = new byte[(int) (file.length() - read)];
                    file.readFully(bytes);
                    String text = new String(bytes, java.nio.charset.StandardCharsets.US_ASCII);
                    if (text.endsWith("\n")) {
                        read += bytes.length;
                        String[] lines = text.split("\n");
                        try {
                            return Long.parseLong(lines[lines.length - 1]);
                        } catch (NumberFormatException e) {
                            throw new IOException("a line that is no process: " + lines[lines.length - 1], e);
                        }
                    }
                }
                TimeUnit.MILLISECONDS.sleep(LOOK_ms);
            }
            throw new IOException("nobody came");
        }

        @Override
        public boolean hasCome() {
            try {
                return file.length() > read;
            } catch (IOException e) {
                return false;
            }
        }

        @Override
        public long most_ms() {
            return most_ms;
        }

        @Override
        public boolean afterSilence() {
            return false;
        }
    }

    /** A node's wire to its parent: descriptors that the bootstrap has opened, or a shell's. */
    static final class NodesWire implements Wire {
        /** How long after the end of what it reads a node looks whether it can still write. */
        private static final long LOOK_AFTER_ms = 250;

        private static final long LOOK_MOST_ms = 2_000;

        private final InputStream in;
        private final OutputStream out;
        private final ProcessHandle shell;

        NodesWire(InputStream in, OutputStream out) {
            this.in = in;
            this.out = out;
            this.shell = null;
        }

        /** @param number of the shell */
        NodesWire(long number) throws IOException {
            shell = ProcessHandle.of(number).orElseThrow(() -> new IOException("process " + number + " has ended"));
            in = new FileInputStream("/proc/" + number + "/fd/" + Script.IN);
            out = new FileOutputStream("/proc/" + number + "/fd/" + Script.OUT);
        }

        @Override
        public InputStream in() {
            return in;
        }

        @Override
        public OutputStream out() {
            return out;
        }

        @Override
        public String name() {
            return "parent";
        }

        @Override
        public boolean parksWriter() {
            return false;
        }

        /**
         * Whether both ways have ended, as when a connection is cut. Of a parent that died or closed its own end, ssh takes what is
         * written for a while.
         */
        @Override
        public boolean wasCut() {
            AtomicBoolean failed = new AtomicBoolean();
            LinkThread look = new LinkThread("look at the wire", () -> {
                try {
                    out.write(Frame.ofLong(Frame.PING, 0));
                } catch (IOException e) {
                    failed.set(true);
                }
            });
            try {
                TimeUnit.MILLISECONDS.sleep(LOOK_AFTER_ms);
                look.start();
                look.join(LOOK_MOST_ms); // a pipe that is full and is not read is no cut
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            return failed.get();
        }

        @Override
        public void close() throws IOException {
            if (shell != null) {
                shell.destroy();
            }
            in.close();
            out.close();
        }
    }
}
