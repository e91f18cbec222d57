package silf.jojo;

import java.io.Serializable;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * A place in the tree, to which messages can be sent. Messages from one node to another are handed to {@code handle} in the
 * order in which they were sent; handlers run at the same time, each in a thread of its own. A method that sends waits while
 * the other side is slow to take.
 */
public abstract class Node {
    /** Only Jojo makes them. */
    protected Node() {}

    /** Its name: the host's, unless the configuration gave it another. */
    public abstract String name();

    /** Its place among its siblings. It stays, whoever takes the place. */
    public abstract int rank();

    /** Whether it is up, as far as is known here. */
    public abstract boolean alive();

    /** Another number each time that a node takes this place: tells one that was started again from the one before. */
    public abstract int epoch();

    /** Sends, and returns as soon as the message is on its way. What {@code handle} returns or throws is lost. */
    public abstract void send(Message msg) throws JojoException;

    /** Sends, and waits for what {@code handle} returns. */
    public Object call(Message msg) throws JojoException {
        return callFuture(msg).touch();
    }

    /** Sends, and waits for what {@code handle} returns, for so long at most. */
    public Object call(Message msg, Duration most) throws JojoException {
        return callFuture(msg).touch(most);
    }

    /** Sends; the answer is had from the future. */
    public abstract Future callFuture(Message msg) throws JojoException;

    /** Sends; the answer is given to {@code context}, in another thread. */
    public abstract void callWithContext(Message msg, Context context) throws JojoException;

    /** {@link #send} of a message known by its type. */
    public void tell(Serializable contents) throws JojoException {
        send(Message.of(contents));
    }

    /** {@link #callFuture} of a message known by its type, with an answer of a known type. */
    public <T> CompletableFuture<T> ask(Serializable contents, Class<T> answer) throws JojoException {
        CompletableFuture<Object> call = callFuture(Message.of(contents)).toCompletableFuture();
        CompletableFuture<T> typed = call.thenApply(answer::cast);
        typed.whenComplete((value, e) -> {
            if (e != null) {
                call.cancel(true); // given up, or late; nothing happens if it was answered
            }
        });
        return typed;
    }

    /** {@link #ask}, given up after a time. */
    public <T> CompletableFuture<T> ask(Serializable contents, Class<T> answer, Duration most) throws JojoException {
        return ask(contents, answer).orTimeout(most.toMillis(), TimeUnit.MILLISECONDS);
    }
}
