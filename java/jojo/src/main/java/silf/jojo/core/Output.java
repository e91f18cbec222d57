package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Predicate;
import silf.jojo.JojoException;

/**
 * What nodes print (lane 2): gathered while earlier output is on its way, sent to the client, and printed there by lines
 * with the node's name before them. The tag of a message says which stream, its contents are bytes of UTF-8.
 */
final class Output {
    static final int OUT = 1;
    static final int ERR = 2;

    /** What a node may print before it waits. */
    private static final int GATHERED_MOST = 64 << 10;
    /** A line of more is broken. */
    private static final int LINE_MOST = 64 << 10;
    /** How long the end of a node waits for its last words. */
    private static final long FLUSH_MOST_ms = 2_000;

    private final LocalNode node;
    private final Stream out = new Stream(OUT);
    private final Stream err = new Stream(ERR);

    private Output(LocalNode node) {
        this.node = node;
    }

    /** For a node: streams that lead to the client. */
    static Output over(LocalNode node) {
        Output output = new Output(node);
        Thread pump = new Thread(output::pump, "jojo output");
        pump.setDaemon(true);
        pump.start();
        return output;
    }

    OutputStream stream(int tag) {
        return tag == OUT ? out : err;
    }

    private final class Stream extends OutputStream {
        final int tag;
        final ByteArrayOutputStream gathered = new ByteArrayOutputStream();

        Stream(int tag) {
            this.tag = tag;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int at, int count) {
            synchronized (Output.this) {
                while (count > 0) {
                    while (gathered.size() >= GATHERED_MOST && !ended) {
                        try {
                            Output.this.wait();
                        } catch (InterruptedException e) {
                            Thread.currentThread().interrupt();
                            return; // what an interrupted thread prints to a full stream is lost
                        }
                    }
                    int now = Math.min(count, GATHERED_MOST);
                    gathered.write(bytes, at, now);
                    at += now;
                    count -= now;
                    Output.this.notifyAll();
                }
            }
        }
    }

    private boolean sending;
    private boolean ended;

    private void pump() {
        try {
            for (; ; ) {
                byte[] first;
                byte[] second;
                synchronized (this) {
                    sending = false;
                    notifyAll();
                    while (out.gathered.size() + err.gathered.size() == 0) {
                        wait();
                    }
                    sending = true;
                    first = take(out);
                    second = take(err);
                    notifyAll();
                }
                send(OUT, first);
                send(ERR, second);
            }
        } catch (InterruptedException | JojoException e) {
            synchronized (this) {
                ended = true;
                sending = false;
                notifyAll();
            }
        }
    }

    private static byte[] take(Stream stream) {
        byte[] bytes = stream.gathered.toByteArray();
        stream.gathered.reset();
        return bytes;
    }

    private void send(int tag, byte[] bytes) throws JojoException {
        if (bytes.length > 0) {
            node.neighbours().client.lane(Post.OUTPUT).send(Frame.SEND, 0, tag, bytes);
        }
    }

    /** Waits until all is on its way, for a while. */
    void flush() {
        Deadline deadline = Deadline.in_ms(FLUSH_MOST_ms);
        synchronized (this) {
            while ((sending || out.gathered.size() + err.gathered.size() > 0) && !ended && !deadline.passed()) {
                try {
                    wait(Math.max(1, deadline.left_ms()));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return;
                }
            }
        }
    }

    // -- at the client -----------------------------------------------------------------------------------------------

    /** Prints what nodes send; each stream by whole lines. */
    static final class Printer {
        private record From(Path path, int tag) {}

        private final LocalNode node;
        private final PrintStream out;
        private final PrintStream err;
        private final Map<From, ByteArrayOutputStream> begun = new HashMap<>();
        private final java.util.ArrayDeque<Runnable> queue = new java.util.ArrayDeque<>();
        private boolean working;

        Printer(LocalNode node, PrintStream out, PrintStream err) {
            this.node = node;
            this.out = out;
            this.err = err;
        }

        /** Called by link readers: a terminal that is stopped stops this printer's thread, and the nodes' credit. */
        void take(Arrived message) {
            submit(() -> print(message));
        }

        /** A subtree is no more: behind what it said last, its lines end. */
        void lose(Path gone) {
            submit(() -> end(from -> gone.holds(from.path())));
        }

        private synchronized void submit(Runnable next) {
            queue.add(next);
            if (!working) {
                working = true;
                node.handlers().submit(this::work);
            }
        }

        private void work() {
            for (; ; ) {
                Runnable next;
                synchronized (this) {
                    next = queue.poll();
                    if (next == null) {
                        working = false;
                        notifyAll();
                        return;
                    }
                }
                next.run();
            }
        }

        private void print(Arrived message) {
            node.post().handedOn(message);
            try {
                if (Decoder.decode(message.body(), node.classes(), "a node") instanceof byte[] bytes) {
                    lines(message.lane.from, message.tag == ERR ? ERR : OUT, bytes);
                }
            } catch (JojoException e) {
                node.note("output that could not be read: " + e.getMessage());
            }
        }

        private synchronized void lines(Path from, int tag, byte[] bytes) {
            ByteArrayOutputStream line = begun.computeIfAbsent(new From(from, tag), k -> new ByteArrayOutputStream());
            PrintStream to = tag == OUT ? out : err;
            String label = "[" + node.neighbours().deepName(from) + "] ";
            for (byte b : bytes) {
                if (b == '\n' || line.size() >= LINE_MOST) {
                    to.println(label + Text.printable(line.toString(StandardCharsets.UTF_8)));
                    line.reset();
                }
                if (b != '\n' && b != '\r') {
                    line.write(b);
                }
            }
            to.flush();
        }

        /** What has no line end yet. */
        void end() {
            Deadline deadline = Deadline.in_ms(FLUSH_MOST_ms);
            synchronized (this) {
                while (working && !deadline.passed()) {
                    try {
                        wait(Math.max(1, deadline.left_ms()));
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                        return;
                    }
                }
                end(from -> true);
            }
        }

        private synchronized void end(Predicate<From> which) {
            begun.entrySet().removeIf(entry -> {
                From from = entry.getKey();
                boolean ends = which.test(from);
                if (ends && entry.getValue().size() > 0) {
                    (from.tag() == OUT ? out : err)
                            .println("[" + node.neighbours().deepName(from.path()) + "] "
                                    + Text.printable(entry.getValue().toString(StandardCharsets.UTF_8)));
                }
                return ends;
            });
        }
    }
}
