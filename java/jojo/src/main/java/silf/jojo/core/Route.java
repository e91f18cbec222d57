package silf.jojo.core;

/** Where frames for some destination go next: a link, or this node itself. */
interface Route {
    /**
     * Adds a frame; nothing once the route is over. Never waits.
     *
     * @return whether nobody is at work: the caller must call {@link #work}, soon and without a lock
     */
    boolean offer(byte[] frame);

    /** Moves what was offered; may wait, but not on a link thread. */
    void work();

    /** Before another piece of bulk: waits while much is pending. */
    void awaitRoom() throws InterruptedException;

    /** Adds a frame and sees to it. Never waits on a link thread. */
    default void send(byte[] frame) {
        if (offer(frame)) {
            work();
        }
    }
}
