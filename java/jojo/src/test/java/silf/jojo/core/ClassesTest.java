package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import javax.tools.ToolProvider;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;
import silf.jojo.program.Body;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Run;
import silf.jojo.testkit.Scratch;

/** How a node gets the user's classes: compiled here, on no class path but the client's. */
public final class ClassesTest {
    private static final int CLASSES = 200;

    private final Over over;

    public ClassesTest(Over over) {
        this.over = over;
    }

    /** A folder with a Code that uses 200 classes, which form a binary tree or a chain of references. */
    static Path compiled(boolean chain) throws IOException {
        var compiler = ToolProvider.getSystemJavaCompiler();
        if (compiler == null) {
            throw new Run.Missing("javac");
        }
        Path folder = Scratch.folder();
        List<String> arguments = new ArrayList<>(List.of(
                "--release", "17", "-proc:none", "-cp", System.getProperty("java.class.path"), "-d", folder.toString()));
        Path source = folder.resolve("Many.java");
        StringBuilder text = new StringBuilder("public class Many extends silf.jojo.Code {\n"
                + "  public Object handle(silf.jojo.Message m) { return Part0.sum(); }\n}\n");
        for (int i = 0; i < CLASSES; i++) {
            text.append("class Part").append(i).append(" { static int sum() { return 1");
            for (int next : chain ? new int[] {i + 1} : new int[] {2 * i + 1, 2 * i + 2}) {
                if (next < CLASSES) {
                    text.append(" + Part").append(next).append(".sum()");
                }
            }
            text.append("; } }\n");
        }
        Files.writeString(source, text);
        arguments.add(source.toString());
        Check.equal(0, compiler.run(null, null, null, arguments.toArray(String[]::new)), "javac");
        Files.delete(source);
        return folder;
    }

    void run(ClassLoader loader, Body.Test test, NodeSpec... children) throws Exception {
        run(over.launcher(), loader, test, children);
    }

