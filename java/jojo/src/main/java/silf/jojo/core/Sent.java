package silf.jojo.core;

/**
 * What one side of a link has sent since it began.
 *
 * @param messages of users, their answers among them; those of other nodes that passed by as well
 * @param bytes of all frames
 */
record Sent(long messages, long bytes) {
    static final Sent NOTHING = new Sent(0, 0);

    Sent and(Sent more) {
        return new Sent(messages + more.messages, bytes + more.bytes);
    }
}
