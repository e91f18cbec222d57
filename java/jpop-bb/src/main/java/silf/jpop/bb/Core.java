package silf.jpop.bb;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.TreeMap;
import silf.jpop.Damaged;
import silf.jpop.PersonFailed;
import silf.jpop.Said;

/**
 * One node of a branch and bound, as values: what it has to look at, who below it has what, and what it says to whom (spec/jpop
 * B5 to B9). No thread, clock or network: whoever drives it hands in what happens and carries out {@link #said}.
 *
 * <p>What must hold: whatever is neither in {@link #left} of a node nor ruled out by its best is with nobody below it either; so a
 * parent may forget it. Every open subproblem is at each level with exactly one.
 *
 * @param <S> a state
 */
final class Core<S> {
    /** In {@link Out}: not to a child. */
    static final int UP = -1;
    /** Given away at once. A node that gets less asks sooner. */
    private static final int GIVEN_MOST = 256;

    /** What is said to a child by rank, or up. */
    record Out(int to, Said what) {}

    private static final class Child<S> {
        final long life;
        boolean hungry = true;
        boolean asked;
        long granted;
        /** As of its last report, without {@link #unseen}. */
        List<Open<S>> left = List.of();
        final Deque<Given<S>> unseen = new ArrayDeque<>();

        Child(long life) {
            this.life = life;
        }

        boolean isEmpty() {
            return left.isEmpty() && unseen.isEmpty();
        }
    }

    private record Given<S>(long number, List<Open<S>> opens) {}

    private final Search<S> search;
    private final boolean isRoot;
    private final int rank;
    private final long life;
    private final String prefix;
    private final List<Out> said = new ArrayList<>();
    private final TreeMap<Integer, Child<S>> children = new TreeMap<>();
    /** In order of a search in depth, the next one last. */
    private final ArrayList<Open<S>> pool = new ArrayList<>();
    private Best best;
    private long seen;
    private boolean askedByParent;
    private boolean saidHungry;
    /** Whether the parent has heard that nothing is left here and below. */
    private boolean saidEmpty;
    private long expanded;
    private long faults;
    private boolean over;

    /** The root of the tree, which begins with what is left of the problem. */
    static <S> Core<S> root(Search<S> search, List<Open<S>> left, Best best) {
        Core<S> core = new Core<>(search, true, 0, 0, "", best);
        core.merge(left);
        return core;
    }

    static <S> Core<S> below(Search<S> search, int rank, Talk.Welcome welcome) throws Damaged {
        return new Core<>(search, false, rank, welcome.life(), welcome.prefix(), Coded.best(welcome.best()));
    }

    private Core(Search<S> search, boolean isRoot, int rank, long life, String prefix, Best best) {
        this.search = search;
        this.isRoot = isRoot;
        this.rank = rank;
        this.life = life;
        this.prefix = prefix;
        this.best = best;
        this.saidHungry = !isRoot; // Hello said so
    }

    /** What is to be said since this was asked last, in order. */
    List<Out> said() {
        settle();
        List<Out> now = List.copyOf(said);
        said.clear();
        return now;
    }

    long life() {
        return life;
    }

    /** Whether something waits to be said: to ask {@link #said} is of use before more work. */
    boolean isAwaited() {
        return askedByParent || !said.isEmpty();
    }

    /** Whether the parent knows, or is about to hear, that nothing is left here and below. */
    boolean saidEmpty() {
        return saidEmpty;
    }

    Best best() {
        return best;
    }

    boolean isOver() {
        return over;
    }

    long expanded() {
        return expanded;
    }

    long faults() {
        return faults;
    }

    /** Whether it has children that live. Who has none works itself. */
    boolean hasChildren() {
        return !children.isEmpty();
    }

    /** All that is open here and below, in order of position; what is ruled out is left out. */
    List<Open<S>> left() {
        List<Open<S>> all = new ArrayList<>(pool);
        for (Child<S> child : children.values()) {
            addTo(all, child);
        }
        if (best != null) {
            all.removeIf(best::rulesOut);
        }
        all.sort(Comparator.comparing(open -> open.at));
        return all;
    }

    // -- what happens ------------------------------------------------------------------------------------------------

