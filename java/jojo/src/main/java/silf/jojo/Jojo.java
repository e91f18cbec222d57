package silf.jojo;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import silf.jojo.config.ConfigException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.Tree;
import silf.jojo.core.ErrorCode;
import silf.jojo.core.Program;
import silf.jojo.launch.Checkup;
import silf.jojo.launch.ProcessLauncher;

/** The command: {@code java silf.jojo.Jojo CONF [PROPERTIES]}, and {@code java silf.jojo.Jojo check CONF}. */
public final class Jojo {
    private static final int FAILED = 1;
    private static final int MISUSED = 2;

    private Jojo() {}

    public static void main(String[] args) throws InterruptedException {
        if (args.length < 1 || args.length > 2 || args[0].startsWith("-")) {
            System.err.println("usage: java silf.jojo.Jojo CONF [PROPERTIES], or check CONF");
            System.exit(MISUSED);
        }
        boolean check = args.length == 2 && args[0].equals("check");
        NodeSpec root;
        Properties properties = new Properties();
        try {
            root = Tree.read(Path.of(args[check ? 1 : 0]));
            if (args.length == 2 && !check) {
                try (Reader in = Files.newBufferedReader(Path.of(args[1]))) {
                    properties.load(in);
                }
            }
            String unfit = Program.unfit(properties);
            if (unfit != null) {
                System.err.println("jojo: " + ErrorCode.in(args[1] + ": " + unfit, "bad_tree"));
                System.exit(MISUSED);
            }
        } catch (ConfigException e) {
            System.err.println("jojo: " + ErrorCode.in(e.getMessage(), "bad_tree"));
            System.exit(MISUSED);
            return;
        } catch (IOException | IllegalArgumentException e) {
            System.err.println("jojo: " + ErrorCode.in("could not read " + args[1] + ": " + e.getMessage(), "bad_tree"));
            System.exit(MISUSED);
            return;
        }
        System.exit(check ? Checkup.run(root) : run(root, properties));
    }

    /**
     * Ends the program, from any of its nodes: handlers get a moment to return, then all nodes end, and so does the client, with
     * this status. Returns at once.
     */
    public static void exit(int status) throws JojoException {
        Program.end(status);
    }

    /**
     * Runs a program to its end in this JVM, as its client.
     *
     * @return the status to exit with
     */
    public static int run(NodeSpec root, Properties properties) throws InterruptedException {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        try {
            return new Program(
                            root, properties,
                            new ProcessLauncher((node, line) -> System.err.println("[" + node.name() + "] " + line)),
                            loader == null ? Jojo.class.getClassLoader() : loader, System.out, System.err)
                    .run();
        } catch (JojoException | IOException e) {
            System.err.println("jojo: " + e.getMessage());
            return FAILED;
        }
    }
}
