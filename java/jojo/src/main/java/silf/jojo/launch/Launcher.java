package silf.jojo.launch;

import silf.jojo.config.NodeSpec;
import silf.jojo.core.Deadline;
import silf.jojo.core.Wire;

/**
 * Starts the JVM of a node and connects to it. Implementations are called from several threads at once.
 *
 * <p>Duties: (1) what it returns is positioned behind the marker of spec/jojo J2, so that the next byte is of a frame;
 * (2) it does not wait for more than the marker; (3) the bootstrap was written before anything else, and nothing of it
 * stays on the host; (4) closing the wire ends the JVM; (5) after a failure or an interrupt nothing is left running.
 */
@FunctionalInterface
public interface Launcher {
    /**
     * @param bootstrap first stage, as this launcher's protocol wants it on stdin (spec/jojo J3)
     * @throws LaunchException says at which step, whose fault, and what the remote side said
     */
    Wire launch(NodeSpec node, byte[] bootstrap, Deadline deadline) throws LaunchException;
}
