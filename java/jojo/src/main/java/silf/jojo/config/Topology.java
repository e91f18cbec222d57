package silf.jojo.config;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.config.NodeSpec.FileRoot;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.launch.Words;

/**
 * From drafts to nodes: defaults of a level, ranges, unique names, and every value checked (spec/jojo, configuration).
 * Pure. Not here: whether a host exists, which only the start tells.
 */
final class Topology {
    static final String DEFAULT = "default";

    /** All nodes of a tree, so that nested ranges do not fill the memory. */
    private static final int NODES_MOST = HostRange.NAMES_MOST;

    /** Ranks are at most 65534 (spec/jojo J1). */
    private static final int CHILDREN_MOST = 65_535;

    private final Path folder;
    private final Map<String, Place> given = new HashMap<>();
    private final Map<String, Integer> uses = new HashMap<>();
    private int count;

    private Topology(Path folder) {
        this.folder = folder;
    }

    /** @param folder what relative paths of {@code files} are relative to */
    static NodeSpec of(Draft root, Path folder) throws ConfigException {
        Topology topology = new Topology(folder);
        topology.claimNames(root);
        return topology.node(root, Map.of(), Names.of(root), 0, List.of());
    }

    /** Names that were written come first: none that is made up may take them. */
    private void claimNames(Draft draft) throws ConfigException {
        String written = draft.text("name");
        if (written != null) {
            for (String name : HostRange.expand(draft.placeOf("name"), written)) {
                Place before = given.put(name, draft.placeOf("name"));
                if (before != null) {
                    throw new ConfigException(draft.placeOf("name"), "the name \"" + name + "\" is taken at " + before);
                }
            }
        }
        for (Draft child : draft.children) {
            claimNames(child);
        }
    }

    /** The hosts, and as many names or none, that one draft stands for. */
    private record Names(List<String> hosts, List<String> names) {
        static Names of(Draft draft) throws ConfigException {
            String host = draft.text("host");
            if (host == null || host.isBlank()) {
                throw new ConfigException(draft.place, "a node without its host");
            }
            List<String> hosts = HostRange.expand(draft.placeOf("host"), host);
            String name = draft.text("name");
            List<String> names = name == null ? null : HostRange.expand(draft.placeOf("name"), name);
            if (names != null && hosts.size() == 1) {
                hosts = java.util.Collections.nCopies(names.size(), hosts.get(0));
            }
            if (names != null && names.size() != hosts.size()) {
                throw new ConfigException(draft.placeOf("name"),
                        "\"" + name + "\" stands for " + names.size() + " names, \"" + host + "\" for " + hosts.size() + " hosts");
            }
            return new Names(hosts, names);
        }

        int size() {
            return hosts.size();
        }
    }

    /** {@code above}: hosts from the root to the parent. */
    private NodeSpec node(Draft draft, Map<String, Draft.Value> defaults, Names names, int index, List<String> above)
            throws ConfigException {
        if (++count > NODES_MOST) {
            throw new ConfigException(draft.place, "the tree has more than " + NODES_MOST + " nodes");
        }
        Map<String, Draft.Value> settings = new LinkedHashMap<>(defaults);
        settings.putAll(draft.settings);
        Values values = new Values(draft.place, settings);
        String host = names.hosts().get(index);
        if (!above.isEmpty()) {
            values.check("host", Fit.host(host));
        }
        if (above.contains(host) && !host.equals(NodeSpec.LOCAL)) {
            throw new ConfigException(draft.placeOf("host"), "\"" + host + "\" is below itself; a further node on the same host is host=\"local\"");
        }
        String name = fresh(names.names() == null ? host : names.names().get(index), names.names() != null);
        List<String> here = new ArrayList<>(above);
        // Below a node, "local" is that node's host: its own name leads to no cycle further down.
        here.add(above.isEmpty() ? NodeSpec.LOCAL : host);
        return new NodeSpec(name, host, values.code(), values.invocation(host), values.faults(),
                values.flag("spare"), files(draft), children(draft, here));
    }

    private List<NodeSpec> children(Draft parent, List<String> above) throws ConfigException {
        Draft defaults = null;
        for (Draft child : parent.children) {
            if (DEFAULT.equals(child.text("host"))) {
                if (defaults != null) {
                    throw new ConfigException(child.place, "a second host=\"default\" of this level (the first is at " + defaults.place + ")");
                }
                defaults = child;
                for (String own : List.of("name", "spare")) {
                    if (child.settings.containsKey(own)) {
                        throw new ConfigException(child.placeOf(own), "\"" + own + "\" has no meaning for host=\"default\"");
                    }
                }
            }
        }
        Map<String, Draft.Value> inherited = new LinkedHashMap<>();
        if (defaults != null) {
            defaults.settings.forEach((key, value) -> {
                if (Settings.inherited(key)) {
                    inherited.put(key, value);
                }
            });
        }
        List<NodeSpec> nodes = new ArrayList<>();
        Map<String, Place> seen = new HashMap<>();
        for (Draft child : parent.children) {
            if (child == defaults) {
                continue;
            }
            Names names = Names.of(child);
            Draft with = defaults == null ? child : child.withParts(defaults);
            for (int i = 0; i < names.size(); i++) {
                String host = names.hosts().get(i);
                Place before = names.names() == null && !host.equals(NodeSpec.LOCAL) ? seen.putIfAbsent(host, child.placeOf("host")) : null;
                if (before != null) {
                    throw new ConfigException(child.placeOf("host"),
                            "\"" + host + "\" is there already (" + before + "); a second node on it needs a name of its own");
                }
                nodes.add(node(with, inherited, names, i, above));
            }
        }
        if (nodes.size() > CHILDREN_MOST) {
            throw new ConfigException(parent.place, "a node has at most " + CHILDREN_MOST + " children, this one " + nodes.size());
        }
        return nodes;
    }

