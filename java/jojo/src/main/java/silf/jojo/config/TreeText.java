package silf.jojo.config;

import java.util.List;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.config.NodeSpec.FileRoot;

/** A tree as lines for people: a node a line, indented by its level. Pure. */
public final class TreeText {
    private TreeText() {}

    /** Name, host where it is another word, class, protocol and command, and what is unusual about it. */
    public static String line(NodeSpec node, int level) {
        StringBuilder line = new StringBuilder("  ".repeat(level)).append(node.name());
        if (level > 0 && !node.host().equals(node.name())) {
            line.append(" on ").append(node.host());
        }
        line.append("  ").append(node.code());
        if (level > 0) {
            line.append("  ").append(node.invocation().protocol());
            List<String> command = node.invocation().command();
            if (!command.isEmpty() && !command.equals(List.of(node.invocation().protocol()))) {
                line.append(" (").append(String.join(" ", command)).append(")");
            }
            if (!node.invocation().javaPath().equals("java")) {
                line.append("  ").append(node.invocation().javaPath());
            }
            if (!node.invocation().javaOptions().isEmpty()) {
                line.append("  ").append(String.join(" ", node.invocation().javaOptions()));
            }
            FaultPolicy faults = node.faults();
            if (faults.kind() != FaultPolicy.Kind.FAIL) {
                line.append("  ").append(faults.kind().name().toLowerCase().replace('_', '-'));
            }
            if (faults.kind() == FaultPolicy.Kind.RESTART) {
                line.append(" ").append(faults.restartsMost()).append(" in ").append(faults.within_ms()).append(" ms");
            }
            if (node.spare()) {
                line.append("  spare");
            }
        }
        for (FileRoot root : node.files()) {
            line.append("  ").append(root.name()).append(root.write() ? "=rw:" : "=r:").append(root.path());
        }
        return line.toString();
    }

    /** The whole tree, in rank order. */
    public static String of(NodeSpec root) {
        StringBuilder text = new StringBuilder();
        add(text, root, 0);
        return text.toString();
    }

    private static void add(StringBuilder text, NodeSpec node, int level) {
        text.append(line(node, level)).append('\n');
        for (NodeSpec child : node.children()) {
            add(text, child, level + 1);
        }
    }
}
