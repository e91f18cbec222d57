package silf.jpop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.Program;
import silf.jojo.launch.Launcher;
import silf.jojo.launch.ProcessLauncher;

/** Trees of nodes that all run the same code, and programs that are run from a method instead of a command. */
public final class Trees {
    /** Names what {@link #run} hands to the client's code. */
    private static final String JOB = "jpop.job";
    private static final Map<String, Job<?, ?>> JOBS = new ConcurrentHashMap<>();
    private static final AtomicLong COUNT = new AtomicLong();

    /** What is to be solved on its way to the client's code, and the result on its way back. */
    public static final class Job<I, O> {
        public final I given;
        public volatile O made;

        Job(I given) {
            this.given = given;
        }
    }

    private Trees() {}

    /** JVMs of this host, so many below each on every level; a lost one is gone on without. No level: the client alone. */
    public static NodeSpec local(int... below) {
        return NodeSpec.of("client", "client", "", level(below, 0, "").toArray(NodeSpec[]::new));
    }

    private static List<NodeSpec> level(int[] below, int depth, String above) {
        List<NodeSpec> nodes = new ArrayList<>();
        for (int rank = 0; depth < below.length && rank < below[depth]; rank++) {
            String place = above + rank;
            nodes.add(NodeSpec.of("n" + place, NodeSpec.LOCAL, "", level(below, depth + 1, place + ".").toArray(NodeSpec[]::new))
                    .withFaults(NodeSpec.FaultPolicy.GO_ON));
        }
        return nodes;
    }

    /** The same tree, with this code at every node. */
    private static NodeSpec running(NodeSpec tree, Class<? extends Code> code) {
        List<NodeSpec> below = tree.children().stream().map(child -> running(child, code)).toList();
        return new NodeSpec(tree.name(), tree.host(), code.getName(), tree.invocation(), tree.faults(), tree.spare(), tree.files(), below);
    }

    /**
     * Runs a tree to its end, in this JVM as its client, with this code at every node.
     *
     * @param given what the client's code takes by {@link #job}
     * @param launcher how nodes are started; null as the configuration says
     * @return what the client's code put into the job
     * @throws JojoException that names the node that failed
     */
    public static <I, O> O run(NodeSpec tree, Class<? extends Code> code, Properties properties, I given, Launcher launcher)
            throws JojoException {
        Job<I, O> job = new Job<>(given);
        String name = Long.toString(COUNT.incrementAndGet());
        Properties all = new Properties();
        properties.stringPropertyNames().forEach(key -> all.setProperty(key, properties.getProperty(key)));
        all.setProperty(JOB, name);
        JOBS.put(name, job);
        ClassLoader own = Thread.currentThread().getContextClassLoader();
        try {
            int status = new Program(
                            running(tree, code), all,
                            launcher != null ? launcher : new ProcessLauncher((node, line) -> System.err.println("[" + node.name() + "] " + line)),
                            own == null ? Trees.class.getClassLoader() : own, System.out, System.err)
                    .run();
            if (status != 0) {
                throw new JojoException("the program was ended with status " + status);
            }
            return job.made;
        } catch (IOException e) {
            throw new JojoException("the program cannot be started: " + e, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new JojoException("interrupted", e);
        } finally {
            JOBS.remove(name);
        }
    }

    /** What {@link #run} was given; null where a command started the program, and at all nodes but the client. */
    @SuppressWarnings("unchecked")
    public static <I, O> Job<I, O> job(Settings settings) {
        String name = settings.text(JOB);
        return name == null ? null : (Job<I, O>) JOBS.get(name);
    }
}
