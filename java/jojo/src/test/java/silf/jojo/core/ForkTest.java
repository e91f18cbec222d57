package silf.jojo.core;

import silf.jojo.launch.Launcher;
import silf.jojo.launch.ProcessLauncher;

/** The contract, with a JVM for each node, started here and reached by pipes. */
public final class ForkTest extends Contract {
    @Override
    protected Launcher launcher() {
        return new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line));
    }
}
