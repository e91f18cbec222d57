package silf.jojo;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** An answer that is on its way. */
public abstract class Future {
    /** Only Jojo makes them. */
    protected Future() {}

    /**
     * Waits for the answer.
     *
     * @throws NodeLostException if the node is gone, or the way to it
     * @throws RemoteException if {@code handle} threw
     * @throws JojoException if the wait was interrupted, or the call cancelled
     */
    public abstract Object touch() throws JojoException;

    /** As {@link #touch}, and gives up after a time: the call is then cancelled. */
    public abstract Object touch(Duration most) throws JojoException;

    /** Whether {@link #touch} would not wait. */
    public abstract boolean isDone();

    /** Gives the call up: its handler is interrupted, and {@link #touch} throws. False if the answer was there first. */
    public abstract boolean cancel();

    /** The same answer, for who likes to combine. Cancelling it cancels the call. */
    public abstract CompletableFuture<Object> toCompletableFuture();
}
