package silf.jojo;

/**
 * {@code handle} at another node ended with an exception (spec/jojo J12). Its cause is that exception, if its class is
 * known here.
 */
public final class RemoteException extends JojoException {
    private static final long serialVersionUID = 1;

    private final String node;
    private final String type;
    private final String text;
    private final String remoteTrace;

    public RemoteException(String node, String type, String text, String remoteTrace, Throwable cause) {
        super("at node " + node + ": " + type + (text == null ? "" : ": " + text), cause);
        this.node = node;
        this.type = type;
        this.text = text;
        this.remoteTrace = remoteTrace;
    }

    /** The name of the node where it was thrown. */
    public String node() {
        return node;
    }

    /** The exception's class name. */
    public String type() {
        return type;
    }

    /** The exception's own message; may be null. */
    public String remoteText() {
        return text;
    }

    /** The trace as it was printed over there. */
    public String remoteTrace() {
        return remoteTrace;
    }

    /** With the remote trace behind the local one. */
    @Override
    public void printStackTrace(java.io.PrintStream to) {
        synchronized (to) {
            super.printStackTrace(to);
            to.println("Thrown at node " + node + ": " + remoteTrace.strip());
        }
    }
}
