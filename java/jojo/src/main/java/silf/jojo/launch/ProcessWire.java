package silf.jojo.launch;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.concurrent.TimeUnit;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.Deadline;
import silf.jojo.core.Wire;

/** The standard streams of a command that leads to a node. Closing it ends the command; the node sees its input end. */
final class ProcessWire implements Wire {
    /** For the kernel to end a process and for us to see it. */
    private static final long REAP_MOST_MS = 1000;

    /** The same where its output has ended already: on a busy machine it takes longer, and a cut must not be taken for its end. */
    private static final long END_MOST_MS = 5000;

    /** How long a command may take to tell its far end that we have closed: only then it is not taken for a cut there. */
    private static final long GRACE_MS = 1000;
    /** From here on the status is not the far shell's: 128 + a signal if the command was killed, or what ssh ends with by itself. */
    private static final int CUT_LEAST = 128;

    private static final long PAUSE_MS = 100;

    /** Has the same node's command run again. */
    interface Again {
        Wire again(long process, Deadline deadline) throws IOException;
    }

    private final NodeSpec node;
    private final Process process;
    private final Tail said;
    private final Again again;

    ProcessWire(NodeSpec node, Process process, Tail said, Again again) {
        this.node = node;
        this.process = process;
        this.said = said;
        this.again = again;
    }

    @Override
    public InputStream in() {
        return process.getInputStream();
    }

    @Override
    public OutputStream out() {
        return process.getOutputStream();
    }

    @Override
    public String name() {
        return node.name() + " (" + node.invocation().protocol() + ")";
    }

    /** It is a pipe. */
    @Override
    public boolean parksWriter() {
        return false;
    }

    @Override
    public String diagnosis() {
        String words = said.text().strip();
        String quoted = words.isEmpty() ? "" : "; its last words:\n" + words;
        try {
            if (process.waitFor(REAP_MOST_MS, TimeUnit.MILLISECONDS)) {
                return "the command to it ended with status " + process.exitValue() + quoted;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return "the command to it still runs" + quoted;
    }

    @Override
    public boolean wasCut() {
        try {
            return process.waitFor(END_MOST_MS, TimeUnit.MILLISECONDS) && process.exitValue() >= CUT_LEAST;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    @Override
    public Wire again(long number, Deadline deadline) throws IOException {
        try {
            return again.again(number, deadline);
        } catch (Gone e) {
            throw e;
        } catch (IOException e) {
            try {
                Thread.sleep(Math.min(PAUSE_MS, deadline.left_ms()));
            } catch (InterruptedException i) {
                Thread.currentThread().interrupt();
            }
            throw e;
        }
    }

    @Override
    public void close() {
        end(process, node.invocation().reconnects() ? GRACE_MS : 0);
    }

    /** Asks it to end, after a while, and does not ask again a second later. What it started (ssh's ProxyJump) loses its pipes. */
    static void end(Process process, long grace_ms) {
        // Not here: a writer that waits holds the stream.
        Thread closer = new Thread(() -> {
            try {
                process.getOutputStream().close();
            } catch (IOException e) {
                // It has gone already.
            }
        }, "jojo end of a command");
        closer.setDaemon(true);
        closer.start();
        if (grace_ms == 0) {
            destroy(process);
        } else {
            process.onExit().orTimeout(grace_ms, TimeUnit.MILLISECONDS).exceptionally(late -> {
                destroy(process);
                return process;
            });
        }
    }

    private static void destroy(Process process) {
        process.destroy();
        process.onExit().orTimeout(REAP_MOST_MS, TimeUnit.MILLISECONDS).exceptionally(late -> {
            process.destroyForcibly();
            return process;
        });
    }
}
