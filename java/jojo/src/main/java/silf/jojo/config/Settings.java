package silf.jojo.config;

import java.util.Set;

/** The names of what may be set for a node, in both formats. Not here: what the values mean (Topology). */
final class Settings {
    /** Figure 6, {@code rjavaJarPath} of figure 9, and how long a start may take. */
    static final Set<String> INVOCATION = Set.of("javaPath", "javaOptions", "rjavaProtocol", "rjavaRsh", "rjavaRcp",
            "rjavaJarPath", "xtermDisplay", "xtermPath", "launchMostMs");

    static final Set<String> FAULT = Set.of("policy", "restarts", "withinMs", "backOffMs");

    static final Set<String> FILES = Set.of("name", "path", "write");

    /** Of an invocation, what figure 6 has and one ssh without any copying has no use for. */
    static final Set<String> WITHOUT_MEANING = Set.of("rjavaRcp", "rjavaJarPath", "xtermDisplay", "xtermPath");

    private Settings() {}

    /** Taken from {@code host="default"} of the same level; the others are a node's own. */
    static boolean inherited(String key) {
        return !key.equals("host") && !key.equals("name") && !key.equals("spare");
    }

    /** The key of an attribute of an XML element: as in TOML, where all of a node stand in one table. */
    static String key(String element, String attribute) {
        return element.equals("fault") && attribute.equals("policy") ? "fault" : attribute;
    }
}
