package silf.jojo.core;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import silf.jojo.launch.Launcher;
import silf.jojo.launch.ProcessLauncher;

/** A node in a JVM of its own, as the bootstrap hands over to it (spec/jojo J3). */
public final class NodeMain {
    /** J17: what hooks and handlers do, a JVM without a parent is gone after so long. */
    private static final long ORPHAN_MOST_ms = 1_500;

    /** Set by the bootstrap where another wire can be had: the file in which shells that bring one leave their numbers. */
    private static final String SHELLS = "jojo.shells";

    /** What a node takes at its end to keep what it was sent; its parent waits for its last words a little longer. */
    private static final long KEEP_MOST_ms = 1_000;

    /** With more in use than starting others leaves, a collection would take longer than the moment that it does. */
    private static final long GARBAGE_MOST_bytes = 64 << 20;

    private NodeMain() {}

    /** Returns when the node is over. */
    public static void main(
            InputStream in, OutputStream out, PrintStream stdout, Map<String, byte[]> blobs, byte[] start)
            throws IOException, InterruptedException {
        byte[] birthBytes = blobs.get(Birth.BLOB);
        if (birthBytes == null) {
            throw new Violation("START without " + Birth.BLOB);
        }
        Birth birth = Birth.read(birthBytes);
        BlobCache cache = BlobCache.isAsked(birth.properties()) ? BlobCache.ofThisAccount() : null;
        LocalNode.Up up = up(birth, in, out);
        Hello hello = Hello.here(birth.seed(), cache == null ? new long[0] : cache.held());
        if (up.hello() != null) {
            hello = hello.withSession(up.hello().sessionHigh(), up.hello().sessionLow());
        }
        out.write(hello.frame());
        out.flush();
        Map<String, byte[]> core = new HashMap<>(blobs);
        core.remove(Birth.BLOB);
        ProcessLauncher launcher = new ProcessLauncher((spec, line) -> System.err.println("[" + spec.name() + "] " + line));
        LocalNode[] made = new LocalNode[1];
        ClassStore store = new ClassStore(new ClassStore.Above() {
            @Override
            public void want(String name, ClassStore asking) {
                ask(0, name);
            }

            @Override
            public void wantBytes(String name, ClassStore asking) {
                ask(ClassStore.BYTES, name);
            }

            private void ask(int number, String name) {
                made[0].sendUp(Frame.of(Frame.WANT, new Bytes(name.length() + 16).i32(number).name(name).toArray()));
            }
        }, cache);
        UserClasses classes = new UserClasses(new UserLoader(store, NodeMain.class.getClassLoader()));
        LocalNode node = new LocalNode(
                birth, up, classes, store, new LazyOpening(core, launcher), true,
                new LocalNode.Outside() {
                    @Override
                    public void note(String text) {
                        System.err.println("jojo: " + text);
                    }

                    /** Starting others left 10 MB, which a node that only passes messages on would hold for good. */
                    @Override
                    public void ready() {
                        Runtime jvm = Runtime.getRuntime();
                        if (!birth.spec().children().isEmpty() && jvm.totalMemory() - jvm.freeMemory() < GARBAGE_MOST_bytes) {
                            System.gc();
                        }
                    }

                    @Override
                    public void orphaned() {
                        new LinkThread("orphan", NodeMain::halt).start();
                        // Children that are just being started have no link that could be closed.
                        launcher.end();
                    }
                });
        made[0] = node;
        Output output = Output.over(node);
        System.setOut(new PrintStream(output.stream(Output.OUT), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(output.stream(Output.ERR), true, StandardCharsets.UTF_8));
        node.beforeGoodbye(() -> {
            output.flush();
            if (cache != null) {
                cache.settle(Deadline.in_ms(KEEP_MOST_ms));
            }
        });
        node.run();
    }

    /** With a session of this start's number and the JVM's process, where the link can be resumed (J13). */
    private static LocalNode.Up up(Birth birth, InputStream in, OutputStream out) throws IOException {
        Wire wire = new Resumption.NodesWire(in, out);
        long most_ms = Resumption.most_ms(birth.spec(), birth.properties());
        if (most_ms == 0) {
            return new LocalNode.Up(wire, new FrameReader(in), null, null);
        }
        String shells = System.getProperty(SHELLS);
        if (shells == null) {
            return new LocalNode.Up(wire, new FrameReader(in), new Resumption.Never(), null);
        }
        // Quicker than ProcessHandle, which a JVM that is just starting would load for it.
        long process = Long.parseLong(new File("/proc/self").getCanonicalFile().getName());
        Hello session = Hello.here(birth.seed()).withSession(birth.seed(), process);
        return new LocalNode.Up(wire, new FrameReader(in), new Resumption.OfNode(shells, most_ms), session);
    }

    private static void halt() {
        try {
            Thread.sleep(ORPHAN_MOST_ms);
        } catch (InterruptedException e) {
            // Then now.
        }
        Runtime.getRuntime().halt(1);
    }

    /** The core is packed for children only when there is one. */
    private static final class LazyOpening implements Family.Start {
        private final Map<String, byte[]> core;
        private final Launcher launcher;
        private Opening opening;

        LazyOpening(Map<String, byte[]> core, Launcher launcher) {
            this.core = core;
            this.launcher = launcher;
        }

        private synchronized Opening opening() {
            if (opening == null) {
                opening = Opening.ofNode(core, launcher);
            }
            return opening;
        }

        @Override
        public Wire start(silf.jojo.config.NodeSpec spec, byte[] birth, Deadline deadline)
                throws silf.jojo.JojoException {
            return opening().start(spec, birth, deadline);
        }
    }
}
