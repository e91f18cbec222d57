package silf.jojo;

/**
 * A call ended because the node it was for is gone, or the way to it. Whether the call was carried out there is not known.
 */
public final class NodeLostException extends JojoException {
    private static final long serialVersionUID = 1;

    private final String node;
    private final String why;

    public NodeLostException(String node, String why) {
        super("node " + node + " is lost: " + why);
        this.node = node;
        this.why = why;
    }

    /** The name of the node that is gone. */
    public String node() {
        return node;
    }

    /** The same, with the trace of the calling thread. */
    public NodeLostException again() {
        return new NodeLostException(node, why);
    }
}
