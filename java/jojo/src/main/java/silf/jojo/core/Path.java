package silf.jojo.core;

import java.util.Arrays;

/** A place in the tree: the ranks from the client down to it (spec/jojo J1). The client's is empty. */
public final class Path {
    /** Levels below the client. A person's tree has three or four; the bound keeps headers small. */
    public static final int DEPTH_MOST = 16;
    /** Ranks have two bytes, and one value is kept free. */
    public static final int RANK_MOST = 65534;

    public static final Path ROOT = new Path(new int[0]);

    private final int[] ranks;
    private final int hash;

    private Path(int[] ranks) {
        this.ranks = ranks;
        this.hash = Arrays.hashCode(ranks);
    }

    public static Path of(int... ranks) {
        if (ranks.length > DEPTH_MOST) {
            throw new IllegalArgumentException("deeper than " + DEPTH_MOST + " levels: " + Arrays.toString(ranks));
        }
        for (int rank : ranks) {
            if (rank < 0 || rank > RANK_MOST) {
                throw new IllegalArgumentException("not a rank: " + rank);
            }
        }
        return ranks.length == 0 ? ROOT : new Path(ranks.clone());
    }

    public int depth() {
        return ranks.length;
    }

    public Path child(int rank) {
        int[] longer = Arrays.copyOf(ranks, ranks.length + 1);
        longer[ranks.length] = rank;
        return of(longer);
    }

    /** Its parent's. The client has none. */
    public Path parent() {
        if (ranks.length == 0) {
            throw new IllegalStateException("the client has no parent");
        }
        return ranks.length == 1 ? ROOT : new Path(Arrays.copyOf(ranks, ranks.length - 1));
    }

    /** Its rank among its siblings; 0 for the client. */
    public int rank() {
        return ranks.length == 0 ? 0 : ranks[ranks.length - 1];
    }

    /** The rank at a level: 0 is a child of the client. */
    public int at(int level) {
        return ranks[level];
    }

    /** Whether this is {@code other} or above it. */
    public boolean holds(Path other) {
        return other.ranks.length >= ranks.length
                && Arrays.equals(ranks, 0, ranks.length, other.ranks, 0, ranks.length);
    }

    public boolean isSibling(Path other) {
        return ranks.length > 0 && other.ranks.length == ranks.length && parent().holds(other) && !equals(other);
    }

    /** Bytes that {@link #put} writes. */
    int size() {
        return 1 + 2 * ranks.length;
    }

    int put(byte[] to, int at) {
        to[at++] = (byte) ranks.length;
        for (int rank : ranks) {
            to[at++] = (byte) rank;
            to[at++] = (byte) (rank >> 8);
        }
        return at;
    }

    /** Reads one of a payload that ends at {@code end}. */
    static Path get(byte[] from, int at, int end) throws Violation {
        if (at >= end) {
            throw new Violation("a path is missing");
        }
        int depth = from[at++] & 0xff;
        if (depth > DEPTH_MOST) {
            throw new Violation("a path of depth " + depth);
        }
        if (end - at < 2 * depth) {
            throw new Violation("a path is cut off");
        }
        if (depth == 0) {
            return ROOT;
        }
        int[] ranks = new int[depth];
        for (int i = 0; i < depth; i++, at += 2) {
            ranks[i] = (from[at] & 0xff) | (from[at + 1] & 0xff) << 8;
            if (ranks[i] > RANK_MOST) {
                throw new Violation("rank 65535 in a path");
            }
        }
        return new Path(ranks);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Path path && hash == path.hash && Arrays.equals(ranks, path.ranks);
    }

    @Override
    public int hashCode() {
        return hash;
    }

    /** As "0.3.1"; the client is "client". */
    @Override
    public String toString() {
        if (ranks.length == 0) {
            return "client";
        }
        StringBuilder text = new StringBuilder();
        for (int rank : ranks) {
            text.append(text.isEmpty() ? "" : ".").append(rank);
        }
        return text.toString();
    }

    /** The reverse of {@link #toString}. */
    public static Path parse(String text) {
        if (text.equals("client")) {
            return ROOT;
        }
        String[] parts = text.split("\\.", -1);
        int[] ranks = new int[parts.length];
        for (int i = 0; i < ranks.length; i++) {
            ranks[i] = Integer.parseInt(parts[i]);
        }
        return of(ranks);
    }
}
