package silf.jojo.launch;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.concurrent.TimeUnit;
import silf.jojo.core.Wire;

/** The standard streams of a command that leads to a node. Closing it ends the command; the node sees its input end. */
final class ProcessWire implements Wire {
    /** For the kernel to end a process and for us to see it. */
    private static final long REAP_MOST_MS = 1000;

    private final String name;
    private final Process process;
    private final Tail said;

    ProcessWire(String name, Process process, Tail said) {
        this.name = name;
        this.process = process;
        this.said = said;
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
        return name;
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
    public void close() {
        end(process);
    }

    /** Asks it to end, and does not ask again a second later. What it started (ssh's ProxyJump) loses its pipes. */
    static void end(Process process) {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            // It has gone already.
        }
        process.destroy();
        process.onExit().orTimeout(REAP_MOST_MS, TimeUnit.MILLISECONDS).exceptionally(late -> {
            process.destroyForcibly();
            return process;
        });
    }
}
