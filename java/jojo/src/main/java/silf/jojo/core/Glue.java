package silf.jojo.core;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;

/** How the core reaches what {@link Code} shows to nobody else. Set by the initializer of {@code Code}. */
public abstract class Glue {
    private static volatile Glue glue;

    /** What a {@link Code} asks of its node. */
    public interface Seat {
        Node self();

        void broadcast(Message msg) throws JojoException;

        List<Object> gather(Message msg) throws JojoException;

        Object reduce(Message msg, Serializable combine) throws JojoException;

        Node find(String name) throws JojoException;

        Node join(NodeSpec spec) throws JojoException;

        void leave(Node node) throws JojoException;
    }

    /** Once, by {@link Code}. */
    public static void set(Glue one) {
        if (glue != null) {
            throw new IllegalStateException("only Code sets the glue");
        }
        glue = one;
    }

    static Glue get() {
        return glue;
    }

    protected abstract void bind(Code code, Seat seat);

    protected abstract boolean ordered(Code code);

    protected abstract Map<String, ? extends Number> figures(Code code);

    protected abstract void family(Code code, Node parent, Node[] siblings, Node[] descendants, int rank);
}
