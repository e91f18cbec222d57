package silf.jojo.core;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import silf.jojo.launch.Launcher;

/** Trees whose nodes are threads of this JVM, for programs that are to be run many times; and how one of them is lost. */
public final class InOneJvm {
    private InOneJvm() {}

    public static Launcher launcher() {
        return Transport.memory();
    }

    /** Cuts a node and all below it off, as when its host goes. False if there is none of that name. */
    public static boolean kill(String name) {
        Wire wire = Transport.ENDS.remove(name);
        try {
            if (wire != null) {
                wire.close();
            }
            return wire != null;
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Names of nodes that were started here. */
    public static List<String> names() {
        return new ArrayList<>(Transport.ENDS.keySet());
    }
}
