package silf.jojo.core;

import java.util.List;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;
import silf.jojo.launch.ProcessLauncher;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Run;
import silf.jojo.testkit.SshDaemon;

/** How the nodes of a test are reached. A test class whose constructor takes one of these runs on each. */
public enum Over {
    MEMORY,
    SOCKET,
    PIPE,
    SSH;

    /** Those whose nodes are JVMs of their own, which can be killed and are sent their classes. */
    public enum Apart {
        PIPE(Over.PIPE),
        SSH(Over.SSH);

        final Over over;

        Apart(Over over) {
            this.over = over;
        }
    }

    /** Those whose nodes are in this JVM, where a test can look into them. */
    public enum Within {
        MEMORY(Over.MEMORY),
        SOCKET(Over.SOCKET);

        final Over over;

        Within(Over over) {
            this.over = over;
        }
    }

    private static SshDaemon daemon;

    /** One for all tests; it ends with this JVM. */
    private static synchronized SshDaemon daemon() throws Exception {
        if (SshDaemon.missing() != null) {
            throw new Run.Missing(SshDaemon.missing());
        }
        if (daemon == null) {
            daemon = SshDaemon.start();
        }
        return daemon;
    }

    Launcher launcher() {
        return switch (this) {
            case MEMORY -> Transport.memory();
            case SOCKET -> Transport.socket();
            case PIPE, SSH -> new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line));
        };
    }

    NodeSpec.Invocation invocation() throws Exception {
        return this == SSH ? daemon().invocation() : NodeSpec.Invocation.USUAL;
    }

    /** The same with these options of its JVM, if it has one of its own. */
    NodeSpec.Invocation invocation(String... options) throws Exception {
        NodeSpec.Invocation usual = invocation();
        return new NodeSpec.Invocation(
                usual.protocol(), usual.javaPath(), List.of(options), usual.command(), usual.launchMost_ms(), usual.more());
    }

    /** Of a node that runs {@link Peer}. */
    Life life(Node node) throws JojoException {
        return switch (this) {
            case MEMORY, SOCKET -> Transport.LIVES.get(node.name());
            case PIPE, SSH -> new Life.OfProcess((Long) node.call(new Message(Peer.PID, null)));
        };
    }

    /** A node and all below it, reached in this way. */
    NodeSpec reached(NodeSpec spec) throws Exception {
        NodeSpec[] children = new NodeSpec[spec.children().size()];
        for (int i = 0; i < children.length; i++) {
            children[i] = reached(spec.children().get(i));
        }
        return new NodeSpec(spec.name(), spec.host(), spec.code(), invocation(), spec.faults(), spec.spare(), spec.files(),
                List.of(children));
    }
}