    private List<FileRoot> files(Draft draft) throws ConfigException {
        List<FileRoot> roots = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        for (Draft one : draft.files) {
            Values values = new Values(one.place, one.settings);
            String name = values.needed("name", "a directory needs a name by which nodes call it");
            if (!name.matches("[A-Za-z0-9_][A-Za-z0-9._-]*")) {
                throw new ConfigException(one.placeOf("name"), "\"" + name + "\" is no name of a directory: letters, digits, . _ -");
            }
            if (!seen.add(name)) {
                throw new ConfigException(one.placeOf("name"), "\"" + name + "\" is there already");
            }
            String path = values.needed("path", "a directory needs the path where it is on the client");
            try {
                roots.add(new FileRoot(name, folder.resolve(path).toAbsolutePath().normalize().toString(), values.flag("write")));
            } catch (java.nio.file.InvalidPathException e) {
                throw new ConfigException(one.placeOf("path"), "\"" + path + "\" is no path: " + e.getReason());
            }
        }
        return roots;
    }

    /** {@code wanted}, with a number when it is taken: by a name that was written, or by a node of the same range. */
    private String fresh(String wanted, boolean written) {
        while (true) {
            int n = uses.merge(wanted, 1, Integer::sum);
            String name = n == 1 ? wanted : wanted + "#" + n;
            if ((written && n == 1) || !given.containsKey(name)) {
                return name;
            }
        }
    }

    /** The checked values of one node. */
    private record Values(Place node, Map<String, Draft.Value> settings) {
        private String text(String key) {
            Draft.Value value = settings.get(key);
            return value == null ? null : value.text();
        }

        private ConfigException wrong(String key, String what) {
            Draft.Value value = settings.get(key);
            return new ConfigException(value == null ? node : value.place(), what);
        }

        String needed(String key, String otherwise) throws ConfigException {
            if (text(key) == null || text(key).isBlank()) {
                throw wrong(key, otherwise);
            }
            return text(key);
        }

        boolean flag(String key) throws ConfigException {
            String text = text(key);
            if (text != null && !text.equals("true") && !text.equals("false")) {
                throw wrong(key, key + " is true or false, not \"" + text + "\"");
            }
            return "true".equals(text);
        }

        long number(String key, long usual) throws ConfigException {
            String text = text(key);
            if (text == null) {
                return usual;
            }
            if (!text.matches("[0-9]{1,9}")) {
                throw wrong(key, key + " is a number up to 999999999, not \"" + text + "\"");
            }
            return Long.parseLong(text);
        }

        private void check(String key, String wrong) throws ConfigException {
            if (wrong != null) {
                throw wrong(key, wrong);
            }
        }

        String code() throws ConfigException {
            String code = needed("code", "this node has no <code>, nor has a host=\"default\" of its level");
            check("code", Fit.code(code));
            return code;
        }

        Invocation invocation(String host) throws ConfigException {
            String protocol = text("rjavaProtocol");
            if (protocol != null) {
                check("rjavaProtocol", Fit.protocol(protocol));
            }
            // A site may be called so too: it is what kumiko calls the personal one.
            boolean local = host.equals(NodeSpec.LOCAL) && !"gram".equals(protocol);
            protocol = local ? NodeSpec.LOCAL : protocol == null ? "ssh" : protocol;
            String java = text("javaPath") == null ? Invocation.USUAL.javaPath() : text("javaPath");
            check("javaPath", Fit.word("javaPath", java));
            List<String> options = words("javaOptions");
            for (String option : options) {
                check("javaOptions", Fit.word("javaOptions", option));
            }
            List<String> command = local ? List.of() : words("rjavaRsh");
            check("rjavaRsh", Fit.command(command));
            Map<String, String> more = new HashMap<>();
            for (String key : Settings.WITHOUT_MEANING) {
                if (text(key) != null) {
                    more.put(key, text(key));
                }
            }
            return new Invocation(protocol, java, options, command, number("launchMostMs", Invocation.USUAL.launchMost_ms()), more);
        }

        private List<String> words(String key) throws ConfigException {
            String text = text(key);
            try {
                return text == null ? List.of() : Words.of(text);
            } catch (IllegalArgumentException e) {
                throw wrong(key, e.getMessage());
            }
        }

        FaultPolicy faults() throws ConfigException {
            String policy = text("fault");
            FaultPolicy usual = FaultPolicy.RESTART;
            switch (policy == null ? "fail" : policy) {
                case "fail":
                    return FaultPolicy.FAIL;
                case "spare":
                    return FaultPolicy.SPARE;
                case "go-on":
                    return FaultPolicy.GO_ON;
                case "restart":
                    return new FaultPolicy(FaultPolicy.Kind.RESTART, (int) number("restarts", usual.restartsMost()),
                            number("withinMs", usual.within_ms()), number("backOffMs", usual.backoff_ms()));
                default:
                    throw wrong("fault", "\"" + policy + "\" is no policy; there are fail, restart, spare, go-on");
            }
        }
    }
}
