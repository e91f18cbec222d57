package silf.jojo.config;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/**
 * One node of the tree as it was asked for, with all that is below it: immutable, no defaults left open, sent down the
 * tree as it is (spec/jojo J19). Not in it: how it is written in a file (see the parsers of this package).
 *
 * @param name unique in the whole tree; the host's name unless one was given ("pad00", "pad00#2")
 * @param host where it runs, as the launcher takes it; "local" is a JVM on the parent's host
 * @param code class name of its {@code Code}
 * @param invocation how its JVM is started
 * @param faults what its parent does when it is lost, or does not come up
 * @param spare started only to take the place of a lost sibling
 * @param files directories of the client that this node and what is below it may reach by name
 * @param children below it, in rank order; spares are among them
 */
public record NodeSpec(
        String name,
        String host,
        String code,
        Invocation invocation,
        FaultPolicy faults,
        boolean spare,
        List<FileRoot> files,
        List<NodeSpec> children)
        implements Serializable {

    /** Its JVM is a child process on the parent's own host. */
    public static final String LOCAL = "local";

    public NodeSpec {
        files = List.copyOf(files);
        children = List.copyOf(children);
    }

    /** A node with the usual for all that is not named here. */
    public static NodeSpec of(String name, String host, String code, NodeSpec... children) {
        return new NodeSpec(
                name, host, code, Invocation.USUAL, FaultPolicy.FAIL, false, List.of(), List.of(children));
    }

    public NodeSpec withFaults(FaultPolicy other) {
        return new NodeSpec(name, host, code, invocation, other, spare, files, children);
    }

    public NodeSpec withInvocation(Invocation other) {
        return new NodeSpec(name, host, code, other, faults, spare, files, children);
    }

    public NodeSpec withFiles(List<FileRoot> other) {
        return new NodeSpec(name, host, code, invocation, faults, spare, other, children);
    }

    public NodeSpec asSpare() {
        return new NodeSpec(name, host, code, invocation, faults, true, files, children);
    }

    /** Null, or why this node, or one below it, cannot be started: what a configuration's parser would have refused. */
    public String unfit() {
        return Fit.of(this);
    }

    /** Levels from this node down to the lowest below it; 0 for a leaf. */
    public int depth() {
        int deepest = 0;
        for (NodeSpec child : children) {
            deepest = Math.max(deepest, 1 + child.depth());
        }
        return deepest;
    }

    /** This node and all below it. */
    public int size() {
        int sum = 1;
        for (NodeSpec child : children) {
            sum += child.size();
        }
        return sum;
    }

    /**
     * How a node's JVM is started: the paper's {@code invocation} element (figure 6), and what it lacked.
     *
     * @param protocol "local", "ssh", "rsh" or "gram"; which launcher is used
     * @param javaPath the java command over there
     * @param javaOptions words handed to it, before the class path
     * @param command template of the remote command; empty for the protocol's own
     * @param launchMost_ms longest time until the node must have said its first word
     * @param more attributes that are accepted and carry no meaning of their own here (rjavaRcp, rjavaJarPath, ...)
     */
    public record Invocation(
            String protocol,
            String javaPath,
            List<String> javaOptions,
            List<String> command,
            long launchMost_ms,
            Map<String, String> more)
            implements Serializable {

        /** As when nothing is said. */
        public static final Invocation USUAL =
                new Invocation(LOCAL, "java", List.of(), List.of(), 60_000, Map.of());

        /** Whether the command only leads to the JVM, so that another may lead to the same one (spec/jojo J13). */
        public boolean reconnects() {
            return protocol.equals("ssh") || protocol.equals("rsh");
        }

        public Invocation {
            javaOptions = List.copyOf(javaOptions);
            command = List.copyOf(command);
            more = Map.copyOf(more);
        }
    }

    /**
     * What a parent does about a lost child.
     *
     * @param kind which of the four
     * @param restartsMost RESTART: how often within {@code within_ms} before it is given up as by FAIL
     * @param within_ms RESTART: the time over which restarts are counted
     * @param backoff_ms RESTART: pause before the first new start; doubles with each, to 30 s at most
     */
    public record FaultPolicy(Kind kind, int restartsMost, long within_ms, long backoff_ms) implements Serializable {
        public enum Kind {
            /** The program ends, and says which node it was. */
            FAIL,
            /** Started again on the same host, with the same rank. */
            RESTART,
            /** A spare among its siblings takes its rank; without a spare left, as FAIL. */
            SPARE,
            /** The others go on without it. */
            GO_ON
        }

        /** The longest pause. */
        private static final long BACKOFF_MOST_ms = 30_000;

        /** RESTART: the pause before another start, after so many within {@link #within_ms}. */
        public long pause_ms(int before) {
            return Math.min(BACKOFF_MOST_ms, backoff_ms << Math.min(20, before));
        }

        public static final FaultPolicy FAIL = new FaultPolicy(Kind.FAIL, 0, 0, 0);
        public static final FaultPolicy GO_ON = new FaultPolicy(Kind.GO_ON, 0, 0, 0);
        public static final FaultPolicy SPARE = new FaultPolicy(Kind.SPARE, 0, 0, 0);
        /** Five times a minute, first at once. */
        public static final FaultPolicy RESTART = new FaultPolicy(Kind.RESTART, 5, 60_000, 100);
    }

    /**
     * A directory of the client's that nodes may reach through RemoteFileReader and RemoteFileWriter.
     *
     * @param name what nodes call it: the first part of a remote file's name
     * @param path where it is on the client
     * @param write whether nodes may create and change files in it
     */
    public record FileRoot(String name, String path, boolean write) implements Serializable {}
}
