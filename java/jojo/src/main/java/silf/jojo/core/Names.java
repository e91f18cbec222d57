package silf.jojo.core;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;

/**
 * The names of a tree, kept at the client: each is there once (spec/jojo J31), and whoever has nodes join asks for theirs first.
 * A name is not given to another when its node has left.
 */
final class Names {
    /** Tag of the CALL on lane 3 that asks; its contents are the names. */
    static final int ASK = 3;
    /** J33: what a tree has at most. */
    private static final int MOST = 65536;
    private static final int LENGTH_MOST = 253;

    private final Set<String> taken = new HashSet<>();

    Names(NodeSpec root) {
        taken.addAll(of(root));
    }

    static List<String> of(NodeSpec spec) {
        List<String> names = new ArrayList<>(List.of(spec.name()));
        spec.children().forEach(child -> names.addAll(of(child)));
        return names;
    }

    /** @param names what a node sent: all of them are taken, or none */
    synchronized void take(Object names) throws JojoException {
        if (!(names instanceof List<?> list) || taken.size() + list.size() > MOST) {
            throw new JojoException("no names, or more than a tree has: " + MOST);
        }
        Set<String> fresh = new HashSet<>();
        for (Object each : list) {
            if (!(each instanceof String name) || name.length() > LENGTH_MOST) {
                throw new JojoException("a name that is none");
            }
            if (taken.contains(name) || !fresh.add(name)) {
                throw new JojoException("there is a node named " + name + " already");
            }
        }
        taken.addAll(fresh);
    }
}
