package silf.jojo.config;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A node as written, before defaults and ranges are carried out: what both formats are read into. {@code settings} has
 * the keys of {@link Settings}. Not here: any check of a value.
 */
final class Draft {
    record Value(Place place, String text) {}

    final Place place;
    final Map<String, Value> settings = new LinkedHashMap<>();
    /** Directories of the client, each with its name, path and write. */
    final List<Draft> files = new ArrayList<>();
    final List<Draft> children = new ArrayList<>();

    Draft(Place place) {
        this.place = place;
    }

    void set(Place where, String key, String text) throws ConfigException {
        if (settings.putIfAbsent(key, new Value(where, text)) != null) {
            throw new ConfigException(where, "\"" + key + "\" is given twice for one node (first at " + settings.get(key).place() + ")");
        }
    }

    /** This node, with the directories and the children of {@code defaults} where it has none of its own. */
    Draft withParts(Draft defaults) {
        Draft with = new Draft(place);
        with.settings.putAll(settings);
        with.files.addAll(files.isEmpty() ? defaults.files : files);
        with.children.addAll(children.isEmpty() ? defaults.children : children);
        return with;
    }

    /** Null if it is not written. */
    String text(String key) {
        Value value = settings.get(key);
        return value == null ? null : value.text();
    }

    Place placeOf(String key) {
        Value value = settings.get(key);
        return value == null ? place : value.place();
    }
}
