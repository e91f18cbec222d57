package silf.jojo.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import silf.jojo.Context;
import silf.jojo.JojoException;
import silf.jojo.Node;

/**
 * What nodes say of themselves when somebody watches the program (spec/jojo J22): a call on lane 3 that passes down the tree,
 * and one list of all nodes below on the way back. Nothing is said, and nobody waits, while nobody asks. Not in it: who watches
 * ({@link Watch}).
 */
final class Looks {
    /** The tag of such a call; tag 1 is {@link Siblings#BYTES}. */
    static final int LOOK = 2;

    /** A view shows no more of one node. */
    private static final int FIGURES_MOST = 16;

    private static final int NAME_MOST = 32;

    private final LocalNode here;
    private boolean complained;

    Looks(LocalNode here) {
        this.here = here;
    }

    /** This node: place, name, handlers, faults, what went up and aside, figures, children. */
    List<Object> own() {
        Sent up = here.sentUp();
        Sent aside = here.siblings().sent();
        int handlers = here.handlers().busy() - (here.neighbours().parent == null ? 0 : 1); // the one that asks this
        return TreeValue.list(
                here.path.toString(), here.birth.spec().name(), Math.max(0, handlers), here.family().faults(),
                up.messages(), up.bytes(), aside.messages(), aside.bytes(), figures(), here.family().looks());
    }

    /** Of numbers that travel; what else a person's code gives is left out, and said once. */
    private Map<String, Object> figures() {
        Map<String, Object> figures = new LinkedHashMap<>();
        try {
            for (var each : here.figures().entrySet()) {
                String name = each.getKey();
                Number value = each.getValue();
                if (value != null && name.length() <= NAME_MOST && figures.size() < FIGURES_MOST) {
                    boolean whole = value instanceof Long || value instanceof Integer;
                    figures.put(name, whole ? (Object) value.longValue() : (Object) value.doubleValue());
                }
            }
        } catch (RuntimeException | StackOverflowError e) {
            complain("figures of " + here.birth.spec().name() + " ended with " + LocalNode.trace(e));
        }
        return figures;
    }

    private synchronized void complain(String what) {
        if (!complained) {
            complained = true;
            here.note(what);
        }
    }

    /** A parent wants to know. */
    void answer(Arrived message) {
        here.post().handedOn(message);
        NodeHandle parent = here.neighbours().parent;
        if (parent == null || !message.lane.from.equals(parent.path)) {
            return; // nobody else asks
        }
        List<NodeHandle> below = below();
        Sum sum = new Sum(below.size(), own(), all -> {
            try {
                here.post().answer(message, Frame.REPLY, all);
            } catch (JojoException e) {
                // The parent is gone.
            }
        });
        below.forEach(node -> ask(node, sum::add));
    }

    /** Those that are up. */
    List<NodeHandle> below() {
        List<NodeHandle> up = new ArrayList<>();
        for (Node node : here.family().nodes()) {
            if (node.alive()) {
                up.add((NodeHandle) node);
            }
        }
        return up;
    }

    /** What a child and those below it say; null if it is lost before it has said it. */
    void ask(NodeHandle node, Consumer<List<?>> to) {
        try {
            node.call(Post.TREE, LOOK, null).then(new Context() {
                @Override
                public void run(Object answer) {
                    to.accept(answer instanceof List<?> list ? list : null);
                }

                @Override
                public void failed(JojoException e) {
                    to.accept(null);
                }
            });
        } catch (JojoException e) {
            to.accept(null);
        }
    }

    /** What all say, once the last has. */
    private static final class Sum {
        private final List<Object> all = new ArrayList<>();
        private final Consumer<List<Object>> then;
        private int missing;

        Sum(int children, List<Object> own, Consumer<List<Object>> then) {
            this.missing = children;
            this.then = then;
            all.add(own);
            if (children == 0) {
                then.accept(all);
            }
        }

        void add(List<?> part) {
            synchronized (this) {
                if (part != null) {
                    all.addAll(part);
                }
                if (--missing > 0) {
                    return;
                }
            }
            then.accept(all);
        }
    }
}
