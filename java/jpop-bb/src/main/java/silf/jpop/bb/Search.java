package silf.jpop.bb;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import silf.jpop.PersonFailed;

/**
 * A problem's methods as the rest of this module wants them: the smaller the better, positions beside states, and what a person's
 * code does wrong said with the subproblem. Not in it: which subproblem comes next.
 *
 * @param <S> a state
 */
final class Search<S> {
    final Problem<S> problem;
    /** Made once: who makes states again begins with it. */
    private S root;
    /** The way of the state that was made again last, and what was below at each level: the next one is often near. */
    private int[] lastWay = {};
    private final List<List<S>> lastBelow = new ArrayList<>();

    Search(Problem<S> problem) {
        this.problem = problem;
    }

    Open<S> root() throws PersonFailed {
        S state = rootState();
        return new Open<>(Position.ROOT, bound(Position.ROOT, state), state);
    }

    private S rootState() throws PersonFailed {
        if (root == null) {
            try {
                root = problem.root();
            } catch (RuntimeException | StackOverflowError e) {
                throw failed("root", Position.ROOT, null, e);
            }
        }
        return root;
    }

    /** What is directly below, in order, each with the larger of its bound and the one above. */
    List<Open<S>> below(Open<S> open) throws PersonFailed {
        List<S> states = branch(open.at, state(open));
        List<Open<S>> below = new ArrayList<>(states.size());
        for (S state : states) {
            Position at = open.at.below(below.size());
            below.add(new Open<>(at, Math.max(open.bound, bound(at, state)), state));
        }
        return below;
    }

    /** The solution that it is; null if it is none. */
    Best solution(Open<S> open) throws PersonFailed {
        OptionalLong value;
        try {
            value = problem.value(state(open));
        } catch (RuntimeException | StackOverflowError e) {
            throw failed("value", open.at, open.state, e);
        }
        if (value.isEmpty()) {
            return null;
        }
        long cost = cost("value", open.at, open.state, value.getAsLong());
        if (cost < open.bound) {
            throw contradicted(open.at, cost);
        }
        return new Best(cost, open.at);
    }

    /** Its state, made again from the root where it is not known. */
    S state(Open<S> open) throws PersonFailed {
        if (open.state == null) {
            open.state = again(open.at, null);
        }
        return open.state;
    }

    /** A value or bound as the problem's author sees it, of a cost; and the other way. */
    long value(long cost) {
        return problem.maximises() ? -cost : cost;
    }

    private interface Step<S> {
        void at(Position at, S state) throws PersonFailed;
    }

    private S again(Position to, Step<S> step) throws PersonFailed {
        int[] way = to.children();
        int same = 0;
        while (same < Math.min(way.length, lastWay.length) && way[same] == lastWay[same]) {
            same++;
        }
        while (lastBelow.size() > same + 1) {
            lastBelow.remove(lastBelow.size() - 1);
        }
        lastWay = way;
        S state = rootState();
        Position at = Position.ROOT;
        for (int child : way) {
            if (step != null) {
                step.at(at, state);
            }
            if (at.depth == lastBelow.size()) {
                lastBelow.add(branch(at, state));
            }
            List<S> states = lastBelow.get(at.depth);
            if (child >= states.size()) {
                throw new PersonFailed(name("branch") + " gave " + states.size() + " children of subproblem " + shown(at, state)
                        + " where it gave more than " + child + " before: it must give the same whenever it is asked");
            }
            at = at.below(child);
            state = states.get(child);
        }
        return state;
    }

    private PersonFailed contradicted(Position solution, long cost) throws PersonFailed {
        String[] wrong = new String[1];
        again(solution, (at, state) -> {
            long bound = bound(at, state);
            if (wrong[0] == null && bound > cost) {
                wrong[0] = name("bound") + " of subproblem " + shown(at, state) + " is " + value(bound);
            }
        });
        if (wrong[0] == null) {
            wrong[0] = name("bound") + " of subproblem " + solution + " or of one above it is " + (problem.maximises() ? "less" : "more");
        }
        return new PersonFailed(wrong[0] + ", but subproblem " + solution + " below it is a solution of " + value(cost)
                + ": a bound must not be surpassed by any solution below it");
    }

    private List<S> branch(Position at, S state) throws PersonFailed {
        List<S> states;
        try {
            states = problem.branch(state);
        } catch (RuntimeException | StackOverflowError e) {
            throw failed("branch", at, state, e);
        }
        if (states == null || states.stream().anyMatch(java.util.Objects::isNull)) {
            throw new PersonFailed(name("branch") + " of subproblem " + shown(at, state) + " gave null");
        }
        if (states.size() > Coded.CHILDREN_MOST) {
            throw new PersonFailed(name("branch") + " of subproblem " + shown(at, state) + " gave " + states.size()
                    + " children, more than " + Coded.CHILDREN_MOST);
        }
        if (at.depth >= Position.DEPTH_MOST && !states.isEmpty()) {
            throw new PersonFailed(name("branch") + " goes on below " + at.depth + " levels: does it come to an end?");
        }
        return states;
    }

    private long bound(Position at, S state) throws PersonFailed {
        long bound;
        try {
            bound = problem.bound(state);
        } catch (RuntimeException | StackOverflowError e) {
            throw failed("bound", at, state, e);
        }
        return cost("bound", at, state, bound);
    }

    private long cost(String method, Position at, S state, long value) throws PersonFailed {
        if (value > Problem.VALUE_MOST || value < -Problem.VALUE_MOST) {
            throw new PersonFailed(name(method) + " of subproblem " + shown(at, state) + " is " + value + ", which is further from 0 than "
                    + Problem.VALUE_MOST);
        }
        return value(value);
    }

    private PersonFailed failed(String method, Position at, S state, Throwable e) {
        return new PersonFailed(name(method) + " of subproblem " + (state == null ? at.toString() : shown(at, state)) + " threw " + e, e);
    }

    private String name(String method) {
        return problem.getClass().getName() + "." + method;
    }

    private String shown(Position at, S state) {
        return at + " (" + PersonFailed.shown(() -> problem.show(state)) + ")";
    }
}
