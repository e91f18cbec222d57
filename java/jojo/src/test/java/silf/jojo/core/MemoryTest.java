package silf.jojo.core;

import silf.jojo.launch.Launcher;

/** The contract, with all nodes in one JVM. */
public final class MemoryTest extends Contract {
    @Override
    protected Launcher launcher() {
        return Transport.memory();
    }

    @Override
    protected boolean hasOwnOutput() {
        return false;
    }
}
