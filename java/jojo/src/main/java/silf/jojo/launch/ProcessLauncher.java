package silf.jojo.launch;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiConsumer;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.Deadline;
import silf.jojo.core.Wire;
import silf.jojo.launch.LaunchException.Why;

/**
 * Starts nodes by one command each: the local shell, ssh, rsh, {@code kumiko exec}, or any template (spec/jojo,
 * bootstrap). Not here: what is said over the wire.
 */
public final class ProcessLauncher implements Launcher {
    /** Enough for ssh's banner and a JVM's complaint. */
    private static final int WORDS_MOST_BYTES = 16 << 10;

    /** Stray output is kept to be quoted (spec/jojo J2). */
    private static final int STRAY_MOST_BYTES = 64 << 10;

    /** A server that is too busy (MaxStartups) turns away at random: this often again, after a pause that doubles. */
    private static final int TRIES_MOST = 5;

    private static final long PAUSE_MS = 100;

    /** For the last words to arrive once a command has ended. */
    private static final long LAST_WORDS_MS = 500;

    private final BiConsumer<NodeSpec, String> words;
    private final Set<Process> running = new HashSet<>();
    private boolean over;

    /** @param words takes each line that a running node, or the command to it, writes to stderr; from several threads */
    public ProcessLauncher(BiConsumer<NodeSpec, String> words) {
        this.words = words;
    }

    @Override
    public Wire launch(NodeSpec node, byte[] opening, Deadline deadline) throws LaunchException {
        for (int tries = 1; ; tries++) {
            try {
                return once(node, opening, deadline);
            } catch (LaunchException e) {
                if (e.why() != Why.TURNED_AWAY || tries == TRIES_MOST) {
                    throw e;
                }
                long pause_ms = (PAUSE_MS << tries) + new SecureRandom().nextInt((int) PAUSE_MS);
                if (pause_ms > deadline.left_ms()) {
                    throw e;
                }
                try {
                    Thread.sleep(pause_ms);
                } catch (InterruptedException i) {
                    Thread.currentThread().interrupt();
                    throw e;
                }
            }
        }
    }

    /** Ends all that it has started, starts under way among it, and starts nothing more. For a node without a parent. */
    public void end() {
        Set<Process> all;
        synchronized (running) {
            over = true;
            all = Set.copyOf(running);
        }
        all.forEach(process -> ProcessWire.end(process, 0));
    }

    private Process start(List<String> command) throws IOException {
        synchronized (running) {
            if (over) {
                throw new IOException("this node is ending");
            }
            Process process = new ProcessBuilder(command).start();
            running.add(process);
            process.onExit().thenAccept(ended -> {
                synchronized (running) {
                    running.remove(ended);
                }
            });
            return process;
        }
    }

    private Wire once(NodeSpec node, byte[] opening, Deadline deadline) throws LaunchException {
        byte[] random = new byte[8];
        new SecureRandom().nextBytes(random);
        String nonce = HexFormat.of().formatHex(random);
        byte[] jar = FirstStage.jar();
        String script = Script.of(nonce, jar.length, java(node), node.invocation().javaOptions(), node.invocation().reconnects());
        return open(node, nonce, script, List.of(jar, opening), deadline);
    }

    /** Another way to a JVM that was started by {@code nonce}. */
    private Wire again(NodeSpec node, String nonce, long number, Deadline deadline) throws IOException {
        try {
            return open(node, nonce, Script.again(nonce, number), List.of(), deadline);
        } catch (LaunchException e) {
            throw e.why() == Why.ENDED ? new Wire.Gone(e.getMessage()) : new IOException(e.getMessage(), e);
        }
    }

    /** @param first what is written at once */
    private Wire open(NodeSpec node, String nonce, String script, List<byte[]> first, Deadline deadline) throws LaunchException {
        List<String> command = Template.of(node, script);
        Process process;
        try {
            process = start(command);
        } catch (IOException e) {
            throw new LaunchException(Why.NO_COMMAND, node.name() + ": `" + command.get(0) + "` cannot be run here: " + e.getMessage()
                    + "; install it, or name another (rjavaRsh)");
        }
        Tail said = new Tail(WORDS_MOST_BYTES);
        Tail stray = new Tail(STRAY_MOST_BYTES);
        CompletableFuture<Boolean> up = new CompletableFuture<>();
        CompletableFuture<Void> written = new CompletableFuture<>();
        CompletableFuture<Void> silent = new CompletableFuture<>();
        thread("words of " + node.name(), () -> listen(process, node, said, up, silent));
        thread("first stage to " + node.name(), () -> write(process, first, written));
        thread("marker of " + node.name(), () -> {
            try {
                up.complete(Marker.find(process.getInputStream(), stray));
            } catch (IOException e) {
                up.complete(false);
            }
        });
        boolean well = false;
        boolean late = false;
        try {
            well = up.get(deadline.left_ms(), TimeUnit.MILLISECONDS);
            if (well) {
                written.get(deadline.left_ms(), TimeUnit.MILLISECONDS);
                tell(node, stray.text());
                return new ProcessWire(node, process, said,
                        (number, until) -> again(node, nonce, number, until));
            }
        } catch (TimeoutException e) {
            late = true;
        } catch (ExecutionException e) {
            well = false; // it ended while it was written to
        } catch (InterruptedException e) {
            ProcessWire.end(process, 0);
            Thread.currentThread().interrupt();
            throw new LaunchException(Why.SILENT, node.name() + ": its start was interrupted");
        }
        throw failure(node, command, nonce, process, late, said, stray, silent);
    }

