package silf.jpop.ga;

import java.util.List;
import java.util.Map;
import silf.jpop.NodeStat;
import silf.jpop.Said;

/** What nodes say to each other (spec/jpop G2). Individuals travel as {@link Island} writes them. */
interface Talk extends Said {
    /** Individuals that look for another island. {@code mark} comes back in {@link Landed}. */
    record Leave(int rank, long life, long mark, byte[] individuals) implements Talk, Up {}

    /** States of islands, by place, as of now. */
    record Keep(int rank, long life, Map<String, byte[]> states) implements Talk, Up {}

    /** How far those below are. {@code best} is coded, or empty; costs are of all their individuals. */
    record Told(int rank, long life, byte[] best, double mean, double deviation, long count, boolean done, List<NodeStat> stats)
            implements Talk, Up {}

    record Welcome(long life, Evolution<?> how, String place, Map<String, byte[]> states) implements Talk {}

    /** What a child sent has been passed on. */
    record Landed(long life, long mark) implements Talk {}

    record Come(byte[] individuals) implements Talk {}
}
