package silf.jojo.core;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;

/**
 * What a node is told about itself before it begins (the blob {@code jojo:start}, spec/jojo J7).
 *
 * @param path as text
 * @param spec the node and all below it
 * @param parent its parent's name, and null for the client
 * @param siblings all of them, itself included, by rank
 */
record Birth(
        String path,
        int epoch,
        NodeSpec spec,
        String parent,
        int parentEpoch,
        List<Sibling> siblings,
        Map<String, String> properties)
        implements Serializable {
    static final String BLOB = "jojo:start";

    /** A place beside this one, and in FAMILY what it is now. */
    record Sibling(int rank, String name, int epoch, boolean alive) implements Serializable {}

    /** A subtree that is no more (LOST). */
    record Lost(String path, int epoch, String name, String why) implements Serializable {}

    /** What ends the program (REPORT): an exception, or a status to exit with. */
    record Report(String node, String text, String trace, int status) implements Serializable {}

    private static final UserClasses OWN = new UserClasses(Birth.class.getClassLoader());

    static byte[] bytes(Object value) {
        try {
            return Encoder.bytes(value);
        } catch (JojoException e) {
            throw new IllegalStateException("records of strings and numbers can be encoded", e);
        }
    }

    static <T> T read(byte[] bytes, int at, Class<T> type) throws Violation {
        try {
            Object value = Decoder.decode(new In(bytes, at), OWN, "a neighbour");
            if (type.isInstance(value)) {
                return type.cast(value);
            }
            throw new Violation((value == null ? "null" : value.getClass().getName()) + " in place of " + type.getName());
        } catch (JojoException e) {
            throw new Violation(e.getMessage());
        }
    }
}
