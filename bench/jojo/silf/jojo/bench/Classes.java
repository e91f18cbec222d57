package silf.jojo.bench;

import java.io.Serializable;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import javax.tools.ToolProvider;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.testkit.DelayProxy;
import silf.jojo.testkit.SshDaemon;

/** How long 200 classes that nobody has seen take over a far link. */
final class Classes {
    private static final int CLASSES = 200;
    private static final double FAR_MS = 300;

    private Classes() {}

    /** Does what it is sent. */
    public static final class Does extends Code {
        @Override
        public Object handle(Message message) throws JojoException {
            try {
                return ((Callable<?>) message.contents).call();
            } catch (Exception e) {
                throw new JojoException("what was sent failed", e);
            }
        }
    }

    static void measure() throws Exception {
        Main.note(CLASSES + " classes, each naming the next (chain) or the next two (tree); a call with an object of the first, which uses them"
                + " all, at a node that has none of them and knows of none: from the call to its answer, the call's own round trip in it;"
                + " the link: " + FAR_MS + " ms round trip, any rate");
        List<String> shapes = List.of("chain", "tree");
        Path folder = Files.createTempDirectory("jojo-bench");
        int rounds = Main.rounds(10);
        for (int i = -1; i < rounds; i++) {
            for (String shape : shapes) {
                compile(folder, name(shape, i), shape);
            }
        }
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        try (SshDaemon sshd = SshDaemon.start();
                DelayProxy proxy = new DelayProxy(sshd.address(), FAR_MS, 0);
                URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()}, before)) {
            Thread.currentThread().setContextClassLoader(loader);
            NodeSpec node = NodeSpec.of("far", "far", Does.class.getName()).withInvocation(Trees.ssh(sshd.command(proxy.port())));
            Trees.run(List.of(node), below -> {
                for (int i = -1; i < rounds; i++) { // the first with what Jojo itself loads
                    for (String shape : shapes) {
                        Object first = loader.loadClass(name(shape, i) + ".C0").getDeclaredConstructor().newInstance();
                        long begun = System.nanoTime();
                        Object used = below[0].call(new Message(1, (Serializable) first));
                        long took_ns = System.nanoTime() - begun;
                        if (!used.equals(CLASSES)) {
                            throw new IllegalStateException(used + " classes were used, not " + CLASSES);
                        }
                        if (i >= 0) {
                            Main.seconds(CLASSES + " classes, " + shape, took_ns);
                        }
                    }
                }
            });
        } finally {
            Thread.currentThread().setContextClassLoader(before);
            try (var files = Files.walk(folder)) {
                files.sorted(java.util.Comparator.reverseOrder()).forEach(f -> f.toFile().delete());
            }
        }
    }

    private static String name(String shape, int round) {
        return shape + (round < 0 ? "first" : Integer.toString(round));
    }

    private static void compile(Path folder, String of, String shape) throws Exception {
        Path sources = Files.createDirectories(folder.resolve(of));
        List<String> files = new ArrayList<>();
        for (int i = 0; i < CLASSES; i++) {
            StringBuilder use = new StringBuilder("1");
            for (int next : shape.equals("chain") ? new int[] {i + 1} : new int[] {2 * i + 1, 2 * i + 2}) {
                if (next < CLASSES) {
                    use.append(" + new C").append(next).append("().use()");
                }
            }
            String first = i > 0 ? "class C" + i + " {" : "public class C0 implements java.util.concurrent.Callable<Integer>, java.io.Serializable {"
                    + " public Integer call() { return use(); }";
            files.add(write(sources, "C" + i, "package " + of + "; " + first + " int use() { return " + use + "; } }"));
        }
        List<String> args = new ArrayList<>(List.of("-d", folder.toString(), "-cp", System.getProperty("java.class.path"), "--release", "17", "-proc:none"));
        args.addAll(files);
        if (ToolProvider.getSystemJavaCompiler().run(null, null, null, args.toArray(String[]::new)) != 0) {
            throw new IllegalStateException("javac");
        }
    }

    private static String write(Path folder, String name, String text) throws Exception {
        return Files.writeString(folder.resolve(name + ".java"), text).toString();
    }
}
