package silf.jojo.core;

import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;
import silf.jojo.launch.ProcessLauncher;
import silf.jojo.testkit.Run;
import silf.jojo.testkit.SshDaemon;

/** The contract, with a JVM for each node, started by a real ssh and sshd. */
public final class SshTest extends Contract {
    private static SshDaemon daemon;

    private static synchronized SshDaemon daemon() throws Exception {
        if (SshDaemon.missing() != null) {
            throw new Run.Missing(SshDaemon.missing());
        }
        if (daemon == null) {
            daemon = SshDaemon.start();
        }
        return daemon;
    }

    @Override
    protected Launcher launcher() {
        return new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line));
    }

    @Override
    protected NodeSpec.Invocation invocation() throws Exception {
        return daemon().invocation();
    }
}
