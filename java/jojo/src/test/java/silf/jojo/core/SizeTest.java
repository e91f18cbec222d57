package silf.jojo.core;

import java.util.List;
import silf.jojo.testkit.Check;

/** What is sent to a node before it can say a word. */
public final class SizeTest {
    /** Half a second at 0.5 MB/s. */
    private static final int CORE_MOST_BYTES = 250 << 10;

    public void the_core_is_small() throws Exception {
        List<Blob> core = ClassPath.core();
        int size = Blobs.frames(core).length;
        Check.that(core.size() > 50, core.size() + " classes are not the core");
        Check.that(size <= CORE_MOST_BYTES, "the core has " + size + " bytes on the wire");
        System.out.println(core.size() + " classes of the core are " + size + " bytes on the wire");
    }
}