    /** A child is there, the first or another one at its place. */
    void hello(Said.Hello hello) {
        forget(hello.rank());
        if (over) {
            said.add(new Out(hello.rank(), new Said.Over()));
            return;
        }
        children.put(hello.rank(), new Child<>(hello.life()));
        String below = prefix.isEmpty() ? "" + hello.rank() : prefix + "." + hello.rank();
        said.add(new Out(hello.rank(), new Talk.Welcome(hello.life(), search.problem, Coded.best(best), below)));
    }

    /** A child, and all below it, is gone: what it had is here again. */
    void lost(int rank) {
        if (forget(rank)) {
            faults++;
        }
    }

    private boolean forget(int rank) {
        Child<S> child = children.remove(rank);
        if (child == null) {
            return false;
        }
        List<Open<S>> back = new ArrayList<>();
        addTo(back, child);
        merge(back);
        return true;
    }

    private static <S> void addTo(List<Open<S>> all, Child<S> child) {
        all.addAll(child.left);
        child.unseen.forEach(given -> all.addAll(given.opens));
    }

    /** Whether it was of a child that is no more; then nothing of it counts. */
    boolean isLate(Said.Up up) {
        Child<S> child = children.get(up.rank());
        return child == null || child.life != up.life();
    }

    void report(Talk.Report report) throws Damaged {
        if (isLate(report)) {
            return;
        }
        Child<S> child = children.get(report.rank());
        List<Open<S>> left = Coded.opens(report.left());
        List<Open<S>> given = Coded.opens(report.given());
        better(Coded.best(report.best()), report.rank());
        child.left = left;
        while (!child.unseen.isEmpty() && child.unseen.peek().number <= report.seen()) {
            child.unseen.poll();
        }
        if (report.hungry() || !given.isEmpty()) {
            child.hungry = report.hungry();
            child.asked = false;
        }
        merge(given);
    }

    void found(Talk.Found found) throws Damaged {
        if (!isLate(found)) {
            better(Coded.best(found.best()), found.rank());
        }
    }

    void better(Talk.Better better) throws Damaged {
        better(Coded.best(better.best()), UP);
    }

    void grant(Talk.Grant grant) throws Damaged {
        if (grant.life() != life) {
            return;
        }
        better(Coded.best(grant.best()), UP);
        seen = grant.number();
        saidHungry = false;
        saidEmpty = false;
        askedByParent = false;
        merge(Coded.opens(grant.opens()));
    }

    void ask(Talk.Ask ask) {
        if (ask.life() == life) {
            askedByParent = true;
        }
    }

    /** The parent has said that all is done. */
    void over() {
        over = true;
        for (int rank : children.keySet()) {
            said.add(new Out(rank, new Said.Over()));
        }
    }

    /** From time to time: tells the parent what is left, so that less is done again when this node is lost. */
    void tick() {
        if (!isRoot && !over && !(saidHungry && pool.isEmpty() && children.isEmpty())) {
            report(List.of(), false);
        }
    }

    /** Whether {@link #work} has something to do. */
    boolean works() {
        return !over && children.isEmpty() && !pool.isEmpty();
    }

    /** Looks at one subproblem: the next in depth. */
    void work() throws PersonFailed {
        while (!pool.isEmpty()) {
            Open<S> open = pool.remove(pool.size() - 1);
            if (best != null && best.rulesOut(open)) {
                continue;
            }
            expand(open);
            return;
        }
    }

    private void expand(Open<S> open) throws PersonFailed {
        expanded++;
        if (open.at.depth == 0) {
            offer(search.solution(open));
        }
        List<Open<S>> below = search.below(open);
        for (Open<S> each : below) {
            offer(search.solution(each));
        }
        for (int i = below.size() - 1; i >= 0; i--) {
            if (best == null || !best.rulesOut(below.get(i))) {
                pool.add(below.get(i));
            }
        }
    }

    private void offer(Best solution) {
        if (solution != null) {
            better(solution, -2); // neither from a child nor from above
        }
    }

    // -- what follows ------------------------------------------------------------------------------------------------

    private void better(Best other, int from) {
        if (other == null || !other.surpasses(best)) {
            return;
        }
        best = other;
        byte[] coded = Coded.best(best);
        for (int child : children.keySet()) {
            if (child != from) {
                said.add(new Out(child, new Talk.Better(coded)));
            }
        }
        if (from != UP && !isRoot) {
            said.add(new Out(UP, new Talk.Found(rank, life, coded)));
        }
    }

