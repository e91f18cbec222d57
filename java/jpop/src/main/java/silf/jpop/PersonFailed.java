package silf.jpop;

import java.util.function.Supplier;
import silf.jojo.JojoException;

/** The code of a person who wrote a problem threw, or broke its duties. Says which class and method, and on what. */
public final class PersonFailed extends JojoException {
    private static final long serialVersionUID = 1;
    private static final int SHOWN_MOST = 200;

    public PersonFailed(String what) {
        super(what);
    }

    public PersonFailed(String what, Throwable cause) {
        super(what, cause);
    }

    /** What a person's code says of an object, in one line that is not too long; it may throw. */
    public static String shown(Supplier<String> show) {
        String text;
        try {
            text = String.valueOf(show.get()).replaceAll("\\s+", " ");
        } catch (RuntimeException | StackOverflowError e) {
            text = "cannot be shown: " + e;
        }
        return text.length() > SHOWN_MOST ? text.substring(0, SHOWN_MOST) + "..." : text;
    }
}
