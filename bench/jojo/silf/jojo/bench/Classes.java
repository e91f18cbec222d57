package silf.jojo.bench;

import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.ToolProvider;
import silf.jojo.Code;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.testkit.DelayProxy;
import silf.jojo.testkit.SshDaemon;

/** How long 200 classes that nobody has seen take over a far link. */
final class Classes {
    private static final int CLASSES = 200;
    private static final double FAR_MS = 300;

    private Classes() {}

    static void measure() throws Exception {
        Main.note(CLASSES + " classes, each naming the next (chain) or the next two (tree), used by one call; what they take is a"
                + " start and the call with them, less a start and a call without; the link: " + FAR_MS + " ms round trip, any rate");
        try (SshDaemon sshd = SshDaemon.start(); DelayProxy proxy = new DelayProxy(sshd.address(), FAR_MS, 0)) {
            List<String> ssh = sshd.command(proxy.port());
            for (int i = 0; i < Main.rounds(10); i++) {
                long without_ns = once(ssh, "none", i, 0);
                for (String shape : List.of("chain", "tree")) {
                    Main.seconds(CLASSES + " classes, " + shape, Math.max(0, once(ssh, shape, i, CLASSES) - without_ns));
                }
            }
        }
    }

    /** From nothing to the answer of a call that uses them. */
    private static long once(List<String> ssh, String shape, int round, int count) throws Exception {
        Path folder = Files.createTempDirectory("jojo-bench");
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        String of = shape + round;
        compile(folder, of, shape, count);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()}, before)) {
            Thread.currentThread().setContextClassLoader(loader);
            long[] took_ns = new long[1];
            long begun = System.nanoTime();
            NodeSpec node = NodeSpec.of("far", "far", of + ".Load").withInvocation(Trees.ssh(ssh));
            Trees.run(List.of(node), below -> {
                Object used = below[0].call(new Message(1, null));
                took_ns[0] = System.nanoTime() - begun;
                if (!used.equals(Math.max(1, count))) {
                    throw new IllegalStateException(used + " classes were used, not " + count);
                }
            });
            return took_ns[0];
        } finally {
            Thread.currentThread().setContextClassLoader(before);
            try (var files = Files.walk(folder)) {
                files.sorted(java.util.Comparator.reverseOrder()).forEach(f -> f.toFile().delete());
            }
        }
    }

    private static void compile(Path folder, String of, String shape, int count) throws Exception {
        Path sources = Files.createDirectories(folder.resolve(of));
        List<String> files = new ArrayList<>();
        files.add(write(sources, "Load", "package " + of + "; public class Load extends " + Code.class.getName() + " { @Override public Object handle("
                + Message.class.getName() + " m) { return " + (count == 0 ? "1" : "new C0().use()") + "; } }"));
        for (int i = 0; i < count; i++) {
            StringBuilder use = new StringBuilder("1");
            for (int next : shape.equals("chain") ? new int[] {i + 1} : new int[] {2 * i + 1, 2 * i + 2}) {
                if (next < count) {
                    use.append(" + new C").append(next).append("().use()");
                }
            }
            files.add(write(sources, "C" + i, "package " + of + "; class C" + i + " { int use() { return " + use + "; } }"));
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
