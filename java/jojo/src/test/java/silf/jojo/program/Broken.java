package silf.jojo.program;

import silf.jojo.Code;

/** A program with a fault. */
public final class Broken extends Code {
    @Override
    public void start() {
        throw new IllegalStateException("broken");
    }
}
