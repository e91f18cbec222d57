package silf.jojo.bench;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import silf.jojo.Code;
import silf.jojo.Jojo;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.testkit.SshDaemon;

/** Trees to measure on, and how the measuring gets to their root. */
final class Trees {
    /** What is measured, with the client's children. */
    interface Work {
        void at(Node[] below) throws Exception;
    }

    private static volatile Work work;
    private static volatile Client client;
    private static volatile Exception failed;

    private Trees() {}

    /** The client: runs the work as its own. */
    public static final class Client extends Code {
        @Override
        public void start() {
            client = this;
            try {
                work.at(descendants);
            } catch (Exception e) {
                failed = e;
            }
        }

        Node below(String name) throws silf.jojo.JojoException {
            return find(name);
        }
    }

    /** A node anywhere below the client that runs now. */
    static Node find(String name) throws silf.jojo.JojoException {
        return client.below(name);
    }

    /** Answers with what it is sent. */
    public static final class Echo extends Code {
        @Override
        public Object handle(Message message) {
            return message.contents;
        }
    }

    /** Passes what it is sent on to its own child. */
    public static final class Relay extends Code {
        @Override
        public Object handle(Message message) throws silf.jojo.JojoException {
            return descendants[0].call(message);
        }
    }

    /** Brings a tree up, runs the work at its root, and ends it. */
    static void run(List<NodeSpec> below, Work at) throws Exception {
        run(below, new Properties(), at);
    }

    static void run(List<NodeSpec> below, Properties properties, Work at) throws Exception {
        work = at;
        run(Client.class, below, properties);
    }

    /** The same with another client. */
    static void run(Class<? extends Code> client, List<NodeSpec> below, Properties properties) throws Exception {
        failed = null;
        NodeSpec root = NodeSpec.of("client", "client", client.getName(), below.toArray(NodeSpec[]::new));
        int status = Jojo.run(root, properties);
        if (failed != null) {
            throw failed;
        }
        if (status != 0) {
            throw new IllegalStateException("the tree ended with status " + status);
        }
    }

    static NodeSpec node(String name, Class<? extends Code> code, Invocation how, NodeSpec... below) {
        return NodeSpec.of(name, how.protocol().equals(NodeSpec.LOCAL) ? NodeSpec.LOCAL : name, code.getName(), below).withInvocation(how);
    }

    static Invocation local(String... options) {
        return new Invocation(NodeSpec.LOCAL, "java", List.of(options), List.of(), 120_000, Map.of());
    }

    static Invocation ssh(List<String> command) {
        return SshDaemon.invocation(command);
    }

    static long time_ns(Callable<?> what) throws Exception {
        long begun = System.nanoTime();
        what.call();
        return System.nanoTime() - begun;
    }

    /** A command that must end with 0. */
    static void must(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String said = new String(process.getInputStream().readAllBytes());
        if (process.waitFor() != 0) {
            throw new IllegalStateException(String.join(" ", command) + ": " + said);
        }
    }

    static List<String> with(List<String> command, String... more) {
        List<String> all = new java.util.ArrayList<>(command);
        all.addAll(List.of(more));
        return all;
    }
}
