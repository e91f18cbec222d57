package silf.jpop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import silf.jojo.JojoException;

/** An instance's text, word by word, each with its line and column for what is wrong with it. Not in it: any format. */
public final class Words {
    /** 5,000 cities as a whole matrix. */
    private static final int FILE_MOST_bytes = 128 << 20;

    private final String name;
    private final String text;
    private int at;
    private int line = 1;
    private int lineBegins;
    private int wordLine = 1;
    private int wordColumn = 1;

    public Words(String name, String text) {
        this.name = name;
        this.text = text;
    }

    public static Words of(String file) throws JojoException {
        try {
            Path path = Path.of(file);
            if (Files.size(path) > FILE_MOST_bytes) {
                throw new JojoException(file + " has more than " + FILE_MOST_bytes + " bytes");
            }
            // What is not ASCII stands in names and remarks only.
            return new Words(file, new String(Files.readAllBytes(path), StandardCharsets.ISO_8859_1));
        } catch (IOException | InvalidPathException e) {
            throw new JojoException("the instance " + file + " cannot be read: " + e, e);
        }
    }

    private void skip() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            if (text.charAt(at++) == '\n') {
                line++;
                lineBegins = at;
            }
        }
        wordLine = line;
        wordColumn = at - lineBegins + 1;
    }

    public boolean isAtEnd() {
        skip();
        return at == text.length();
    }

    /** The next word, whatever it is. */
    public String word(String what) throws JojoException {
        if (isAtEnd()) {
            throw wrong("the text ends where " + what + " should be");
        }
        int begin = at;
        while (at < text.length() && !Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.substring(begin, at);
    }

    /** What is left of the line, without blanks around it. */
    public String line() {
        int begin = at;
        while (at < text.length() && text.charAt(at) != '\n') {
            at++;
        }
        return text.substring(begin, at).strip();
    }

    public long number(String what, long least, long most) throws JojoException {
        String word = word(what);
        try {
            long number = Long.parseLong(word);
            if (number < least || number > most) {
                throw wrong(what + " is " + number + ", which is not from " + least + " to " + most);
            }
            return number;
        } catch (NumberFormatException e) {
            throw wrong(what + " is " + word + ", which is no whole number");
        }
    }

    /** A number with or without a fraction, as far from 0 as {@code most}. */
    public double decimal(String what, double most) throws JojoException {
        String word = word(what);
        try {
            double number = Double.parseDouble(word);
            if (!(Math.abs(number) <= most)) {
                throw wrong(what + " is " + word + ", which is further from 0 than " + most);
            }
            return number;
        } catch (NumberFormatException e) {
            throw wrong(what + " is " + word + ", which is no number");
        }
    }

    public void end() throws JojoException {
        if (!isAtEnd()) {
            throw wrong("there is more than there should be: " + word(""));
        }
    }

    /** With the place of the word that was read last. */
    public JojoException wrong(String what) {
        return new JojoException(name + ":" + wordLine + ":" + wordColumn + ": " + what);
    }
}
