package silf.jojo.core;

import java.util.ArrayList;
import java.util.List;

/**
 * How far a node has come with its program, and what follows from that (spec/jojo J18). Values in, values out: its node guards
 * it, and does what it says. Not in it: locks, frames, who is below.
 */
final class Course {
    /** What handlers that have begun may take when the program ends. */
    static final int HANDLERS_MOST_ms = 10_000;
    /** The same when it ends because something failed. */
    static final int HANDLERS_MOST_FAILED_ms = 1_000;

    /** What the node makes known now. */
    enum Step {
        READY,
        DONE,
        NOT_DONE
    }

    private boolean initialised;
    private boolean saidReady;
    private boolean going;
    private boolean started;
    private boolean saidDone;
    private boolean ending;
    private boolean over;
    private int grace_ms = HANDLERS_MOST_ms;
    private String lost;

    /** Its {@code init} has returned. */
    void initialised() {
        initialised = true;
    }

    /** Its {@code start} may run. */
    void go() {
        going = true;
    }

    boolean isGoing() {
        return going;
    }

    /** Its {@code start} has returned. */
    void started() {
        started = true;
    }

    /** What is to be made known, each step once until it is taken back. */
    List<Step> next(boolean allBelowReady, boolean allBelowDone) {
        List<Step> steps = new ArrayList<>(2);
        if (!runs()) {
            return steps;
        }
        if (initialised && !saidReady && allBelowReady) {
            saidReady = true;
            steps.add(Step.READY);
        }
        boolean done = started && allBelowDone;
        if (saidReady && done != saidDone) {
            saidDone = done;
            steps.add(done ? Step.DONE : Step.NOT_DONE);
        }
        return steps;
    }

    /** Whether DONE is the last that was made known. */
    boolean saidDone() {
        return saidDone;
    }

    /** The program ends. False if it was ending already. */
    boolean end(int handlersMost_ms) {
        if (ending) {
            return false;
        }
        ending = true;
        grace_ms = handlersMost_ms;
        return true;
    }

    /** What handlers that have begun may still take. */
    int grace_ms() {
        return grace_ms;
    }

    /** The way up is no more. False if that says nothing new. */
    boolean lose(String why) {
        if (over || lost != null) {
            return false;
        }
        lost = why;
        return true;
    }

    /** Why the way up is no more; null if it is there, or was to the end. */
    String lost() {
        return lost;
    }

    /** Neither ending nor lost. */
    boolean runs() {
        return !ending && lost == null;
    }

    /** The node's part has ended. */
    void over() {
        over = true;
    }

    boolean isOver() {
        return over;
    }
}
