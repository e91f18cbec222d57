package silf.jpop.bb;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import silf.jojo.JojoException;
import silf.jpop.Damaged;
import silf.jojo.testkit.Check;
import silf.jpop.Said;

/**
 * A tree of {@link Core}s without threads or clock: by a seed it decides what is delivered next, who works, who dies with all
 * below, and who comes back. Messages between two keep their order, as Jojo keeps it; those of the dead are lost, or, as a harder
 * case, arrive late. After each step of the root: what it would forget it may forget.
 */
final class Histories<S> {
    private static final int STEPS_MOST = 2_000_000;

    private final class Node {
        final int rank;
        final Node parent;
        final long life;
        final List<Node> below = new ArrayList<>();
        Core<S> core;
        boolean dead;
        final ArrayDeque<Said> down = new ArrayDeque<>();
        final ArrayDeque<Said> up = new ArrayDeque<>();

        Node(Node parent, int rank) {
            this.parent = parent;
            this.rank = rank;
            this.life = lives++;
        }
    }

    private final SplittableRandom random;
    private final Search<S> search;
    private final List<Node> nodes = new ArrayList<>();
    private final Node root;
    private final Map<Position, Long> solutions;
    /** What the dead had said and nobody had heard; with who was to hear it. */
    private final ArrayDeque<Map.Entry<Node, Said>> late = new ArrayDeque<>();
    private long lives = 1;
    private int kills;
    long steps;
    int killed;

    /** @param shape children of each node by level */
    Histories(long seed, Problem<S> problem, Map<Position, Long> solutions, int[] shape, int kills) throws JojoException {
        this.random = new SplittableRandom(seed);
        this.search = new Search<>(problem);
        this.solutions = solutions;
        this.kills = kills;
        this.root = new Node(null, 0);
        root.core = Core.root(search, List.of(search.root()), null);
        nodes.add(root);
        grow(root, shape, 0);
    }

    private void grow(Node at, int[] shape, int level) {
        if (level < shape.length) {
            for (int rank = 0; rank < shape[level]; rank++) {
                Node child = new Node(at, rank);
                child.up.add(new Said.Hello(rank, child.life));
                at.below.add(child);
                nodes.add(child);
                grow(child, shape, level + 1);
            }
        }
    }

    /** To the end. @return what was found */
    Best run() throws JojoException {
        while (!root.core.isOver()) {
            Check.that(++steps < STEPS_MOST, "it does not come to an end");
            Node node = nodes.get(random.nextInt(nodes.size()));
            int dice = random.nextInt(100);
            if (dice == 99 && !late.isEmpty()) {
                Map.Entry<Node, Said> each = late.poll();
                if (!each.getKey().dead && each.getKey().core != null) {
                    heard(each.getKey(), each.getValue());
                }
            } else if (dice == 0 && kills > 0 && node != root) {
                kills--;
                killed++;
                kill(node);
            } else if (dice == 1 && node.core != null) {
                node.core.tick();
                said(node);
            } else if (dice < 40 && node.core != null && node.core.works()) {
                node.core.work();
                said(node);
            } else if (dice < 70 && !node.up.isEmpty() && node.parent.core != null) {
                up(node);
            } else if (!node.down.isEmpty()) {
                down(node);
            }
        }
        return root.core.best();
    }

    private void kill(Node node) throws JojoException {
        List<Node> gone = new ArrayList<>(List.of(node));
        for (int i = 0; i < gone.size(); i++) {
            gone.addAll(gone.get(i).below);
        }
        gone.forEach(each -> each.dead = true);
        nodes.removeAll(gone);
        Node parent = node.parent;
        parent.below.remove(node);
        // Some of what it had said still arrives, some of that after the news of its end.
        int some = random.nextInt(node.up.size() + 1);
        for (int i = 0; i < some && parent.core != null; i++) {
            up(node);
        }
        if (parent.core != null && !node.up.isEmpty() && random.nextBoolean() && !(node.up.peek() instanceof Said.Hello)) {
            parent.core.lost(node.rank);
            up(node);
        } else if (parent.core != null) {
            parent.core.lost(node.rank);
        }
        if (parent.core != null) {
            said(parent);
        }
        for (Said what : node.up) {
            if (!(what instanceof Said.Hello)) {
                late.add(Map.entry(parent, what));
            }
        }
        if (random.nextInt(3) > 0) {
            Node again = new Node(parent, node.rank);
            again.up.add(new Said.Hello(again.rank, again.life));
            parent.below.add(again);
            nodes.add(again);
            grow(again, new int[] {node.below.size()}, node.below.isEmpty() ? 1 : 0);
        }
    }

    private void up(Node from) throws JojoException {
        heard(from.parent, from.up.poll());
    }

    private void heard(Node by, Said what) throws JojoException {
        Core<S> core = by.core;
        if (what instanceof Said.Hello hello) {
            core.hello(hello);
        } else if (what instanceof Talk.Report report) {
            core.report(report);
        } else if (what instanceof Talk.Found found) {
            core.found(found);
        }
        said(by);
    }

    private void down(Node to) throws JojoException {
        Said what = to.down.poll();
        if (what instanceof Talk.Welcome welcome) {
            Check.equal(to.life, welcome.life(), "the life that is welcomed");
            to.core = Core.below(search, to.rank, welcome);
        } else if (to.core == null) {
            return; // of the life before
        } else if (what instanceof Talk.Grant grant) {
            to.core.grant(grant);
        } else if (what instanceof Talk.Ask ask) {
            to.core.ask(ask);
        } else if (what instanceof Talk.Better better) {
            to.core.better(better);
        } else if (what instanceof Said.Over) {
            to.core.over();
        }
        said(to);
    }

    private void said(Node by) throws Damaged {
        for (Core.Out out : by.core.said()) {
            if (out.to() == Core.UP) {
                by.up.add(out.what());
            } else {
                for (Node child : by.below) {
                    if (child.rank == out.to()) {
                        child.down.add(out.what());
                    }
                }
            }
        }
        if (by == root) {
            nothingIsLost();
        }
    }

    /** Each solution is below something open, or not better than the best known. */
    private void nothingIsLost() {
        List<Open<S>> left = root.core.left();
        TreeMap<Position, Open<S>> open = new TreeMap<>();
        Open<S> last = null;
        for (Open<S> each : left) {
            Check.that(last == null || !last.at.holds(each.at), "open twice: " + (last == null ? "" : last.at) + " and " + each.at);
            open.put(each.at, each);
            last = each;
        }
        for (var solution : solutions.entrySet()) {
            var above = open.floorEntry(solution.getKey());
            boolean held = above != null && above.getKey().holds(solution.getKey());
            Best it = new Best(solution.getValue(), solution.getKey());
            Check.that(held || !it.surpasses(root.core.best()), "lost: the solution at " + solution.getKey());
        }
    }

    /** All solutions of a small problem, by looking at everything. */
    static <S> Map<Position, Long> solutions(Problem<S> problem) throws JojoException {
        Search<S> search = new Search<>(problem);
        Map<Position, Long> all = new HashMap<>();
        ArrayDeque<Open<S>> stack = new ArrayDeque<>(List.of(search.root()));
        while (!stack.isEmpty()) {
            Open<S> open = stack.pop();
            Best solution = search.solution(open);
            if (solution != null) {
                all.put(solution.at(), solution.cost());
            }
            search.below(open).forEach(stack::push);
        }
        return all;
    }
}
