package silf.jojo.core;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntUnaryOperator;

/**
 * From whom a node takes messages, and on how many lanes (spec/jojo J15): each lane may fill with what its sender has sent
 * without asking, and a hostile child can give itself as many names as it likes. Not in it: the lanes.
 */
final class Senders {
    /** Beyond the places of the configuration, below one child: for nodes that joined. 64 MiB, at 64 KiB each. */
    static final int MORE_MOST = 1024;
    /** Of a sibling, or a node above: all its lanes, in the epochs that may be on their way at the same time. */
    static final int ONE_MOST = 4 * Frame.LANES;

    private final Path here;
    private final IntUnaryOperator places;
    /** Lanes by the neighbour that must answer for them. */
    private final Map<Path, Integer> lanes = new ConcurrentHashMap<>();

    /** @param places how many the configuration has at and below the child of a rank */
    Senders(Path here, IntUnaryOperator places) {
        this.here = here;
        this.places = places;
    }

    /** Whether another lane may begin; then it counts until {@link #ended}. */
    boolean begin(Path from) {
        Path by = by(from);
        if (by == null) {
            return false;
        }
        int most = by.depth() > here.depth() ? Frame.LANES * places.applyAsInt(by.rank()) + MORE_MOST : ONE_MOST;
        boolean[] room = {false};
        lanes.compute(by, (path, count) -> {
            int now = count == null ? 0 : count;
            room[0] = now < most;
            return room[0] ? (Integer) (now + 1) : count;
        });
        return room[0];
    }

    void ended(Path from) {
        lanes.computeIfPresent(by(from), (path, count) -> count == 1 ? null : count - 1);
    }

    /** The child that it is at or below, itself if it is a sibling or above; null: nobody else has a way to name this node. */
    private Path by(Path from) {
        if (from.depth() > here.depth() && here.holds(from)) {
            return here.child(from.at(here.depth()));
        }
        return from.holds(here) || from.isSibling(here) ? from : null;
    }
}
