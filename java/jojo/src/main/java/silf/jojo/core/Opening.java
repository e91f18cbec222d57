package silf.jojo.core;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;

/** What a parent writes first (spec/jojo J3, J7): the core, what the node is to be, START. */
final class Opening implements Family.Start {
    private static final String MAIN = "silf.jojo.core.NodeMain";

    private final byte[] core;
    private final Launcher launcher;

    private Opening(byte[] core, Launcher launcher) {
        this.core = core;
        this.launcher = launcher;
    }

    /** At the client: the core is what this JVM runs. */
    static Opening ofClient(List<Blob> core, Launcher launcher) {
        return new Opening(Blobs.frames(core), launcher);
    }

    /** At a node: the core is what it was sent itself. */
    static Opening ofNode(Map<String, byte[]> blobs, Launcher launcher) {
        List<Blob> core = new ArrayList<>();
        blobs.forEach((name, bytes) -> {
            if (!name.equals(Birth.BLOB)) {
                core.add(Blob.unhashed(name, bytes));
            }
        });
        return new Opening(Blobs.frames(core), launcher);
    }

    @Override
    public Wire start(NodeSpec spec, byte[] birth, Deadline deadline) throws JojoException {
        byte[] own = Blobs.frames(List.of(Blob.unhashed(Birth.BLOB, birth)));
        byte[] start = Frame.of(Frame.START, new Bytes(64).name(MAIN).toArray());
        Bytes all = new Bytes(core.length + own.length + start.length);
        return launcher.launch(spec, all.all(core).all(own).all(start).array, deadline);
    }
}
