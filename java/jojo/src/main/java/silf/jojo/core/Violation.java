package silf.jojo.core;

import java.io.IOException;

/** The peer sent what spec/jojo does not allow. Ends the link (GOODBYE 2), with this text. */
public final class Violation extends IOException {
    private static final long serialVersionUID = 1;

    public Violation(String text) {
        super(text);
    }
}
