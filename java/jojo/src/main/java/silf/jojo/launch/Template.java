package silf.jojo.launch;

import java.util.ArrayList;
import java.util.List;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;

/**
 * The command that starts a node: what a configuration's rjavaProtocol and rjavaRsh come to (spec/jojo, configuration).
 * A command with {host} is a template; one without is followed by the host and the shell command, as ssh and rsh take
 * them. Pure.
 */
final class Template {
    /** Nobody is there to answer a question, and a far host that is silent must not hold us longer than a start may take. */
    private static final List<String> SSH_OPTIONS = List.of("-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=");

    private Template() {}

    static List<String> of(NodeSpec node, String script) {
        Invocation how = node.invocation();
        List<String> words = how.command();
        return switch (how.protocol()) {
            case "local" -> List.of("sh", "-c", script);
            case "gram" -> fill(words.isEmpty() ? List.of("kumiko", "exec", "-T", "{host}", "--", "sh", "-c", "{script}")
                    : isTemplate(words) ? words : with(words, "-T", "{host}", "--", "sh", "-c", "{script}"), node, script);
            case "rsh" -> fill(isTemplate(words) ? words : with(words.isEmpty() ? List.of("rsh") : words, "{host}", "{command}"),
                    node, script);
            default -> fill(isTemplate(words) ? words : ssh(words.isEmpty() ? List.of("ssh") : words, how.launchMost_ms()), node, script);
        };
    }

    private static List<String> ssh(List<String> words, long most_ms) {
        String program = words.get(0);
        List<String> all = new ArrayList<>(words);
        if (program.substring(program.lastIndexOf('/') + 1).equals("ssh")) {
            all.addAll(SSH_OPTIONS); // behind the user's own: of two values ssh takes the first
            all.set(all.size() - 1, all.get(all.size() - 1) + Math.max(1, most_ms / 1000));
        }
        return with(all, "{host}", "{command}");
    }

    private static boolean isTemplate(List<String> words) {
        return words.stream().anyMatch(w -> w.contains("{host}") || w.contains("{command}") || w.contains("{script}"));
    }

    private static List<String> with(List<String> words, String... more) {
        List<String> all = new ArrayList<>(words);
        all.addAll(List.of(more));
        return all;
    }

    private static List<String> fill(List<String> words, NodeSpec node, String script) {
        List<String> filled = new ArrayList<>();
        for (String word : words) {
            filled.add(word.replace("{host}", node.host()).replace("{command}", Script.quoted(script)).replace("{script}", script));
        }
        return filled;
    }
}