    private LaunchException failure(NodeSpec node, List<String> command, String nonce, Process process, boolean late,
            Tail said, Tail stray, CompletableFuture<Void> silent) {
        int status = -1;
        try {
            if (!late && process.waitFor(LAST_WORDS_MS, TimeUnit.MILLISECONDS)) {
                status = process.exitValue();
                silent.get(LAST_WORDS_MS, TimeUnit.MILLISECONDS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            // something that it started holds its stderr: what has come will do
        }
        ProcessWire.end(process, 0);
        Diagnosis diagnosis = Diagnosis.of(nonce, stray.text(), said.text(), status);
        StringBuilder message = new StringBuilder();
        message.append(node.name()).append(node.host().equals(node.name()) ? "" : " on " + node.host()).append(": ").append(diagnosis.what())
                .append("; ").append(diagnosis.advice())
                .append("\n  tried: ").append(command.get(0)).append(command.contains(node.host()) ? " ... " + node.host() : "");
        quote(message, "it said", said.text());
        quote(message, "before that", stray.text().replaceAll(Script.MARK + nonce + " [^\n]*\n?", ""));
        return new LaunchException(diagnosis.why(), message.toString());
    }

    private static void quote(StringBuilder message, String what, String text) {
        if (!text.isBlank()) {
            message.append("\n  ").append(what).append(": ").append(text.strip().replace("\n", "\n    "));
        }
    }

    private static String java(NodeSpec node) {
        String path = node.invocation().javaPath();
        boolean same = node.invocation().protocol().equals(NodeSpec.LOCAL) && path.equals(NodeSpec.Invocation.USUAL.javaPath());
        // On our own host, our own JVM, whether or not it is in PATH.
        return same ? Path.of(System.getProperty("java.home"), "bin", "java").toString() : path;
    }

    private static void write(Process process, List<byte[]> first, CompletableFuture<Void> written) {
        try {
            OutputStream out = process.getOutputStream();
            for (byte[] bytes : first) {
                out.write(bytes);
            }
            out.flush();
            written.complete(null);
        } catch (IOException e) {
            written.completeExceptionally(e);
        }
    }

    /** Reads stderr to its end: a full pipe would stop the node. */
    private void listen(Process process, NodeSpec node, Tail said, CompletableFuture<Boolean> up, CompletableFuture<Void> silent) {
        byte[] buffer = new byte[4096];
        Lines lines = new Lines(node);
        up.thenAccept(lines::isUp);
        try (InputStream err = process.getErrorStream()) {
            int n;
            while ((n = err.read(buffer)) >= 0) {
                said.add(buffer, 0, n);
                lines.add(buffer, n);
            }
        } catch (IOException e) {
            // The command has been ended.
        }
        silent.complete(null);
        lines.end();
    }

    /** What a node says, by lines: kept until it is up, which may be known later than it speaks. */
    private final class Lines {
        private final NodeSpec node;
        private Tail line = new Tail(WORDS_MOST_BYTES);
        private boolean whole;
        private boolean up;

        Lines(NodeSpec node) {
            this.node = node;
        }

        synchronized void add(byte[] bytes, int count) {
            line.add(bytes, 0, count);
            whole = bytes[count - 1] == '\n';
            pass();
        }

        synchronized void isUp(boolean well) {
            up = well;
            pass();
        }

        synchronized void end() {
            whole = true;
            pass();
        }

        private void pass() {
            if (up && whole) {
                tell(node, line.text());
                line = new Tail(WORDS_MOST_BYTES);
            }
        }
    }

    private void tell(NodeSpec node, String text) {
        if (!text.isBlank()) {
            text.lines().forEach(one -> words.accept(node, one));
        }
    }

    private static void thread(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }
}
