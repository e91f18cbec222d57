package silf.jojo;

/** What to do with the answer of {@link Node#callWithContext}: run once, in a thread of its own. */
@FunctionalInterface
public interface Context {
    void run(Object o);

    /** In place of {@link #run}, when there is no answer. Unless overridden it is printed on stderr. */
    default void failed(JojoException e) {
        e.printStackTrace();
    }
}
