package silf.jojo.config;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import silf.jojo.launch.Script;

/**
 * What may stand in a node's settings, whether a file says it or a program ({@code Code.join}): some of it passes through shells
 * and proxies. Each answers null, or what is wrong. Pure. Not here: whether a host exists, which only the start tells.
 */
final class Fit {
    static final Set<String> PROTOCOLS = Set.of("local", "ssh", "rsh", "gram");
    /** As long as a host's name can be. */
    private static final int NAME_MOST = 253;

    private Fit() {}

    /** A subtree that no file describes. */
    static String of(NodeSpec spec) {
        return of(spec, new HashSet<>());
    }

    private static String of(NodeSpec spec, Set<String> names) {
        String wrong = name(spec.name());
        if (wrong == null && !names.add(spec.name())) {
            wrong = "the name is there twice";
        }
        NodeSpec.Invocation how = spec.invocation();
        wrong = wrong != null ? wrong : host(spec.host());
        wrong = wrong != null ? wrong : code(spec.code());
        wrong = wrong != null ? wrong : protocol(how.protocol());
        wrong = wrong != null ? wrong : word("javaPath", how.javaPath());
        for (String option : how.javaOptions()) {
            wrong = wrong != null ? wrong : word("javaOptions", option);
        }
        wrong = wrong != null ? wrong : command(how.command());
        if (wrong != null) {
            return "node \"" + spec.name() + "\": " + wrong;
        }
        for (NodeSpec child : spec.children()) {
            String below = of(child, names);
            if (below != null) {
                return below;
            }
        }
        return null;
    }

    private static String name(String name) {
        boolean good = !name.isBlank() && name.length() <= NAME_MOST && name.chars().noneMatch(Character::isISOControl);
        return good ? null : "a name is 1 to " + NAME_MOST + " characters that can be printed";
    }

    /** Some shells and proxies are handed the name; nothing in it may mean anything to them. */
    static String host(String host) {
        boolean good = host.matches("[A-Za-z0-9._:@%-]+") && !host.startsWith("-") && !host.contains("@-") && !host.equals(Topology.DEFAULT);
        return good ? null : "\"" + host + "\" is no host name: letters, digits and . _ : @ % -, and no - at its beginning";
    }

    static String code(String code) {
        return isClassName(code) ? null : "\"" + code + "\" is no name of a class";
    }

    private static boolean isClassName(String text) {
        for (String part : text.split("\\.", -1)) {
            boolean good = !part.isEmpty() && Character.isJavaIdentifierStart(part.codePointAt(0))
                    && part.codePoints().allMatch(Character::isJavaIdentifierPart);
            if (!good) {
                return false;
            }
        }
        return true;
    }

    static String protocol(String protocol) {
        return PROTOCOLS.contains(protocol)
                ? null
                : "\"" + protocol + "\" is unknown; there are " + String.join(", ", PROTOCOLS.stream().sorted().toList())
                        + "; any other command is a template in rjavaRsh";
    }

    static String word(String key, String text) {
        String unfit = text.isEmpty() ? "nothing" : Script.unfit(text);
        return unfit == null ? null : "\"" + text + "\": " + unfit + " cannot stand in " + key + ", which passes through shells";
    }

    static String command(List<String> command) {
        String line = String.join(" ", command);
        return line.contains("{") && !(line.contains("{command}") || line.contains("{script}"))
                ? "this template lacks {command} (one shell command) or {script} (what sh -c takes)"
                : null;
    }
}
