package silf.jojo.core;

import java.util.ArrayList;
import java.util.List;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;

/** Trees whose nodes are threads of this JVM, for programs that are to be run many times; and how one of them is lost. */
public final class InOneJvm {
    private InOneJvm() {}

    public static Launcher launcher() {
        return Transport.memory();
    }

    /** The same tree under names of its own, for {@link #kill}, where lost nodes are dealt with so. */
    public static NodeSpec named(NodeSpec tree, String prefix, NodeSpec.FaultPolicy faults) {
        return new NodeSpec(prefix + tree.name(), tree.host(), tree.code(), tree.invocation(), faults, false, tree.files(),
                tree.children().stream().map(child -> named(child, prefix, faults)).toList());
    }

    /** Names of all nodes below the client. */
    public static List<String> below(NodeSpec tree) {
        List<String> names = new ArrayList<>();
        for (NodeSpec child : tree.children()) {
            names.add(child.name());
            names.addAll(below(child));
        }
        return names;
    }

    /** Cuts a node and all below it off, as when its host goes. False if there is none of that name. */
    public static boolean kill(String name) {
        Life life = Transport.LIVES.remove(name);
        if (life != null) {
            life.kill();
        }
        return life != null;
    }

    /** Names of nodes that were started here. */
    public static List<String> names() {
        return new ArrayList<>(Transport.LIVES.keySet());
    }
}
