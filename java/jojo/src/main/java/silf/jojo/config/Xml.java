package silf.jojo.config;

import java.util.ArrayList;
import java.util.List;

/**
 * The part of XML 1.0 that a configuration needs: elements, attributes, text, CDATA, comments, instructions, XML's five
 * entities and character references. A DOCTYPE is passed over; one that declares entities is refused, so that nothing is
 * fetched and nothing grows. Every error has its line and column, which the JDK's parser does not give. Pure.
 */
final class Xml {
    record Attribute(Place place, String name, String value) {}

    /** What comes next. {@code name} of elements, {@code text} of text; places are those of the first character. */
    record Event(Kind kind, Place place, String name, String text, List<Attribute> attributes) {}

    enum Kind {
        START,
        END,
        /** Not only blanks. */
        TEXT,
        DONE
    }

    private final String file;
    private final String text;
    private final List<String> open = new ArrayList<>();
    private int at;
    private int line = 1;
    private int column = 1;
    private boolean begun;
    /** {@code <a/>} has been told as a start; its end follows. */
    private boolean endIsDue;

    Xml(String file, String text) {
        this.file = file;
        this.text = text.startsWith("\ufeff") ? text.substring(1) : text;
    }

    Event next() throws ConfigException {
        if (endIsDue) {
            endIsDue = false;
            return new Event(Kind.END, here(), open.remove(open.size() - 1), null, List.of());
        }
        StringBuilder words = new StringBuilder();
        Place wordsAt = null;
        while (at < text.length()) {
            Place place = here();
            if (begins("<!--")) {
                take("<!--");
                skipTo("-->", "this comment is not closed");
            } else if (begins("<?")) {
                take("<?");
                skipTo("?>", "this instruction is not closed");
            } else if (begins("<![CDATA[")) {
                take("<![CDATA[");
                int from = at;
                skipTo("]]>", "this CDATA is not closed");
                words.append(text, from, at - 3);
                wordsAt = wordsAt == null ? place : wordsAt;
            } else if (begins("<!DOCTYPE")) {
                doctype();
            } else if (peek() == '<') {
                if (!words.toString().isBlank()) {
                    return new Event(Kind.TEXT, wordsAt, null, words.toString(), List.of());
                }
                return begins("</") ? end() : start();
            } else {
                boolean blank = Character.isWhitespace(peek());
                if (open.isEmpty() && !blank) {
                    throw wrong(place, begun ? "something behind the last element" : "this is no XML: it does not begin with an element");
                }
                wordsAt = wordsAt == null && !blank ? place : wordsAt;
                character(words);
            }
        }
        if (!open.isEmpty()) {
            throw wrong(here(), "the file ends inside of <" + open.get(open.size() - 1) + ">");
        }
        return new Event(Kind.DONE, here(), null, null, List.of());
    }

    private Event start() throws ConfigException {
        Place place = here();
        if (begun && open.isEmpty()) {
            throw wrong(place, "a second outermost element");
        }
        step();
        String name = name("of an element");
        List<Attribute> attributes = new ArrayList<>();
        while (true) {
            boolean blank = blanks();
            if (begins("/>")) {
                take("/>");
                endIsDue = true;
                break;
            }
            if (peek() == '>') {
                step();
                break;
            }
            if (!blank) {
                throw wrong(here(), at < text.length() ? "a blank or > is missing here" : "<" + name + " is not closed");
            }
            attributes.add(attribute(attributes, name));
        }
        begun = true;
        open.add(name);
        return new Event(Kind.START, place, name, null, attributes);
    }

    private Attribute attribute(List<Attribute> before, String element) throws ConfigException {
        if (at >= text.length()) {
            throw wrong(here(), "<" + element + " is not closed");
        }
        Place place = here();
        String name = name("of an attribute");
        if (before.stream().anyMatch(a -> a.name().equals(name))) {
            throw wrong(place, "the attribute \"" + name + "\" stands twice in one element");
        }
        blanks();
        if (peek() != '=') {
            throw wrong(here(), "a = is missing after \"" + name + "\"");
        }
        step();
        blanks();
        char quote = peek();
        if (quote != '"' && quote != '\'') {
            throw wrong(here(), "the value of \"" + name + "\" needs quotes");
        }
        Place opened = here();
        step();
        StringBuilder value = new StringBuilder();
        while (peek() != quote) {
            if (at >= text.length()) {
                throw wrong(opened, "this quote is not closed");
            }
            if (peek() == '<') {
                throw wrong(here(), "a < inside of quotes; write &lt;, or close the quote before it");
            }
            character(value);
        }
        step();
        // XML 1.0, 3.3.3: line ends and tabs in a value are blanks.
        return new Attribute(place, name, value.toString().replaceAll("[\t\n\r]", " "));
    }

