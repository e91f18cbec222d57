package silf.jojo;

/** What can go wrong between nodes; {@code Code} may throw it as well. */
public class JojoException extends Exception {
    private static final long serialVersionUID = 1;

    public JojoException(String message) {
        super(message);
    }

    public JojoException(String message, Throwable cause) {
        super(message, cause);
    }
}
