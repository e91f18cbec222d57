package silf.jojo.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.config.NodeSpec.FileRoot;
import silf.jojo.config.NodeSpec.Invocation;

/**
 * What the tree says about itself, to lists and back (spec/jojo J19). Records would do without this file; but taking one
 * apart costs a JVM that is just starting its method handles: a tenth of a second. Not in it: what it means.
 */
final class TreeValue {
    private static final UserClasses OWN = new UserClasses(TreeValue.class.getClassLoader());

    private TreeValue() {}

    static byte[] bytes(List<?> value) {
        try {
            return Encoder.bytes(value);
        } catch (JojoException e) {
            throw new IllegalStateException("lists of strings and numbers can be encoded", e);
        }
    }

    /** The list at {@code at}, which is all there is behind it. */
    static Fields read(byte[] bytes, int at) throws Violation {
        try {
            return new Fields(Decoder.decode(new In(bytes, at), OWN, "a neighbour"));
        } catch (JojoException e) {
            throw new Violation(e.getMessage());
        }
    }

    /** A new list each time: no list may stand twice in a value. */
    static List<Object> list(Object... fields) {
        List<Object> list = new ArrayList<>(fields.length);
        for (Object field : fields) {
            list.add(field);
        }
        return list;
    }

    static List<Object> of(NodeSpec spec) {
        Invocation how = spec.invocation();
        FaultPolicy faults = spec.faults();
        List<Object> files = new ArrayList<>();
        for (FileRoot root : spec.files()) {
            files.add(list(root.name(), root.path(), root.write()));
        }
        List<Object> children = new ArrayList<>();
        for (NodeSpec child : spec.children()) {
            children.add(of(child));
        }
        return list(
                spec.name(), spec.host(), spec.code(),
                list(how.protocol(), how.javaPath(), new ArrayList<>(how.javaOptions()), new ArrayList<>(how.command()),
                        how.launchMost_ms(), new LinkedHashMap<>(how.more())),
                list(faults.kind().ordinal(), faults.restartsMost(), faults.within_ms(), faults.backoff_ms()),
                spec.spare(), files, children);
    }

    static NodeSpec spec(Fields in) throws Violation {
        String name = in.text();
        String host = in.text();
        String code = in.text();
        Fields how = in.list();
        Invocation invocation = new Invocation(
                how.text(), how.text(), how.texts(), how.texts(), how.number(), how.map());
        how.end();
        Fields policy = in.list();
        int kind = policy.small();
        FaultPolicy.Kind[] kinds = FaultPolicy.Kind.values();
        if (kind < 0 || kind >= kinds.length) {
            throw new Violation("a policy of kind " + kind);
        }
        FaultPolicy faults = new FaultPolicy(kinds[kind], policy.small(), policy.number(), policy.number());
        policy.end();
        boolean spare = in.flag();
        List<FileRoot> files = new ArrayList<>();
        for (Fields all = in.list(); all.more(); ) {
            Fields root = all.list();
            files.add(new FileRoot(root.text(), root.text(), root.flag()));
            root.end();
        }
        List<NodeSpec> children = new ArrayList<>();
        for (Fields all = in.list(); all.more(); ) {
            children.add(spec(all.list()));
        }
        in.end();
        return new NodeSpec(name, host, code, invocation, faults, spare, files, children);
    }

    /** Takes a list apart, field by field; whatever is not as it should be is a {@link Violation}. */
    static final class Fields {
        private final List<?> fields;
        private int next;

        Fields(Object value) throws Violation {
            if (!(value instanceof List<?> list)) {
                throw wrong(value);
            }
            fields = list;
        }

        private static Violation wrong(Object value) {
            return new Violation((value == null ? "null" : value.getClass().getName()) + " where the tree has something else");
        }

        boolean more() {
            return next < fields.size();
        }

        private Object field() throws Violation {
            if (!more()) {
                throw new Violation("a list of the tree is cut off");
            }
            return fields.get(next++);
        }

        void end() throws Violation {
            if (more()) {
                throw new Violation("a list of the tree has " + fields.size() + " fields");
            }
        }

        /** A string. */
        String text() throws Violation {
            String text = textOrNull();
            if (text == null) {
                throw wrong(null);
            }
            return text;
        }

        String textOrNull() throws Violation {
            Object value = field();
            if (value != null && !(value instanceof String)) {
                throw wrong(value);
            }
            return (String) value;
        }

        int small() throws Violation {
            Object value = field();
            if (value instanceof Integer number) {
                return number;
            }
            throw wrong(value);
        }

        long number() throws Violation {
            Object value = field();
            if (value instanceof Long number) {
                return number;
            }
            throw wrong(value);
        }

        boolean flag() throws Violation {
            Object value = field();
            if (value instanceof Boolean flag) {
                return flag;
            }
            throw wrong(value);
        }

        /** Whatever it is. */
        Object value() throws Violation {
            return field();
        }

        Fields list() throws Violation {
            return new Fields(field());
        }

        List<String> texts() throws Violation {
            List<String> texts = new ArrayList<>();
            for (Fields all = list(); all.more(); ) {
                texts.add(all.text());
            }
            return texts;
        }

        Map<String, String> map() throws Violation {
            Object value = field();
            if (!(value instanceof Map<?, ?> map)) {
                throw wrong(value);
            }
            Map<String, String> texts = new LinkedHashMap<>();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                if (!(entry.getKey() instanceof String key) || !(entry.getValue() instanceof String text)) {
                    throw wrong(entry.getKey());
                }
                texts.put(key, text);
            }
            return texts;
        }
    }
}
