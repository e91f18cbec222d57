package silf.jojo.core;

import java.io.IOException;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;

/** A program at the client: the root of a tree, from start to end. One use. */
public final class Program {
    private final LocalNode node;
    private final Output.Printer printer;
    private final FileService files;
    private final Watch watch;
    private Birth.Report failed;

    /**
     * @param root what the client runs, and all below it
     * @param launcher how children are started
     * @param loader the user's class path
     * @param out where labelled lines of nodes go, and {@code err}
     */
    public Program(
            NodeSpec root, Properties properties, Launcher launcher, ClassLoader loader, PrintStream out, PrintStream err)
            throws IOException {
        String unfit = unfit(properties);
        if (unfit != null) {
            throw new IllegalArgumentException(unfit);
        }
        List<Blob> core = ClassPath.core();
        Family.Start start = Opening.ofClient(core, launcher);
        Map<String, String> strings = new HashMap<>();
        properties.stringPropertyNames().forEach(name -> strings.put(name, properties.getProperty(name)));
        Birth birth = new Birth(Path.ROOT.toString(), 0, new java.security.SecureRandom().nextLong(), root, null, 0, List.of(), strings);
        ClassStore store = new ClassStore(new ClassPath(loader, core));
        this.node = new LocalNode(
                birth, null, new UserClasses(loader), store, start, true, new LocalNode.Outside() {
                    @Override
                    public void note(String text) {
                        err.println("jojo: " + text);
                    }

                    @Override
                    public void report(Birth.Report report) {
                        first(report);
                    }

                    @Override
                    public void heard(Birth.Lost lost) {
                        watch.lost(lost);
                    }

                    @Override
                    public void ending() {
                        watch.ending();
                    }
                });
        this.watch = new Watch(node);
        this.printer = new Output.Printer(node, out, err);
        node.post().taker(Post.OUTPUT, printer::take);
        this.files = new FileService(node);
        node.post().taker(Post.FILES, files::take);
        node.post().onLoss(lost -> {
            files.lose(lost);
            printer.lose(lost);
        });
    }

    /** Null, or which of the properties that Jojo itself reads cannot be used, and why. */
    public static String unfit(Properties properties) {
        return Resumption.unfit(properties.getProperty(Resumption.PROPERTY));
    }

    private synchronized void first(Birth.Report report) {
        if (failed == null) {
            failed = report;
        }
    }

    /** Ends the program that the current thread works for, with a status to exit with. */
    public static void end(int status) throws JojoException {
        LocalNode node = LocalNode.current();
        if (node == null) {
            throw new JojoException("this JVM runs no Jojo program");
        }
        node.report(new Birth.Report(node.birth.spec().name(), null, "", status));
    }

    LocalNode node() {
        return node;
    }

    /**
     * Runs it to its end.
     *
     * @return the status to exit with: 0, or what {@code Jojo.exit} was given
     * @throws JojoException that names the node that failed
     */
    public int run() throws JojoException, InterruptedException {
        watch.open();
        node.run();
        printer.end();
        files.closeAll();
        Birth.Report end;
        synchronized (this) {
            end = failed;
        }
        watch.end(end == null ? 0 : end.status(), end == null ? null : end.text());
        if (end == null) {
            return 0;
        }
        if (end.text() == null) {
            return end.status();
        }
        throw new JojoException(end.text() + (end.trace().isEmpty() ? "" : "\n" + end.trace()));
    }
}
