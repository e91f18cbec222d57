package silf.jpop.ga;

import silf.jojo.JojoException;
import silf.jpop.Settings;

/** Where {@link Archipelago} has its evolution from when a command starts it: public, with a constructor without arguments. */
public interface Source {
    /** At the client only. */
    Evolution<?> evolution(Settings settings) throws JojoException;
}
