package silf.jpop.bb;

import java.util.Properties;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;
import silf.jpop.Trees;

/** Branch and bound on a tree of machines, from a method: {@code BranchAndBound.solve(problem, Trees.local(2))}. */
public final class BranchAndBound {
    private BranchAndBound() {}

    /**
     * Finds the best solution, and proves it.
     *
     * @param tree the nodes; what code they are to run is not looked at. Those without nodes below them work
     * @throws JojoException that names node, class and subproblem when the problem's own code failed
     */
    public static <S> Result<S> solve(Problem<S> problem, NodeSpec tree) throws JojoException {
        return solve(problem, tree, new Properties(), null);
    }

    /**
     * As above.
     *
     * @param properties those that {@link Solver} reads
     * @param launcher how nodes are started; null as the tree says
     */
    public static <S> Result<S> solve(Problem<S> problem, NodeSpec tree, Properties properties, Launcher launcher)
            throws JojoException {
        return Trees.run(tree, Solver.class, properties, problem, launcher);
    }
}
