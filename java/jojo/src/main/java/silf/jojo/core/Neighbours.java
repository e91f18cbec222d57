package silf.jojo.core;

import java.util.Arrays;
import java.util.List;
import silf.jojo.config.NodeSpec;

/** The places around a node, as it knows them: itself, its parent, the client, its siblings; and the names of all below. */
final class Neighbours {
    private final LocalNode here;
    final NodeHandle self;
    /** Null at the client. */
    final NodeHandle parent;
    /** From wherever this is. */
    final NodeHandle client;
    /** By rank, this node among them. Another array when one is new. */
    private volatile NodeHandle[] siblings;

    Neighbours(LocalNode here) {
        this.here = here;
        Birth birth = here.birth;
        self = new NodeHandle(here, here.path, birth.spec().name(), birth.epoch(), true);
        parent = birth.parent() == null
                ? null
                : new NodeHandle(here, here.path.parent(), birth.parent(), birth.parentEpoch(), true);
        client = parent == null ? self : new NodeHandle(here, Path.ROOT, "client", 0, true);
        siblings = new NodeHandle[] {};
        birth.siblings().forEach(this::update);
        if (siblings.length == 0) {
            siblings = new NodeHandle[] {self};
        }
    }

    NodeHandle[] siblings() {
        return siblings.clone();
    }

    /** The sibling at a place; null if there is none, or it is this node itself. */
    NodeHandle sibling(Path at) {
        NodeHandle[] now = siblings;
        return at.isSibling(here.path) && at.rank() < now.length ? now[at.rank()] : null;
    }

    /** What is known of a sibling has changed. Null when it is this node itself, or no place. */
    synchronized NodeHandle update(Birth.Sibling one) {
        if (one.rank() < 0 || one.rank() > Path.RANK_MOST || parent == null) {
            return null;
        }
        NodeHandle[] now = Arrays.copyOf(siblings, Math.max(siblings.length, one.rank() + 1));
        NodeHandle handle = one.rank() == here.path.rank() ? self : now[one.rank()];
        if (handle == null) {
            handle = new NodeHandle(here, parent.path.child(one.rank()), one.name(), one.epoch(), one.alive());
        } else if (handle != self && one.alive()) {
            if (handle.epoch() != one.epoch()) {
                here.siblings().lose(handle.path);
            }
            handle.up(one.name(), one.epoch());
        }
        now[one.rank()] = handle;
        siblings = now;
        return handle == self ? null : handle;
    }

    /** What a neighbour is called; of another place, its path. */
    String nameOf(Path from) {
        if (from.equals(here.path)) {
            return self.name();
        }
        if (parent != null && from.equals(parent.path)) {
            return parent.name();
        }
        NodeHandle sibling = sibling(from);
        if (sibling != null) {
            return sibling.name();
        }
        boolean below = here.path.holds(from) && from.depth() == here.path.depth() + 1;
        Child child = below ? here.family().child(from.rank()) : null;
        return child == null ? from.toString() : child.handle.name();
    }

    /** What was asked for at a rank below {@code parent}, whose children are at {@code level}; null if nothing was. */
    NodeSpec place(NodeSpec parent, int level, int rank) {
        if (level == here.path.depth()) {
            Child child = here.family().child(rank); // may have joined
            return child == null ? null : child.place;
        }
        List<NodeSpec> places = parent.children().stream().filter(s -> !s.spare()).toList();
        return rank < places.size() ? places.get(rank) : null;
    }

    /** The name of any place below. */
    String deepName(Path below) {
        NodeSpec spec = here.birth.spec();
        for (int level = here.path.depth(); spec != null && level < below.depth(); level++) {
            spec = place(spec, level, below.at(level));
        }
        return spec == null ? nameOf(below) : spec.name();
    }
}
