package silf.jojo;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.function.BinaryOperator;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.Glue;

/**
 * The program of a node: one object a node, made by its constructor without arguments. Its fields are set before
 * {@link #init}; {@link #start} and {@link #handle} run only after {@code init} has returned.
 */
public abstract class Code {
    static {
        Glue.set(new Glue() {
            @Override
            protected void bind(Code code, Seat seat) {
                code.seat = seat;
            }

            @Override
            protected boolean ordered(Code code) {
                return code.ordered();
            }

            @Override
            protected Map<String, ? extends Number> figures(Code code) {
                return code.figures();
            }

            @Override
            protected void family(Code code, Node parent, Node[] siblings, Node[] descendants, int rank) {
                code.parent = parent;
                code.siblings = siblings;
                code.descendants = descendants;
                code.rank = rank;
            }
        });
    }

    /** The nodes on this level with the same parent, this one among them, by rank. Another array when one joins. */
    protected volatile Node[] siblings;

    /** The nodes directly below, by rank. Another array when one joins. */
    protected volatile Node[] descendants;

    /** The node above; null at the client. */
    protected volatile Node parent;

    /** This node's place in {@link #siblings}. */
    protected volatile int rank;

    private volatile Glue.Seat seat;

    /**
     * Called first.
     *
     * @param arg the properties that the program was started with
     */
    @SuppressWarnings("rawtypes")
    public void init(Map arg) throws JojoException {}

    /** The node's own work, in a thread of its own. The program ends when it has returned everywhere. */
    public void start() throws JojoException {}

    /**
     * Called for each message, in a thread of its own; {@code synchronized} makes handlers of this node exclusive.
     *
     * @return the answer, for who called
     */
    public Object handle(Message mes) throws JojoException {
        throw new JojoException(getClass().getName() + " has no handler, and was sent " + mes);
    }

    /** A sibling or descendant, or all below it, is gone. */
    public void nodeLost(Node node) throws JojoException {}

    /** A sibling or descendant is there, new or again. */
    public void nodeJoined(Node node) throws JojoException {}

    /** Whether messages are handled one after the other, in the order in which they came, instead of at the same time. */
    protected boolean ordered() {
        return false;
    }

    /**
     * Numbers of this node for who watches the program, asked for a few times a second while somebody does, in any thread, as
     * soon as the object is there; it must not wait. {@code work}, which only grows, is shown as a rate and as a sum over all
     * nodes; others as they are, those of the client first: {@code best}, {@code left}.
     */
    protected Map<String, ? extends Number> figures() {
        return Map.of();
    }

    /** This node. */
    protected final Node self() {
        return seat.self();
    }

    /** Sends to all nodes below, each parent passing it on to its children. */
    protected final void broadcast(Message msg) throws JojoException {
        seat.broadcast(msg);
    }

    /**
     * Calls all nodes below, and waits for their answers.
     *
     * @return the answers in order of the tree: each node before those below it
     */
    protected final List<Object> gather(Message msg) throws JojoException {
        return seat.gather(msg);
    }

    /**
     * Calls all nodes below; each combines what comes from below it with its own answer, so that one answer passes each
     * link.
     *
     * @param combine associative; its class is on the class path of the client
     * @return null when there are no nodes below
     */
    protected final <C extends BinaryOperator<Object> & Serializable> Object reduce(Message msg, C combine)
            throws JojoException {
        return seat.reduce(msg, combine);
    }

    /**
     * A node anywhere below, by its name. Messages between it and this node pass the nodes between them unread. It is the node
     * that is up now: one that is lost stays lost, and another in its place is found by asking again.
     *
     * @throws JojoException when none below is up by this name
     */
    protected final Node find(String name) throws JojoException {
        return seat.find(name);
    }

    /**
     * Starts another node directly below this one, while the program runs. It takes the rank behind all others; {@link
     * #nodeJoined} tells when it is up.
     */
    protected final Node join(NodeSpec spec) throws JojoException {
        return seat.join(spec);
    }

    /** Ends a node directly below this one, and all below it. Its rank is not given to another. */
    protected final void leave(Node node) throws JojoException {
        seat.leave(node);
    }
}
