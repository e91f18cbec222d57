package silf.jojo.core;

/**
 * A class could not be had just now: the link to the parent is down, or the client could not read it. Not a LinkageError
 * and not a ClassNotFoundException, which the JVM would remember for ever (JVMS 5.4.3).
 */
public final class Unavailable extends Error {
    private static final long serialVersionUID = 1;

    Unavailable(String text) {
        super(text);
    }
}
