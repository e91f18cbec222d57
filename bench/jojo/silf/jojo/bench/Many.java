package silf.jojo.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import silf.jojo.Code;
import silf.jojo.config.NodeSpec;
import silf.jojo.testkit.Processes;

/** A hundred nodes on this machine, three levels deep: when they are ready, and what they take. */
final class Many {
    private static final int HEADS = 4;
    private static final int GROUPS = 4;
    private static final int LEAVES = 5;

    private Many() {}

    /** Does nothing. */
    public static final class Idle extends Code {}

    static void measure() throws Exception {
        Main.note(HEADS + " nodes, " + GROUPS + " below each, " + LEAVES + " below each of those: "
                + HEADS * (1 + GROUPS * (1 + LEAVES)) + " JVMs with no options; resident memory of each once all are ready");
        for (int i = 0; i < Main.rounds(3); i++) {
            String mark = UUID.randomUUID().toString();
            List<NodeSpec> heads = new ArrayList<>();
            for (int head = 0; head < HEADS; head++) {
                List<NodeSpec> groups = new ArrayList<>();
                for (int group = 0; group < GROUPS; group++) {
                    List<NodeSpec> leaves = new ArrayList<>();
                    for (int leaf = 0; leaf < LEAVES; leaf++) {
                        leaves.add(node("leaf" + head + "-" + group + "-" + leaf, mark));
                    }
                    groups.add(node("group" + head + "-" + group, mark, leaves.toArray(NodeSpec[]::new)));
                }
                heads.add(node("head" + head, mark, groups.toArray(NodeSpec[]::new)));
            }
            long begun = System.nanoTime();
            Trees.run(heads, below -> {
                Main.seconds("100 nodes ready", System.nanoTime() - begun);
                for (long pid : Processes.javaWith(mark)) {
                    Main.sample("memory of a node", "bytes", Processes.memory_kB(pid) * 1024.0);
                }
            });
        }
    }

    private static NodeSpec node(String name, String mark, NodeSpec... below) {
        return Trees.node(name, Idle.class, Trees.local("-Djojo.mark=" + mark), below);
    }
}
