package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;

/** How the nodes of a test are reached. In one JVM, a node is threads and reads its opening as the bootstrap does. */
final class Transport {
    /** Nodes of this JVM by name, for tests that end them. */
    static final Map<String, Life.InThisJvm> LIVES = new ConcurrentHashMap<>();

    /** Nodes of this JVM by name, for tests that look inside. */
    static final Map<String, LocalNode> NODES = new ConcurrentHashMap<>();

    private Transport() {}

    static Launcher memory() {
        return (node, opening, deadline) -> {
            MemoryPipe down = new MemoryPipe();
            MemoryPipe up = new MemoryPipe();
            Gate far = new Gate(Wire.of("parent of " + node.name(), down.in, up.out, () -> {
                down.in.close();
                up.out.close();
            }));
            begin(node, opening, far, memory());
            return Wire.of(node.name() + " (memory)", up.in, down.out, () -> {
                down.out.close();
                up.in.close();
                far.open();
            });
        };
    }

    static Launcher socket() {
        return (node, opening, deadline) -> {
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                Socket near = new Socket(server.getInetAddress(), server.getLocalPort());
                Socket far = server.accept();
                near.setTcpNoDelay(true);
                far.setTcpNoDelay(true);
                Gate gate = new Gate(Wire.of("parent of " + node.name(), far.getInputStream(), far.getOutputStream(), far));
                begin(node, opening, gate, socket());
                return Wire.of(node.name() + " (socket)", near.getInputStream(), near.getOutputStream(), () -> {
                    near.close();
                    gate.open();
                });
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        };
    }

    /** A node of this JVM is as good as dead. */
    static void cut(String name) {
        LIVES.get(name).kill();
    }

    private static void begin(NodeSpec spec, byte[] opening, Gate far, Launcher below) {
        Thread thread = new Thread(() -> {
            try {
                run(spec, opening, far, below);
            } catch (IOException e) {
                // Its wire was cut before it was up; a process in its place would have ended as well.
                System.err.println("jojo: " + spec.name() + " ended early: " + e.getMessage());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }, "node " + spec.name());
        thread.setDaemon(true);
        LIVES.put(spec.name(), new Life.InThisJvm(far, thread));
        thread.start();
    }

    private static void run(NodeSpec spec, byte[] opening, Wire far, Launcher below)
            throws IOException, InterruptedException {
        Map<String, byte[]> blobs = new HashMap<>();
        FrameReader frames = new FrameReader(new java.io.ByteArrayInputStream(opening));
        Blobs.Reader reader = new Blobs.Reader(new Blobs.Taker() {
            @Override
            public void blob(Blob blob) {
                blobs.put(blob.name(), blob.bytes());
            }

            @Override
            public void unavailable(String name, String why) {
                throw new IllegalStateException(why);
            }
        });
        for (byte[] frame; Frame.type(frame = frames.next()) != Frame.START; ) {
            reader.frame(frame);
        }
        Birth birth = Birth.read(blobs.get(Birth.BLOB));
        OutputStream out = far.out();
        InputStream in = far.in();
        out.write(Hello.here(1).frame());
        out.flush();
        LocalNode[] made = new LocalNode[1];
        ClassStore store = new ClassStore(
                (name, asking) -> made[0].sendUp(Frame.of(Frame.WANT, new Bytes(name.length() + 16).i32(0).name(name).toArray())));
        // What is on this JVM's class path is here already; a test can have the client alone know of others.
        UserClasses classes = new UserClasses(new UserLoader(store, Transport.class.getClassLoader()));
        LocalNode node = new LocalNode(
                birth, new LocalNode.Up(far, new FrameReader(in), null, null), classes, store,
                Opening.ofNode(blobs, below), true, text -> System.err.println("jojo: " + spec.name() + ": " + text));
        made[0] = node;
        NODES.put(spec.name(), node);
        node.run();
    }
}