    private void merge(List<Open<S>> more) {
        if (more.isEmpty()) {
            return;
        }
        pool.addAll(more);
        pool.sort((a, b) -> b.at.compareTo(a.at));
    }

    private void settle() {
        if (over) {
            return;
        }
        if (best != null && !children.isEmpty()) {
            pool.removeIf(best::rulesOut);
        }
        int hungry = 0;
        for (Child<S> child : children.values()) {
            hungry += child.hungry ? 1 : 0;
        }
        int each = ceil(pool.size(), children.size()); // the others will want some as well
        // Those that have nothing are first; the others have something below them yet.
        for (boolean idle : new boolean[] {true, false}) {
            for (var entry : children.entrySet()) {
                Child<S> child = entry.getValue();
                if (child.hungry && child.isEmpty() == idle && !pool.isEmpty()) {
                    grant(entry.getKey(), child, taken(each, 1));
                    hungry--;
                }
            }
        }
        if (askedByParent && pool.size() >= (children.isEmpty() ? 2 : 1)) {
            askedByParent = false;
            saidHungry = false; // who gives will say so again
            report(taken(ceil(pool.size(), 2), pool.size() == 1 ? 1 : 2), false);
        }
        if (hungry > 0 || askedByParent) {
            askBelow();
        }
        // Who has children and nothing for one of them asks below and above at once: what is nearer comes first.
        boolean low = pool.isEmpty() && (children.isEmpty() || hungry > 0);
        if (!isRoot && low && !saidHungry) {
            saidHungry = true;
            askedByParent = false;
            report(List.of(), true);
        } else if (saidHungry && !saidEmpty && hungry == children.size() && pool.isEmpty()) {
            report(List.of(), false);
        }
        if (isRoot && pool.isEmpty() && hungry == children.size()) {
            // Nobody has anything: every subproblem was looked at or ruled out.
            if (left().isEmpty()) {
                over();
            }
        }
    }

    private static int ceil(int a, int b) {
        return (a + b - 1) / Math.max(1, b);
    }

    private void grant(int to, Child<S> child, List<Open<S>> opens) {
        child.hungry = false;
        child.asked = false; // who is given something gives none of it back unasked
        child.granted++;
        child.unseen.add(new Given<>(child.granted, opens));
        said.add(new Out(to, new Talk.Grant(child.life, child.granted, Coded.opens(opens), Coded.best(best))));
    }

    /**
     * Takes so many out of the pool, in order of position: those that a search by one node would come to first. Of what such a search
     * would do last, much is ruled out by then; and what lies near is large at one node and small at the next, as they are themselves.
     *
     * @param step 2 for every second one, so that what is taken and what stays are alike
     */
    private List<Open<S>> taken(int wanted, int step) {
        List<Open<S>> given = new ArrayList<>();
        List<Open<S>> stays = new ArrayList<>(pool.size());
        for (int i = pool.size() - 1; i >= 0; i--) {
            boolean goes = (pool.size() - i) % step == 0 && given.size() < Math.min(wanted, GIVEN_MOST);
            (goes ? given : stays).add(pool.get(i));
        }
        pool.clear();
        for (int i = stays.size() - 1; i >= 0; i--) {
            pool.add(stays.get(i));
        }
        return given;
    }

    /**
     * Asks all who have something. What is known of them is old: one alone might have nothing to give for a long time, while others
     * have plenty; and what comes more than was waited for is had by the next ones at once.
     */
    private void askBelow() {
        for (var entry : children.entrySet()) {
            Child<S> child = entry.getValue();
            // One with children may have said that it is hungry, and have something all the same.
            if (!child.asked && !child.isEmpty()) {
                child.asked = true;
                said.add(new Out(entry.getKey(), new Talk.Ask(child.life)));
            }
        }
    }

    private void report(List<Open<S>> given, boolean hungry) {
        List<Open<S>> left = left();
        saidEmpty = left.isEmpty();
        said.add(new Out(UP, new Talk.Report(
                rank, life, seen, Coded.opens(left), Coded.opens(given), Coded.best(best), hungry)));
    }
}
