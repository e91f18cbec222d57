package silf.jpop.bb;

/**
 * Where a subproblem is: which child was taken at each level, from the root (spec/jpop B1). The order is that of a search in
 * depth: a subproblem stands before all below it, and those before its next sibling. Not in it: states.
 */
final class Position implements Comparable<Position> {
    /** A search in depth keeps this many levels; deeper ones are a branching without end. */
    static final int DEPTH_MOST = 10_000;
    static final Position ROOT = new Position(null, 0);

    final Position parent;
    final int child;
    final int depth;

    private Position(Position parent, int child) {
        this.parent = parent;
        this.child = child;
        this.depth = parent == null ? 0 : parent.depth + 1;
    }

    Position below(int child) {
        return new Position(this, child);
    }

    static Position of(int[] children) {
        Position at = ROOT;
        for (int child : children) {
            at = at.below(child);
        }
        return at;
    }

    /** From the root down. */
    int[] children() {
        int[] all = new int[depth];
        for (Position at = this; at.parent != null; at = at.parent) {
            all[at.depth - 1] = at.child;
        }
        return all;
    }

    private Position up(int depth) {
        Position at = this;
        while (at.depth > depth) {
            at = at.parent;
        }
        return at;
    }

    /** Whether the other is this one, or below it. */
    boolean holds(Position other) {
        return other.depth >= depth && other.up(depth).equals(this);
    }

    @Override
    public int compareTo(Position other) {
        int common = Math.min(depth, other.depth);
        Position a = up(common);
        Position b = other.up(common);
        int order = Integer.compare(depth, other.depth);
        // Positions that were made here share their upper parts, so this ends early.
        while (a != b) {
            if (a.child != b.child) {
                order = Integer.compare(a.child, b.child);
            }
            a = a.parent;
            b = b.parent;
        }
        return order;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Position it && it.depth == depth && compareTo(it) == 0;
    }

    @Override
    public int hashCode() {
        int hash = 1;
        for (Position at = this; at.parent != null; at = at.parent) {
            hash = 31 * hash + at.child;
        }
        return hash;
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("[");
        for (int child : children()) {
            text.append(text.length() > 1 ? "." : "").append(child);
        }
        return text.append(']').toString();
    }
}
