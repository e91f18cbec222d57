package silf.jojo.launch;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import silf.jojo.Code;
import silf.jojo.Jojo;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.config.TreeText;

/**
 * {@code jojo check CONF}: starts a JVM at every place of the tree, as the program would, and says what was found there.
 * The program's own classes are not needed.
 */
public final class Checkup {
    private static final int WHAT = 1;
    private static final int PING = 2;

    /** So often is each link crossed; the quickest crossing is told, for the first ones load classes. */
    private static final int PINGS = 20;

    /** What a node says of itself, and how long a call to each of its children took. */
    public record Found(String name, String java, String system, int processors, long memory_MB, Map<String, Long> below_ns)
            implements Serializable {}

    private static final AtomicReference<NodeSpec> ASKED = new AtomicReference<>();
    private static final AtomicReference<Boolean> WELL = new AtomicReference<>(false);

    private Checkup() {}

    /**
     * Prints the tree with what was found at each place.
     *
     * @return 0 when every place was reached, else 1
     */
    public static int run(NodeSpec root) throws InterruptedException {
        ASKED.set(root);
        WELL.set(false);
        int status = Jojo.run(probes(root, Client.class), new Properties());
        return status == 0 && WELL.get() ? 0 : 1;
    }

    /** The same tree of our own code, which goes on without what does not come up. */
    private static NodeSpec probes(NodeSpec node, Class<? extends Code> code) {
        List<NodeSpec> below = node.children().stream().map(child -> probes(child, Probe.class)).toList();
        return new NodeSpec(node.name(), node.host(), code.getName(), node.invocation(), FaultPolicy.GO_ON, false, List.of(), below);
    }

    /** At every node. */
    public static class Probe extends Code {
        @Override
        public Object handle(Message message) throws JojoException {
            if (message.tag == PING) {
                return null;
            }
            Map<String, Long> below = new HashMap<>();
            for (Node child : descendants) {
                if (child.alive()) {
                    below.put(child.name(), nanos(child));
                }
            }
            return new Found(self().name(), System.getProperty("java.version"),
                    System.getProperty("os.name") + " " + System.getProperty("os.arch"),
                    Runtime.getRuntime().availableProcessors(), Runtime.getRuntime().maxMemory() >> 20, below);
        }

        private static long nanos(Node child) throws JojoException {
            long least = Long.MAX_VALUE;
            for (int i = 0; i < PINGS; i++) {
                long begun = System.nanoTime();
                child.call(new Message(PING, null));
                least = Math.min(least, System.nanoTime() - begun);
            }
            return least;
        }
    }

    /** At the client. */
    public static final class Client extends Probe {
        @Override
        public void start() throws JojoException {
            Map<String, Found> found = new HashMap<>();
            Map<String, Long> away_ns = new HashMap<>(((Found) handle(new Message(WHAT, null))).below_ns());
            for (Object answer : gather(new Message(WHAT, null))) {
                if (answer instanceof Found one) {
                    found.put(one.name(), one);
                    away_ns.putAll(one.below_ns());
                }
            }
            WELL.set(tell(ASKED.get(), 0, found, away_ns));
        }

        private static boolean tell(NodeSpec node, int level, Map<String, Found> found, Map<String, Long> away_ns) {
            Found here = found.get(node.name());
            boolean well = level == 0 || here != null;
            StringBuilder line = new StringBuilder(TreeText.line(node, level));
            if (here != null) {
                line.append("  ok: Java ").append(here.java()).append(", ").append(here.system()).append(", ")
                        .append(here.processors()).append(" processors, heap ").append(here.memory_MB()).append(" MB");
                Long ns = away_ns.get(node.name());
                if (ns != null) {
                    line.append(", a call takes ").append(TimeUnit.NANOSECONDS.toMicros(ns)).append(" µs");
                }
            } else if (level > 0) {
                line.append("  NOT REACHED");
            }
            System.out.println(line);
            for (NodeSpec child : node.children()) {
                well &= tell(child, level + 1, found, away_ns);
            }
            return well;
        }
    }
}