    private void run(Launcher launcher, ClassLoader loader, Body.Test test, NodeSpec... children) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("body", Body.name(test));
        NodeSpec[] reached = new NodeSpec[children.length];
        for (int i = 0; i < reached.length; i++) {
            reached[i] = children[i].invocation() == NodeSpec.Invocation.USUAL ? over.reached(children[i]) : children[i];
        }
        new Program(
                        NodeSpec.of("client", "client", Body.class.getName(), reached), properties,
                        launcher, loader, System.out, new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8))
                .run();
    }

    /** Counts what is asked for one by one. */
    private static final class Counting extends java.net.URLClassLoader {
        final AtomicInteger found = new AtomicInteger();

        Counting(Path folder) throws IOException {
            super(new java.net.URL[] {folder.toUri().toURL()}, ClassesTest.class.getClassLoader());
        }

        @Override
        public java.net.URL findResource(String name) {
            java.net.URL url = super.findResource(name);
            if (url != null) {
                found.incrementAndGet();
            }
            return url;
        }
    }

    private void many(boolean chain, NodeSpec... tree) throws Exception {
        Path folder = compiled(chain);
        try (Counting loader = new Counting(folder)) {
            run(loader, client -> {
                silf.jojo.Node node = client.child(0);
                Object sum = tree[0].children().isEmpty()
                        ? node.call(new Message(0, null))
                        : node.call(new Message(Peer.RELAY, new Object[] {0, Peer.ECHO}));
                Check.equal(CLASSES, sum, "classes that ran");
            }, tree);
            // Each once (Many, 200 parts), however many levels it passes.
            Check.equal(CLASSES + 1, loader.found.get(), "look-ups at the client");
        }
    }

    public void many_classes_come_along_before_they_are_asked_for() throws Exception {
        many(false, NodeSpec.of("pad00", "pad00", "Many"));
        many(true, NodeSpec.of("pad00", "pad00", "Many"));
    }

    public void a_leaf_below_a_head_gets_them_from_the_head() throws Exception {
        many(true, NodeSpec.of("head", "head", Peer.class.getName(), NodeSpec.of("leaf", "leaf", "Many")));
    }

    public void resources_and_services_come_from_the_client_too() throws Exception {
        Path folder = Scratch.folder();
        Files.createDirectories(folder.resolve("META-INF/services"));
        Files.writeString(folder.resolve("some.txt"), "text of the client");
        byte[] large = new byte[3 << 20];
        new java.util.Random(2).nextBytes(large);
        Files.write(folder.resolve("large.bin"), large);
        Files.writeString(
                folder.resolve("META-INF/services/java.lang.Runnable"), silf.jojo.program.Service.class.getName() + "\n");
        try (Counting loader = new Counting(folder)) {
            run(loader, client -> {
                Check.equal("text of the client", client.child(0).call(new Message(1, "some.txt")), "a resource");
                Check.equal((long) java.util.Arrays.hashCode(large), client.child(0).call(new Message(2, "large.bin")), "a large one");
                Check.equal(null, client.child(0).call(new Message(1, "none.txt")), "one that is not there");
                Check.equal(silf.jojo.program.Service.class.getName(), client.child(0).call(new Message(3, null)), "a service");
            }, NodeSpec.of("pad00", "pad00", silf.jojo.program.Reads.class.getName()));
        }
    }

    /** Major version 100 is that of no Java yet. */
    public void a_class_of_a_newer_java_is_named_with_both_versions() throws Exception {
        Path folder = compiled(true);
        Path file = folder.resolve("Many.class");
        byte[] bytes = Files.readAllBytes(file);
        bytes[6] = 0;
        bytes[7] = 100;
        Files.write(file, bytes);
        try (Counting loader = new Counting(folder)) {
            silf.jojo.JojoException e = Check.thrown(silf.jojo.JojoException.class,
                    () -> {
                        run(loader, client -> client.messages.take(), NodeSpec.of("pad00", "pad00", "Many"));
                        return null;
                    }, "the program");
            String runs = "newer Java than runs here (" + Runtime.version().feature() + ")";
            for (String word : List.of("pad00", "Many", runs, "100.0")) {
                Check.that(e.getMessage().contains(word), word + " is not in: " + e.getMessage());
            }
        }
    }

    /** Each node's wire, and how many WANTs have come by it. */
    private Launcher counted(AtomicInteger wants) {
        Launcher usual = over.launcher();
        return (node, opening, deadline) -> {
            Wire wire = usual.launch(node, opening, deadline);
            MemoryPipe copy = new MemoryPipe();
            Thread counts = new Thread(() -> {
                FrameReader reader = new FrameReader(copy.in);
                try {
                    for (byte[] frame; (frame = reader.next()) != null; ) {
                        if (Frame.type(frame) == Frame.WANT) {
                            wants.incrementAndGet();
                        }
                    }
                } catch (IOException e) {
                    // The wire has ended.
                }
            });
            counts.setDaemon(true);
            counts.start();
            InputStream in = new FilterInputStream(wire.in()) {
                @Override
                public int read(byte[] to, int at, int most) throws IOException {
                    int count = super.read(to, at, most);
                    if (count > 0) {
                        copy.out.write(to, at, count);
                    }
                    return count;
                }
            };
            return Wire.of(wire.name(), in, wire.out(), wire);
        };
    }

    /** What a far link is crossed for: the class itself comes unasked, and with each want half a megabyte of what it refers to. */
    public void two_hundred_classes_are_wanted_a_few_times() throws Exception {
        for (boolean chain : new boolean[] {false, true}) {
            AtomicInteger wants = new AtomicInteger();
            try (Counting loader = new Counting(compiled(chain))) {
                run(counted(wants), loader, client -> Check.equal(CLASSES, client.child(0).call(new Message(0, null)), "classes that ran"),
                        NodeSpec.of("pad00", "pad00", "Many"));
            }
            Check.that(wants.get() <= 5, wants + " wants for " + (chain ? "a chain" : "a tree") + " of " + CLASSES + " classes");
        }
    }

    /** Cannot be read the first time that it is looked for, and a second time: ahead of a want, and for it. */
    private static final class Flaky extends java.net.URLClassLoader {
        private final String name;
        private final AtomicInteger left = new AtomicInteger(2);

        Flaky(Path folder, String name) throws IOException {
            super(new java.net.URL[] {folder.toUri().toURL()}, ClassesTest.class.getClassLoader());
            this.name = name;
        }

        @Override
        public java.net.URL findResource(String resource) {
            if (resource.equals(name) && left.getAndDecrement() > 0) {
                throw new IllegalStateException("the disk is away");
            }
            return super.findResource(resource);
        }
    }

    /** Through a head, and where the JVM itself resolves a reference: what it once took for absent would be absent for good. */
    public void a_transient_failure_of_a_class_that_a_class_refers_to_passes() throws Exception {
        try (Flaky loader = new Flaky(compiled(true), "Part7.class")) {
            run(loader, client -> {
                silf.jojo.Node head = client.child(0);
                Message ask = new Message(Peer.RELAY, new Object[] {0, Peer.ECHO});
                silf.jojo.JojoException e = Check.thrown(silf.jojo.JojoException.class, () -> head.call(ask), "the first time");
                Check.that(e.getMessage().contains("Unavailable") && e.getMessage().contains("the disk is away"), e.getMessage());
                Check.equal(CLASSES, head.call(ask), "classes that ran the second time");
            }, NodeSpec.of("head", "head", Peer.class.getName(), NodeSpec.of("leaf", "leaf", "Many")));
        }
    }

    /** A class that could not be had once is had the next time: the JVM does not remember it as absent. */
    public void a_transient_failure_is_not_remembered_as_absence() throws Exception {
        List<String> asked = new ArrayList<>();
        byte[] bytes = new ClassPath(ClassesTest.class.getClassLoader())
                .read(silf.jojo.program.Service.class.getName().replace('.', '/') + ".class").bytes();
        ClassStore store = new ClassStore((name, to) -> {
            asked.add(name);
            if (asked.size() == 1) {
                to.unavailable(name, "the disk is away");
            } else {
                to.blob(Blob.of(name, bytes));
            }
        });
        UserLoader loader = new UserLoader(store, ClassLoader.getPlatformClassLoader());
        String name = silf.jojo.program.Service.class.getName();
        Unavailable e = Check.thrown(Unavailable.class, () -> loader.loadClass(name), "the first time");
        Check.that(e.getMessage().contains("the disk is away"), e.getMessage());
        Check.equal(name, loader.loadClass(name).getName(), "the second time");
    }
}
