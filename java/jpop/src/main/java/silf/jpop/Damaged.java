package silf.jpop;

import silf.jojo.JojoException;

/** Bytes that are not what they should be: cut short, altered, or of another kind. */
public final class Damaged extends JojoException {
    private static final long serialVersionUID = 1;

    public Damaged(String what) {
        super(what);
    }
}
