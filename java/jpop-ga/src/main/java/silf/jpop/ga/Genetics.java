package silf.jpop.ga;

import java.util.Properties;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;
import silf.jpop.Trees;

/** Genetic algorithms on a tree of machines, from a method: {@code Genetics.evolve(evolution, Trees.local(2))}. */
public final class Genetics {
    private Genetics() {}

    /**
     * Breeds until each island has had its generations, or one has reached the target.
     *
     * @param tree the nodes; what code they are to run is not looked at. Those without nodes below them are islands
     */
    public static <G> Outcome<G> evolve(Evolution<G> evolution, NodeSpec tree) throws JojoException {
        return evolve(evolution, tree, new Properties(), null);
    }

    /**
     * As above.
     *
     * @param properties those that {@link Archipelago} reads
     * @param launcher how nodes are started; null as the tree says
     */
    public static <G> Outcome<G> evolve(Evolution<G> evolution, NodeSpec tree, Properties properties, Launcher launcher)
            throws JojoException {
        return Trees.run(tree, Archipelago.class, properties, evolution, launcher);
    }
}
