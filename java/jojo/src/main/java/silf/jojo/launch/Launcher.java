package silf.jojo.launch;

import silf.jojo.config.NodeSpec;
import silf.jojo.core.Deadline;
import silf.jojo.core.Wire;

/**
 * Starts the JVM of a node and connects to it. Implementations are called from several threads at once.
 *
 * <p>Duties: (1) what it returns is positioned behind the marker of spec/jojo J2, so that the next byte is of a frame;
 * (2) it does not wait for more than the marker; (3) the first stage was written before anything else, then the opening,
 * without waiting for an answer, and nothing of either stays on the host; (4) closing the wire ends the JVM; (5) after a
 * failure or an interrupt nothing is left running.
 */
@FunctionalInterface
public interface Launcher {
    /**
     * @param opening the frames of J3 (BLOBS with the core, START), which follow the first stage that the launcher has
     * @throws LaunchException says at which step, whose fault, and what the remote side said
     */
    Wire launch(NodeSpec node, byte[] opening, Deadline deadline) throws LaunchException;
}