    private Event end() throws ConfigException {
        Place place = here();
        take("</");
        String name = name("of an element");
        blanks();
        String due = open.isEmpty() ? null : open.remove(open.size() - 1);
        if (!name.equals(due)) {
            throw wrong(place, due == null ? "</" + name + "> ends nothing" : "</" + name + "> where </" + due + "> is due");
        }
        if (peek() != '>') {
            throw wrong(here(), "a > is missing here");
        }
        step();
        return new Event(Kind.END, place, name, null, List.of());
    }

    /** One character, or what a reference stands for. */
    private void character(StringBuilder into) throws ConfigException {
        if (peek() != '&') {
            int c = text.codePointAt(at);
            if ((c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0xfffe || c == 0xffff) {
                throw wrong(here(), "a control character");
            }
            into.appendCodePoint(c);
            step();
            return;
        }
        Place place = here();
        int semicolon = text.indexOf(';', at);
        String name = semicolon < 0 ? "" : text.substring(at + 1, semicolon);
        switch (name) {
            case "lt" -> into.append('<');
            case "gt" -> into.append('>');
            case "amp" -> into.append('&');
            case "quot" -> into.append('"');
            case "apos" -> into.append('\'');
            default -> into.appendCodePoint(reference(place, name));
        }
        take("&" + name + ";");
    }

    private int reference(Place place, String name) throws ConfigException {
        int c = -1;
        if (name.matches("#[0-9]{1,7}")) {
            c = Integer.parseInt(name.substring(1));
        } else if (name.matches("#x[0-9a-fA-F]{1,6}")) {
            c = Integer.parseInt(name.substring(2), 16);
        } else {
            throw wrong(place, name.matches("[A-Za-z_][A-Za-z0-9._-]*")
                    ? "the entity &" + name + "; is not expanded: write what it stands for" : "a lone &; write &amp;");
        }
        boolean text = c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c < 0xd800) || (c > 0xdfff && c < 0xfffe)
                || (c > 0xffff && c <= Character.MAX_CODE_POINT);
        if (!text) {
            throw wrong(place, "&" + name + "; stands for no character of XML");
        }
        return c;
    }

    /** Passes over it: its names, and its internal subset if that declares no entity. */
    private void doctype() throws ConfigException {
        Place place = here();
        if (begun) {
            throw wrong(place, "a DOCTYPE behind the first element");
        }
        take("<!DOCTYPE");
        boolean inside = false;
        while (at < text.length()) {
            char c = peek();
            if (begins("<!--")) {
                take("<!--");
                skipTo("-->", "this comment is not closed");
            } else if (begins("<!ENTITY") || c == '%') {
                throw wrong(here(), "entities are not read: write what they stand for");
            } else if (c == '"' || c == '\'') {
                step();
                skipTo(String.valueOf(c), "this quote is not closed");
            } else {
                step();
                inside = c == '[' || (inside && c != ']');
                if (c == '>' && !inside) {
                    return;
                }
            }
        }
        throw wrong(place, "this DOCTYPE is not closed");
    }

    private String name(String of) throws ConfigException {
        int from = at;
        while (Character.isLetterOrDigit(peek()) || "_-.:".indexOf(peek()) >= 0) {
            step();
        }
        if (at == from || !(Character.isLetter(text.charAt(from)) || text.charAt(from) == '_')) {
            throw wrong(here(), "a name " + of + " is missing here");
        }
        return text.substring(from, at);
    }

    private boolean blanks() {
        int from = at;
        while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') {
            step();
        }
        return at > from;
    }

    private void skipTo(String mark, String otherwise) throws ConfigException {
        Place from = here();
        while (!begins(mark)) {
            if (at >= text.length()) {
                throw wrong(from, otherwise);
            }
            step();
        }
        take(mark);
    }

    private void take(String mark) {
        for (int i = 0; i < mark.length(); i++) {
            step();
        }
    }

    /** One character further; two halves of one that needs them are one. */
    private void step() {
        if (text.charAt(at) == '\n') {
            line++;
            column = 0;
        }
        boolean half = Character.isHighSurrogate(text.charAt(at)) && at + 1 < text.length() && Character.isLowSurrogate(text.charAt(at + 1));
        at += half ? 2 : 1;
        column++;
    }

    private boolean begins(String mark) {
        return text.startsWith(mark, at);
    }

    /** NUL at the end; in the text it is a control character and refused as one. */
    private char peek() {
        return at < text.length() ? text.charAt(at) : 0;
    }

    private Place here() {
        return new Place(file, line, column);
    }

    private ConfigException wrong(Place place, String what) {
        return new ConfigException(place, what);
    }
}
