package silf.jojo.config;

import java.util.ArrayList;
import java.util.List;

/**
 * The part of TOML 1.0 that a configuration needs: {@code [table]}, {@code [[table]]}, {@code key = "string"}, literal
 * strings, decimal integers, booleans, comments. Every text that is accepted means the same to a full TOML parser; what
 * is left out (dotted keys, arrays, inline tables, multi-line strings, floats, dates) is refused by name. Pure.
 */
final class Toml {
    record Entry(Place place, String key, Place valuePlace, String value) {}

    /** {@code many}: written in double brackets. */
    record Table(Place place, String name, boolean many, List<Entry> entries) {}

    private final String file;
    private final String text;
    private int at;
    private int line = 1;
    private int lineStart;

    private Toml(String file, String text) {
        this.file = file;
        this.text = text;
    }

    static List<Table> parse(String file, String text) throws ConfigException {
        return new Toml(file, text.replace("\r\n", "\n")).document();
    }

    private List<Table> document() throws ConfigException {
        List<Table> tables = new ArrayList<>();
        while (true) {
            blanks();
            char c = peek();
            if (c == '\n') {
                newLine();
            } else if (c == '[') {
                Table table = header();
                boolean again = tables.stream().anyMatch(t -> t.name().equals(table.name()) && !(t.many() && table.many()));
                if (again) {
                    throw new ConfigException(table.place(), "the table " + table.name() + " is there already");
                }
                tables.add(table);
                endOfLine();
            } else if (at < text.length() && c != '#') {
                if (tables.isEmpty()) {
                    throw wrong("a setting before the first table; begin with [root] or [[node]]");
                }
                Table table = tables.get(tables.size() - 1);
                Entry entry = entry();
                for (Entry other : table.entries()) {
                    if (other.key().equals(entry.key())) {
                        throw new ConfigException(entry.place(),
                                "\"" + entry.key() + "\" is given twice (first at " + other.place() + ")");
                    }
                }
                table.entries().add(entry);
                endOfLine();
            } else if (c == '#') {
                endOfLine();
            } else {
                return tables;
            }
        }
    }

    private Table header() throws ConfigException {
        Place place = here();
        at++;
        boolean many = peek() == '[';
        if (many) {
            at++;
        }
        blanks();
        String name = key();
        blanks();
        if (peek() == '.') {
            throw wrong("dotted tables are not read here; a node names its parent by under = \"...\"");
        }
        for (int i = 0; i < (many ? 2 : 1); i++) {
            expect(']', "a ] is missing");
        }
        return new Table(place, name, many, new ArrayList<>());
    }

    private Entry entry() throws ConfigException {
        Place place = here();
        String key = key();
        blanks();
        if (peek() == '.') {
            throw wrong("dotted keys are not read here");
        }
        expect('=', "a = is missing after \"" + key + "\"");
        blanks();
        Place valuePlace = here();
        return new Entry(place, key, valuePlace, value());
    }

    private String key() throws ConfigException {
        if (peek() == '"' || peek() == '\'') {
            return string();
        }
        int from = at;
        while (bare(peek())) {
            at++;
        }
        if (at == from) {
            throw wrong("a name is expected here");
        }
        return text.substring(from, at);
    }

    private String value() throws ConfigException {
        char c = peek();
        if (c == '"' || c == '\'') {
            return string();
        }
        if (c == '[' || c == '{') {
            throw wrong("arrays and inline tables are not read here");
        }
        int from = at;
        while (bare(peek()) || peek() == '+' || peek() == '.' || peek() == ':') {
            at++;
        }
        String word = text.substring(from, at);
        if (word.equals("true") || word.equals("false")) {
            return word;
        }
        if (word.matches("[+-]?(0|[1-9](_?[0-9])*)")) {
            return word.replace("_", "").replace("+", "");
        }
        at = from;
        throw wrong(word.isEmpty() ? "a value is missing" : "\"" + word + "\" is no value that is read here; strings need quotes");
    }

    private String string() throws ConfigException {
        char quote = peek();
        if (text.startsWith(String.valueOf(quote).repeat(3), at)) {
            throw wrong("strings over several lines are not read here");
        }
        Place open = here();
        at++;
        StringBuilder value = new StringBuilder();
        while (peek() != quote) {
            char c = peek();
            if (at >= text.length() || c == '\n') {
                throw new ConfigException(open, "this string is not closed on its line");
            }
            if ((c < ' ' && c != '\t') || c == 0x7f) {
                throw wrong("a control character in a string; write it as \\u" + String.format("%04X", (int) c));
            }
            if (c == '\\' && quote == '"') {
                escape(value);
            } else {
                value.append(c);
                at++;
            }
        }
        at++;
        return value.toString();
    }

    private void escape(StringBuilder value) throws ConfigException {
        char c = at + 1 < text.length() ? text.charAt(at + 1) : '\n';
        int simple = "btnfr\"\\".indexOf(c);
        if (simple >= 0) {
            value.append("\b\t\n\f\r\"\\".charAt(simple));
            at += 2;
            return;
        }
        int digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
        int end = at + 2 + digits;
        if (digits == 0 || end > text.length() || !text.substring(at + 2, end).matches("[0-9A-Fa-f]+")) {
            throw wrong("this is no escape of TOML");
        }
        long point = Long.parseLong(text.substring(at + 2, end), 16);
        if (point > Character.MAX_CODE_POINT || (point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE)) {
            throw wrong("this escape stands for no character");
        }
        value.appendCodePoint((int) point);
        at = end;
    }

    private void endOfLine() throws ConfigException {
        blanks();
        if (peek() == '#') {
            while (at < text.length() && peek() != '\n') {
                if (peek() < ' ' && peek() != '\t') {
                    throw wrong("a control character in a comment");
                }
                at++;
            }
        }
        if (at < text.length()) {
            if (peek() != '\n') {
                throw wrong("the line should end here");
            }
            newLine();
        }
    }

    private void newLine() {
        at++;
        line++;
        lineStart = at;
    }

    private void blanks() {
        while (peek() == ' ' || peek() == '\t') {
            at++;
        }
    }

    private void expect(char c, String otherwise) throws ConfigException {
        if (peek() != c) {
            throw wrong(otherwise);
        }
        at++;
    }

    private static boolean bare(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }

    /** NUL at the end; a NUL in the text is refused wherever it stands, as a control character or an unexpected one. */
    private char peek() {
        return at < text.length() ? text.charAt(at) : 0;
    }

    private Place here() {
        return new Place(file, line, text.codePointCount(lineStart, Math.min(at, text.length())) + 1);
    }

    private ConfigException wrong(String what) {
        return new ConfigException(here(), what);
    }
}
