package silf.jojo.launch;

import java.util.ArrayList;
import java.util.List;

/** A command line in a configuration, cut into words as a shell would: blanks separate, quotes hold together. Pure. */
public final class Words {
    private Words() {}

    /** @throws IllegalArgumentException saying which quote is not closed */
    public static List<String> of(String line) {
        List<String> words = new ArrayList<>();
        StringBuilder word = null;
        char quote = 0;
        for (char c : line.toCharArray()) {
            if (quote != 0) {
                if (c == quote) {
                    quote = 0;
                } else {
                    word.append(c);
                }
            } else if (Character.isWhitespace(c)) {
                if (word != null) {
                    words.add(word.toString());
                    word = null;
                }
            } else {
                word = word == null ? new StringBuilder() : word;
                if (c == '"' || c == '\'') {
                    quote = c;
                } else {
                    word.append(c);
                }
            }
        }
        if (quote != 0) {
            throw new IllegalArgumentException("the quote " + quote + " is not closed in: " + line);
        }
        if (word != null) {
            words.add(word.toString());
        }
        return words;
    }
}
