package silf.jojo.config;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The TOML form of a configuration: {@code [root]}, then {@code [[node]]} tables, each beneath the node that its
 * {@code under} names, or beneath the root (spec/jojo, configuration). Not here: the grammar (Toml).
 */
final class TomlReader {
    private static final Set<String> OF_NODE = new HashSet<>(Settings.INVOCATION);
    private static final Set<String> OF_FILES = new HashSet<>(Settings.FILES);

    static {
        OF_NODE.addAll(Set.of("host", "name", "under", "spare", "code", "fault", "restarts", "withinMs", "backOffMs"));
        OF_FILES.add("under");
    }

    private TomlReader() {}

    static Draft read(String file, String text) throws ConfigException {
        Draft root = null;
        Map<String, Draft> named = new LinkedHashMap<>();
        List<Draft> nodes = new ArrayList<>();
        List<Draft> files = new ArrayList<>();
        for (Toml.Table table : Toml.parse(file, text)) {
            switch ((table.many() ? "many " : "one ") + table.name()) {
                case "one root" -> {
                    root = draft(table, "the root", OF_NODE);
                    if (root.settings.containsKey("under")) {
                        throw new ConfigException(root.placeOf("under"), "the root is under nothing");
                    }
                    root.settings.putIfAbsent("host", new Draft.Value(root.place, "root"));
                }
                case "many node" -> {
                    Draft node = draft(table, "a node", OF_NODE);
                    nodes.add(node);
                    remember(named, node);
                }
                case "many files" -> files.add(draft(table, "a directory", OF_FILES));
                default -> throw new ConfigException(table.place(),
                        "the table \"" + table.name() + "\" is unknown; there are [root], [[node]] and [[files]]");
            }
        }
        if (root == null) {
            throw new ConfigException(new Place(file, 1, 1), "there is no [root]");
        }
        for (Draft node : nodes) {
            parent(root, named, node).children.add(node);
        }
        for (Draft one : files) {
            parent(root, named, one).files.add(one);
        }
        refuseCycles(root, nodes);
        return root;
    }

    private static Draft draft(Toml.Table table, String what, Set<String> known) throws ConfigException {
        Draft draft = new Draft(table.place());
        for (Toml.Entry entry : table.entries()) {
            if (!known.contains(entry.key())) {
                throw new ConfigException(entry.place(), "\"" + entry.key() + "\" is unknown; " + what + " has "
                        + String.join(", ", known.stream().sorted().toList()));
            }
            draft.set(entry.valuePlace(), entry.key(), entry.value());
        }
        return draft;
    }

    /** What {@code under} names, and forgets it. */
    private static Draft parent(Draft root, Map<String, Draft> named, Draft child) throws ConfigException {
        Draft.Value under = child.settings.remove("under");
        Draft parent = under == null ? root : named.get(under.text());
        if (parent == null) {
            throw new ConfigException(under.place(), named.containsKey(under.text())
                    ? "several nodes are called \"" + under.text() + "\"; give them a name = \"...\" each"
                    : "no node is called \"" + under.text() + "\"; known: " + String.join(", ", named.keySet()));
        }
        return parent;
    }

    /** By its name, else its host; ranges as they are written. A null stands for several. */
    private static void remember(Map<String, Draft> named, Draft node) {
        String name = node.text("name") == null ? node.text("host") : node.text("name");
        if (name != null && !name.equals(Topology.DEFAULT)) {
            named.put(name, named.containsKey(name) ? null : node);
        }
    }

    /** What the root does not reach is under itself. */
    private static void refuseCycles(Draft root, List<Draft> nodes) throws ConfigException {
        Set<Draft> reached = new HashSet<>();
        List<Draft> open = new ArrayList<>(List.of(root));
        int depth = 0;
        while (!open.isEmpty()) {
            List<Draft> next = new ArrayList<>();
            for (Draft draft : open) {
                reached.add(draft);
                next.addAll(draft.children);
            }
            if (++depth > XmlReader.DEPTH_MOST) {
                throw new ConfigException(open.get(0).place, "nodes are nested deeper than " + XmlReader.DEPTH_MOST);
            }
            open = next;
        }
        for (Draft node : nodes) {
            if (!reached.contains(node)) {
                throw new ConfigException(node.place, "this node is under itself, by way of the nodes that it is under");
            }
        }
    }
}
