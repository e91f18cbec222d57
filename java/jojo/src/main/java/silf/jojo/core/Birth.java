package silf.jojo.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.TreeValue.Fields;

/**
 * What a node is told about itself before it begins (the blob {@code jojo:start}, spec/jojo J7), and the other things that
 * the tree says about itself (J19).
 *
 * @param path as text
 * @param seed random, and another for each start: a JVM that is just starting has no time for a generator of its own
 * @param spec the node and all below it
 * @param parent its parent's name, and null for the client
 * @param siblings all of them, itself included, by rank
 */
record Birth(
        String path,
        int epoch,
        long seed,
        NodeSpec spec,
        String parent,
        int parentEpoch,
        List<Sibling> siblings,
        Map<String, String> properties) {
    static final String BLOB = "jojo:start";

    byte[] bytes() {
        return TreeValue.bytes(TreeValue.list(
                path, epoch, seed, TreeValue.of(spec), parent, parentEpoch, values(siblings), new LinkedHashMap<>(properties)));
    }

    static Birth read(byte[] bytes) throws Violation {
        Fields in = TreeValue.read(bytes, 0);
        Birth birth = new Birth(
                in.text(), in.small(), in.number(), TreeValue.spec(in.list()), in.textOrNull(), in.small(),
                siblings(in.list()), in.map());
        in.end();
        return birth;
    }

    /** A place beside this one, and in FAMILY what it is now. */
    record Sibling(int rank, String name, int epoch, boolean alive) {}

    private static List<Object> values(List<Sibling> siblings) {
        List<Object> list = new ArrayList<>();
        for (Sibling one : siblings) {
            list.add(TreeValue.list(one.rank, one.name, one.epoch, one.alive));
        }
        return list;
    }

    private static List<Sibling> siblings(Fields all) throws Violation {
        List<Sibling> siblings = new ArrayList<>();
        while (all.more()) {
            Fields in = all.list();
            siblings.add(new Sibling(in.small(), in.text(), in.small(), in.flag()));
            in.end();
        }
        return siblings;
    }

    /** FAMILY. */
    static byte[] familyFrame(List<Sibling> siblings) {
        return Frame.of(Frame.FAMILY, TreeValue.bytes(values(siblings)));
    }

    static List<Sibling> readFamily(byte[] frame) throws Violation {
        return siblings(TreeValue.read(frame, Frame.HEADER));
    }

    /** A subtree that is no more (LOST). */
    record Lost(String path, int epoch, String name, String why) {
        byte[] frame() {
            return Frame.of(Frame.LOST, TreeValue.bytes(TreeValue.list(path, epoch, name, why)));
        }

        static Lost read(byte[] frame) throws Violation {
            Fields in = TreeValue.read(frame, Frame.HEADER);
            Lost lost = new Lost(in.text(), in.small(), in.text(), in.text());
            in.end();
            return lost;
        }
    }

    /** What ends the program (REPORT): an exception, or a status to exit with, and then no text. */
    record Report(String node, String text, String trace, int status) {
        byte[] frame() {
            return Frame.of(Frame.REPORT, TreeValue.bytes(TreeValue.list(node, text, trace, status)));
        }

        static Report read(byte[] frame) throws Violation {
            Fields in = TreeValue.read(frame, Frame.HEADER);
            Report report = new Report(in.text(), in.textOrNull(), in.text(), in.small());
            in.end();
            return report;
        }
    }
}
