package silf.jojo.core;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The last epoch at each place that is no more. Of places that a neighbour can only tell of, the newest so many: who forgets one
 * hears of it from the node between, which answers NOWAY (spec/jojo J16). Not in it: who is told.
 */
final class Gone {
    /** More than a tree loses at a time; a hostile node can tell of any number. */
    static final int FAR_MOST = 4096;

    private final Path here;
    private final Map<Path, Integer> epochs = new ConcurrentHashMap<>();
    /** Guarded by itself. */
    private final ArrayDeque<Path> far = new ArrayDeque<>();

    Gone(Path here) {
        this.here = here;
    }

    void add(Path path, int epoch) {
        boolean near = path.holds(here) || path.isSibling(here) || here.holds(path) && path.depth() == here.depth() + 1;
        if (near) {
            epochs.put(path, epoch);
            return;
        }
        synchronized (far) {
            if (epochs.put(path, epoch) == null) {
                far.add(path);
                if (far.size() > FAR_MOST) {
                    epochs.remove(far.poll());
                }
            }
        }
    }

    boolean is(Path path, int epoch) {
        Integer last = epochs.get(path);
        return last != null && last == epoch;
    }

    int size() {
        return epochs.size();
    }
}
