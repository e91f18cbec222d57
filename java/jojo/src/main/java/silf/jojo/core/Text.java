package silf.jojo.core;

/** What others wrote, made fit for a terminal, and for JSON. */
public final class Text {
    private Text() {}

    /** Control characters but for line ends and tabs become '?': a terminal would obey them. */
    static String printable(String text) {
        StringBuilder fit = null;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isISOControl(c) && c != '\n' && c != '\t') {
                if (fit == null) {
                    fit = new StringBuilder(text);
                }
                fit.setCharAt(i, '?');
            }
        }
        return fit == null ? text : fit.toString();
    }

    /** As a string of JSON. */
    public static String json(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
