package silf.jojo.core;

import silf.jojo.launch.Launcher;

/** The contract, over sockets. */
public final class SocketTest extends Contract {
    @Override
    protected Launcher launcher() {
        return Transport.socket();
    }

    @Override
    protected boolean hasOwnOutput() {
        return false;
    }
}
