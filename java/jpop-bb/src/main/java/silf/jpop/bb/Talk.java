package silf.jpop.bb;

import java.util.List;
import silf.jpop.NodeStat;
import silf.jpop.Said;

/** What nodes say to each other (spec/jpop B5). Open subproblems and solutions travel as {@link Coded} has them. */
interface Talk extends Said {
    /** What a child has left, all of it, as of grant {@code seen}; it replaces what was known. */
    record Report(int rank, long life, long seen, byte[] left, byte[] given, byte[] best, boolean hungry) implements Talk, Up {}

    /** A better solution, known below. */
    record Found(int rank, long life, byte[] best) implements Talk, Up {}

    /** What nodes below have done so far, for people who watch. */
    record Told(int rank, long life, List<NodeStat> stats) implements Talk, Up {}

    /** To a child: what its life is about. */
    record Welcome(long life, Problem<?> problem, byte[] best, String prefix) implements Talk {}

    record Grant(long life, long number, byte[] opens, byte[] best) implements Talk {}

    /** Give some back as soon as there is some to give. */
    record Ask(long life) implements Talk {}

    record Better(byte[] best) implements Talk {}
}
