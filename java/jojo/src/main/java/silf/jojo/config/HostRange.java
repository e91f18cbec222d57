package silf.jojo.config;

import java.util.ArrayList;
import java.util.List;

/**
 * Ranges in host and node names: {@code pad[00-15]}, {@code r[0-1]n[1,3-5]} (spec/jojo, configuration). Leading zeros
 * of a range's first number set the width. Not here: whether such a host exists.
 */
final class HostRange {
    /** A mistyped range must not fill the memory; the largest tree that one client can hold is smaller. */
    static final int NAMES_MOST = 65_536;

    /** Longer numbers are not counters of hosts, and this many digits fit an int. */
    private static final int DIGITS_MOST = 9;

    private HostRange() {}

    /** All names that {@code pattern} stands for, in order; itself if it has no bracket. */
    static List<String> expand(Place place, String pattern) throws ConfigException {
        List<String> names = List.of("");
        int at = 0;
        while (at < pattern.length()) {
            int open = pattern.indexOf('[', at);
            String plain = pattern.substring(at, open < 0 ? pattern.length() : open);
            if (plain.indexOf(']') >= 0) {
                throw new ConfigException(place, "\"" + pattern + "\" has a ] without its [");
            }
            List<String> choices = List.of("");
            at += plain.length();
            if (open >= 0) {
                int close = pattern.indexOf(']', open);
                if (close < 0) {
                    throw new ConfigException(place, "\"" + pattern + "\" has a [ without its ]");
                }
                choices = choices(place, pattern, pattern.substring(open + 1, close));
                at = close + 1;
            }
            names = product(place, pattern, names, plain, choices);
        }
        return names;
    }

    private static List<String> choices(Place place, String pattern, String inside) throws ConfigException {
        List<String> choices = new ArrayList<>();
        for (String part : inside.split(",", -1)) {
            int dash = part.indexOf('-');
            String from = dash < 0 ? part : part.substring(0, dash);
            String to = dash < 0 ? part : part.substring(dash + 1);
            int first = number(place, pattern, from);
            int last = number(place, pattern, to);
            if (last < first) {
                throw new ConfigException(place, "\"" + pattern + "\": " + part + " counts down; write " + to + "-" + from);
            }
            if (last - first >= NAMES_MOST) {
                throw tooMany(place, pattern);
            }
            int width = from.startsWith("0") ? from.length() : 1;
            for (int n = first; n <= last; n++) {
                String digits = Integer.toString(n);
                choices.add("0".repeat(Math.max(0, width - digits.length())) + digits);
            }
            if (choices.size() > NAMES_MOST) {
                throw tooMany(place, pattern);
            }
        }
        return choices;
    }

    private static int number(Place place, String pattern, String digits) throws ConfigException {
        boolean good = !digits.isEmpty() && digits.length() <= DIGITS_MOST && digits.chars().allMatch(c -> c >= '0' && c <= '9');
        if (!good) {
            throw new ConfigException(place, "\"" + pattern + "\": \"" + digits + "\" is no number; write a range as [00-15] or [1,3-5]");
        }
        return Integer.parseInt(digits);
    }

    private static List<String> product(Place place, String pattern, List<String> names, String plain, List<String> choices)
            throws ConfigException {
        if ((long) names.size() * choices.size() > NAMES_MOST) {
            throw tooMany(place, pattern);
        }
        List<String> longer = new ArrayList<>(names.size() * choices.size());
        for (String name : names) {
            for (String choice : choices) {
                longer.add(name + plain + choice);
            }
        }
        return longer;
    }

    private static ConfigException tooMany(Place place, String pattern) {
        return new ConfigException(place, "\"" + pattern + "\" stands for more than " + NAMES_MOST + " names");
    }
}
