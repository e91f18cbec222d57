package silf.jojo.config;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.Set;

/** The XML form of a configuration (spec/jojo J34): from elements to drafts. Not here: the grammar (Xml). */
final class XmlReader {
    /** The root and 16 levels below it (spec/jojo J1). */
    static final int DEPTH_MOST = 17;

    private static final Map<String, Set<String>> ATTRIBUTES = Map.of(
            "node", Set.of("host", "name", "spare"),
            "code", Set.of(),
            "invocation", Settings.INVOCATION,
            "fault", Settings.FAULT,
            "files", Settings.FILES);

    private XmlReader() {}

    static Draft read(String file, String text) throws ConfigException {
        Xml xml = new Xml(file, text);
        Deque<Draft> open = new ArrayDeque<>();
        Draft root = null;
        while (true) {
            Xml.Event event = xml.next();
            switch (event.kind()) {
                case START -> {
                    if (!event.name().equals("node")) {
                        part(xml, event, open.peek());
                        continue;
                    }
                    Draft node = new Draft(event.place());
                    set(node, event);
                    if (open.isEmpty()) {
                        root = node;
                    } else {
                        open.peek().children.add(node);
                    }
                    open.push(node);
                    if (open.size() > DEPTH_MOST) {
                        throw new ConfigException(node.place, "nodes are nested deeper than " + DEPTH_MOST);
                    }
                }
                case END -> open.pop();
                case TEXT -> throw new ConfigException(event.place(), "text between nodes: only <code> holds text");
                case DONE -> {
                    if (root == null) {
                        throw new ConfigException(event.place(), "there is no <node>");
                    }
                    return root;
                }
            }
        }
    }

    /** An element of {@code node} that is no node itself, to its end. */
    private static void part(Xml xml, Xml.Event start, Draft node) throws ConfigException {
        String element = start.name();
        if (!ATTRIBUTES.containsKey(element)) {
            throw new ConfigException(start.place(), "<" + element + "> is unknown; a node holds <code>, <invocation>, <fault>, <files>, <node>");
        }
        if (node == null) {
            throw new ConfigException(start.place(), "the outermost element is <" + element + ">; it has to be <node>");
        }
        if (!node.children.isEmpty()) {
            throw new ConfigException(start.place(), "<" + element + "> stands after a <node>; it belongs before the first");
        }
        boolean files = element.equals("files");
        Draft into = files ? new Draft(start.place()) : node;
        set(into, start);
        if (files) {
            node.files.add(into);
        }
        Xml.Event inside = xml.next();
        if (inside.kind() == Xml.Kind.TEXT && element.equals("code")) {
            node.set(inside.place(), "code", inside.text().strip());
            inside = xml.next();
        } else if (element.equals("code")) {
            node.set(start.place(), "code", "");
        }
        if (inside.kind() != Xml.Kind.END) {
            throw new ConfigException(inside.place(), "<" + element + "> holds no "
                    + (inside.kind() == Xml.Kind.TEXT ? "text" : "<" + inside.name() + ">"));
        }
    }

    private static void set(Draft draft, Xml.Event start) throws ConfigException {
        String element = start.name();
        Set<String> known = ATTRIBUTES.get(element);
        for (Xml.Attribute attribute : start.attributes()) {
            if (!known.contains(attribute.name())) {
                throw new ConfigException(attribute.place(), "<" + element + "> has no attribute \"" + attribute.name() + "\""
                        + (known.isEmpty() ? "" : "; it has " + String.join(", ", known.stream().sorted().toList())));
            }
            draft.set(attribute.place(), Settings.key(element, attribute.name()), attribute.value());
        }
    }
}
