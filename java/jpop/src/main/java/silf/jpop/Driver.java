package silf.jpop;

import java.io.Serializable;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;

/**
 * A solver as a node of Jojo, the same at every place of the tree: handlers put what comes in a queue, and one thread takes it
 * out. Here is what all have: how a node begins, hears its first word, and ends; properties, checkpoint, events. Not in it: what
 * is solved.
 */
public abstract class Driver extends Code {
    private static final int TICK_ms = 1_000;
    private static final int CHECKPOINT_ms = 10_000;
    private static final int DAY_ms = 86_400_000;
    /** What a message has besides its arrays, roughly. */
    private static final int MESSAGE_bytes = 32;

    /** A child is no more. */
    protected record Lost(int rank, String name) implements Said {}

    protected final LinkedBlockingQueue<Said> inbox = new LinkedBlockingQueue<>();
    /** Whether nobody takes anything out of the inbox any more. Guarded by it. */
    private boolean closed;

    protected Settings settings;
    protected long tick_ns;
    protected long checkpoint_ns;
    /** At the client; null where none was asked for. */
    protected Checkpoint checkpoint;
    /** At the client. */
    protected Events events;
    /** Sent to the parent. */
    protected long messages;

    protected long bytes;

    /** The client reads what is to be solved. */
    protected abstract void begin() throws JojoException;

    /** Whether this is the parent's first word to {@code life}; it is kept then. */
    protected abstract boolean isWelcome(Said said, long life) throws JojoException;

    /** Works until all is over. */
    protected abstract void drive() throws JojoException, InterruptedException;

    /** The client tells the result. */
    protected abstract void end() throws JojoException;

    /** Whether there is too much to do already for what comes. */
    protected boolean isTooMuch(Said said) {
        return false;
    }

    @Override
    protected final boolean ordered() {
        return true;
    }

    @Override
    public final void init(@SuppressWarnings("rawtypes") Map arg) throws JojoException {
        settings = new Settings(arg);
        tick_ns = TimeUnit.MILLISECONDS.toNanos(settings.number("jpop.tick.ms", TICK_ms, 1, DAY_ms));
        checkpoint_ns = TimeUnit.MILLISECONDS.toNanos(settings.number("jpop.checkpoint.ms", CHECKPOINT_ms, 1, DAY_ms));
    }

    @Override
    public final Object handle(Message mes) throws JojoException {
        Said said = mes.as(Said.class);
        boolean late;
        synchronized (inbox) {
            late = closed;
            if (!late && !isTooMuch(said)) {
                inbox.add(said);
            }
        }
        if (late) {
            late(said);
        }
        return null;
    }

    /** A child whose first word came behind the last look. */
    private void late(Said said) throws JojoException {
        if (said instanceof Said.Hello hello) {
            tell(hello.rank(), new Said.Over());
        }
    }

    @Override
    public final void nodeLost(Node node) {
        for (Node child : descendants) {
            if (child == node) {
                inbox.add(new Lost(node.rank(), node.name()));
            }
        }
    }

    @Override
    public final void start() throws JojoException {
        try {
            boolean works = true;
            if (parent == null) {
                begin();
            } else {
                works = join();
            }
            if (works) {
                drive();
            }
            synchronized (inbox) {
                closed = true;
            }
            for (Said said; (said = inbox.poll()) != null; ) {
                late(said);
            }
            if (parent == null) {
                end();
            }
        } catch (InterruptedException e) {
            throw new JojoException("interrupted", e);
        } catch (JojoException | RuntimeException e) {
            if (events != null) {
                events.end("null", "failed: " + e.getMessage());
            }
            throw e;
        }
    }

    /**
     * Says that it is there, and waits to hear what for.
     *
     * @return false if all is over
     */
    private boolean join() throws JojoException, InterruptedException {
        long life = new SecureRandom().nextLong();
        up(new Said.Hello(rank, life), 0);
        List<Said> early = new ArrayList<>();
        for (; ; ) {
            Said said = inbox.take();
            boolean welcome = isWelcome(said, life);
            if (welcome || said instanceof Said.Over) {
                early.forEach(inbox::add);
                return welcome;
            } else if (said instanceof Said.Up || said instanceof Lost) {
                early.add(said);
            }
        }
    }

    /**
     * What a run that was broken off had kept.
     *
     * @param kind which module's
     * @return null if there is nothing
     */
    protected final byte[] kept(String kind, Serializable problem) throws JojoException {
        String file = settings.text("jpop.checkpoint");
        checkpoint = file == null ? null : new Checkpoint(Path.of(file), kind, problem);
        return checkpoint == null ? null : checkpoint.read();
    }

    /** @param size_bytes of its arrays */
    protected final void up(Said what, int size_bytes) throws JojoException {
        messages++;
        bytes += MESSAGE_bytes + size_bytes;
        parent.tell(what);
    }

    /** Who is lost hears nothing, and what it had is taken back when that is told. */
    protected final void tell(int child, Said what) throws JojoException {
        Node[] children = descendants;
        try {
            children[child].tell(what);
        } catch (NodeLostException e) {
            // Told by nodeLost.
        }
    }
}
