package silf.jojo.core;

import java.util.ArrayDeque;
import silf.jojo.config.NodeSpec;

/** A place below this node, whoever holds it now. Guarded by the {@link Family}. */
final class Child {
    enum State {
        /** Being launched, or launched and not READY. */
        COMING("starting"),
        READY("up"),
        /** Known to be lost, and not yet why. */
        LOST("gone"),
        /** To be started again in a while. */
        AGAIN("again"),
        /** Given up: the others go on, or the program is ending. */
        GONE("gone");

        /** For who watches (spec/jojo J22). */
        final String shown;

        State(String shown) {
            this.shown = shown;
        }
    }

    final NodeSpec place;
    final Path path;
    /** At and below it, as far as the configuration knows. */
    final int places;
    final NodeHandle handle;
    /** What runs there: the place's own, or a spare's. */
    NodeSpec spec;
    int epoch;
    State state = State.COMING;
    Link link;
    /** The link that is lost, until it is known why and what follows. */
    Link lost;
    /** Whether it was up when that was lost. */
    boolean wasUp;
    ClassServer classes;
    boolean greeted;
    boolean done;
    /** Whether GO was sent to this incarnation. */
    boolean going;
    /** When it was started again, by nanoTime. */
    final ArrayDeque<Long> restarts = new ArrayDeque<>();

    Child(NodeSpec place, NodeHandle handle) {
        this.place = place;
        this.spec = place;
        this.path = handle.path;
        this.places = place.size();
        this.handle = handle;
        this.epoch = handle.epoch();
    }

    /** The spec to launch it by: the spare's host and start, the place's name, code and all below it. */
    NodeSpec launched() {
        return spec == place
                ? place
                : new NodeSpec(
                        place.name(), spec.host(), place.code(), spec.invocation(), place.faults(), false,
                        place.files(), place.children());
    }

    @Override
    public String toString() {
        return place.name();
    }
}
