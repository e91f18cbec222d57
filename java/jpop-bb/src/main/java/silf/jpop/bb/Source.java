package silf.jpop.bb;

import silf.jojo.JojoException;
import silf.jpop.Settings;

/** Where {@link Solver} has its problem from when a command starts it: public, with a constructor without arguments. */
public interface Source {
    /** At the client only. */
    Problem<?> problem(Settings settings) throws JojoException;
}
