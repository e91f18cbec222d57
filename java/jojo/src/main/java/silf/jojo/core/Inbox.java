package silf.jojo.core;

import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/**
 * Messages for a node's {@link Code}: held until {@code init} has returned, then each to a handler, and its answer sent.
 * Called by link readers, and never waits. Not in it: how messages are put together.
 */
final class Inbox {
    /** A few microseconds to decode. */
    private static final int SMALL_bytes = 16 << 10;

    private final LocalNode here;
    private final Post post;
    private final Handlers handlers;
    /** A call from when it has come until it is answered. */
    private static final class Running {
        private Thread thread;
        private boolean cancelled;

        /** False if nobody waits for the answer any more. */
        synchronized boolean begin() {
            thread = Thread.currentThread();
            return !cancelled;
        }

        /** From now on the thread is not this call's. */
        synchronized void end() {
            thread = null;
            Thread.interrupted(); // of a cancel that came too late; the answer goes out whole
        }

        synchronized void cancel() {
            cancelled = true;
            if (thread != null) {
                thread.interrupt();
            }
        }
    }

    private record Caller(Path from, long call) {}

    private final Map<Caller, Running> running = new ConcurrentHashMap<>();
    // Guarded by this.
    private List<Runnable> held = new ArrayList<>();
    private final ArrayDeque<Runnable> order = new ArrayDeque<>();
    private boolean inOrder;
    private boolean orderly;
    private volatile boolean open;
    private volatile Code code;

    Inbox(LocalNode here, Post post, Handlers handlers) {
        this.here = here;
        this.post = post;
        this.handlers = handlers;
        post.onCancel((from, call) -> {
            Running it = running.get(new Caller(from, call));
            if (it != null) {
                it.cancel();
            }
        });
    }

    void take(Arrived message) {
        if (message.type == Frame.SEND) {
            submit(() -> tell(message), isSmall(message));
            return;
        }
        Caller caller = new Caller(message.lane.from, message.call);
        Running it = new Running();
        running.put(caller, it);
        submit(() -> call(message, caller, it), isSmall(message));
    }

    /** To decode what is large takes its time: not the link's reader's. */
    private static boolean isSmall(Arrived message) {
        return message.announced() <= SMALL_bytes;
    }

    /** Runs something of the user's as handlers are run, in its turn. */
    void submit(Runnable task) {
        submit(task, true);
    }

    /** @param brief whether the reader of its link may run it */
    private void submit(Runnable task, boolean brief) {
        if (!open || orderly) {
            synchronized (this) {
                if (!open) {
                    held.add(task);
                    return;
                }
                if (orderly) {
                    order.add(task);
                    if (inOrder) {
                        return;
                    }
                    inOrder = true;
                    task = this::inOrder;
                }
            }
        }
        if (brief) {
            handlers.submitFromReader(task);
        } else {
            handlers.submit(task);
        }
    }

    private void inOrder() {
        for (; ; ) {
            Runnable task;
            synchronized (this) {
                task = order.poll();
                if (task == null) {
                    inOrder = false;
                    return;
                }
            }
            task.run();
        }
    }

    /** {@code init} has returned. */
    void open(Code code, boolean ordered) {
        List<Runnable> first;
        synchronized (this) {
            this.code = code;
            this.orderly = ordered;
            first = held;
            held = null;
            open = true;
            if (ordered) {
                order.addAll(first);
                inOrder = !first.isEmpty();
                first = inOrder ? List.of(this::inOrder) : List.of();
            }
        }
        first.forEach(handlers::submit);
    }

    private void tell(Arrived message) {
        try {
            handle(message);
        } catch (Throwable e) {
            here.note("handle of a message from " + here.neighbours().nameOf(message.lane.from) + " ended with " + LocalNode.trace(e));
        }
    }

    private void call(Arrived message, Caller caller, Running it) {
        try {
            if (!it.begin()) {
                post.handedOn(message);
                return;
            }
            Object answer = handle(message);
            it.end();
            post.answer(message, Frame.REPLY, answer);
        } catch (Throwable e) {
            it.end();
            failed(message, e);
        } finally {
            running.remove(caller);
        }
    }

    private Object handle(Arrived message) throws JojoException {
        post.handedOn(message);
        here.enter();
        Object contents = message.value(here.classes(), here.neighbours().nameOf(message.lane.from));
        return code.handle(new Message(message.tag, (Serializable) contents));
    }

    private void failed(Arrived message, Throwable e) {
        try {
            post.answer(message, Frame.FAIL, Failures.write(e, here.birth.spec().name()));
        } catch (JojoException | RuntimeException | Error own) {
            here.note("could not tell " + here.neighbours().nameOf(message.lane.from) + " that its call failed: " + own);
        }
        if (e instanceof VirtualMachineError) {
            here.note("handle ended with " + e);
        }
    }
}
