package silf.jojo.core;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import silf.jojo.Context;
import silf.jojo.Future;
import silf.jojo.JojoException;

/** A call whose answer is awaited. The answer is decoded by who wants it, once; never by the link's reader. */
final class PendingCall extends Future {
    final long number;
    final Path to;
    final String name;
    final int lane;
    private final Calls calls;
    private final CountDownLatch here = new CountDownLatch(1);
    // Guarded by this.
    private Arrived answer;
    private boolean decoded;
    private Object value;
    private JojoException failure;
    private CompletableFuture<Object> future;
    private Context context;

    PendingCall(Calls calls, long number, Path to, String name, int lane) {
        this.calls = calls;
        this.number = number;
        this.to = to;
        this.name = name;
        this.lane = lane;
    }

    /** The answer, as it came. Does not wait. */
    void answered(Arrived message) {
        end(message, null);
    }

    void failed(JojoException why) {
        end(null, why);
    }

    private void end(Arrived message, JojoException why) {
        boolean deliver;
        synchronized (this) {
            if (answer != null || failure != null) {
                return;
            }
            answer = message;
            failure = why;
            deliver = future != null || context != null;
        }
        here.countDown();
        if (deliver) {
            calls.handlers().submit(this::deliver);
        }
    }

    private void deliver() {
        CompletableFuture<Object> to;
        Context run;
        synchronized (this) {
            to = future;
            run = context;
            context = null;
        }
        Object value = null;
        JojoException why = null;
        try {
            value = decoded();
        } catch (JojoException e) {
            why = e;
        }
        if (to != null) {
            if (why == null) {
                to.complete(value);
            } else {
                to.completeExceptionally(why);
            }
        }
        if (run != null) {
            if (why == null) {
                run.run(value);
            } else {
                run.failed(why);
            }
        }
    }

    private synchronized Object decoded() throws JojoException {
        if (failure == null && !decoded) {
            Arrived message = answer;
            try {
                value = calls.decode(message, name);
            } catch (JojoException e) {
                failure = e;
            } finally {
                decoded = true;
                answer = message.emptied();
            }
        }
        if (failure != null) {
            throw failure;
        }
        return value;
    }

    @Override
    public Object touch() throws JojoException {
        wait(here);
        try {
            here.await();
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
        return decoded();
    }

    @Override
    public Object touch(Duration most) throws JojoException {
        wait(here);
        try {
            if (!here.await(Deadline.in(most).left_ns(), TimeUnit.NANOSECONDS)) {
                JojoException late = new JojoException("no answer from node " + name + " within " + most.toMillis() + " ms");
                giveUp(late);
            }
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
        return decoded();
    }

    private static void wait(CountDownLatch here) {
        if (here.getCount() > 0) {
            LinkReader.waits();
        }
    }

    private JojoException interrupted(InterruptedException e) {
        Thread.currentThread().interrupt();
        JojoException why = new JojoException("interrupted while waiting for an answer from node " + name, e);
        giveUp(why);
        return why;
    }

    @Override
    public boolean isDone() {
        return here.getCount() == 0;
    }

    @Override
    public boolean cancel() {
        return giveUp(new JojoException("the call to node " + name + " was cancelled"));
    }

    private boolean giveUp(JojoException why) {
        return calls.giveUp(this, why);
    }

    @Override
    public CompletableFuture<Object> toCompletableFuture() {
        CompletableFuture<Object> made;
        boolean done;
        synchronized (this) {
            if (future != null) {
                return future;
            }
            made = new CompletableFuture<>() {
                @Override
                public boolean cancel(boolean interrupt) {
                    boolean first = super.cancel(interrupt);
                    PendingCall.this.cancel();
                    return first;
                }
            };
            future = made;
            done = isDone();
        }
        if (done) {
            calls.handlers().submit(this::deliver);
        }
        return made;
    }

    void then(Context next) {
        boolean done;
        synchronized (this) {
            context = next;
            done = answer != null || failure != null;
        }
        if (done) {
            calls.handlers().submit(this::deliver);
        }
    }
}
