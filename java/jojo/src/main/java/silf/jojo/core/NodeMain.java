package silf.jojo.core;

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
    private static final long ORPHAN_MOST_ms = 3_000;

    /** What a node takes at its end to keep what it was sent; its parent waits for its last words a little longer. */
    private static final long KEEP_MOST_ms = 1_000;

    private NodeMain() {}

    /** Returns when the node is over. */
    public static void main(
            InputStream in, OutputStream out, PrintStream stdout, Map<String, byte[]> blobs, byte[] start)
            throws IOException, InterruptedException {
        Wire wire = Wire.of("parent", in, out, in::close);
        byte[] birthBytes = blobs.get(Birth.BLOB);
        if (birthBytes == null) {
            throw new Violation("START without " + Birth.BLOB);
        }
        Birth birth = Birth.read(birthBytes);
        Wire pipe = new PipeWire(wire);
        BlobCache cache = BlobCache.isAsked(birth.properties()) ? BlobCache.ofThisAccount() : null;
        out.write(Hello.here(birth.seed(), cache == null ? new long[0] : cache.held()).frame());
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
                birth, pipe, new FrameReader(in), classes, store, new LazyOpening(core, launcher), true,
                new LocalNode.Outside() {
                    @Override
                    public void note(String text) {
                        System.err.println("jojo: " + text);
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

    private record PipeWire(Wire wire) implements Wire {
        @Override
        public InputStream in() {
            return wire.in();
        }

        @Override
        public OutputStream out() {
            return wire.out();
        }

        @Override
        public String name() {
            return wire.name();
        }

        @Override
        public boolean parksWriter() {
            return false;
        }

        @Override
        public void close() throws IOException {
            wire.close();
        }
    }
}
