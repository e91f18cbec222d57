package silf.jojo.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import silf.jojo.config.NodeSpec;
import silf.jojo.core.Program;
import silf.jojo.launch.FirstStage;
import silf.jojo.launch.LaunchException;
import silf.jojo.launch.Launcher;

/** What passes the wire before a node is one. */
final class Sizes {
    private Sizes() {}

    static void measure() throws Exception {
        Main.sample("first stage", "bytes", FirstStage.jar().length);
        Launcher scale = (node, opening, deadline) -> {
            Main.sample("core, as it is sent", "bytes", opening.length);
            throw new LaunchException(LaunchException.Why.ENDED, "weighed");
        };
        NodeSpec root = NodeSpec.of("client", "client", Many.Idle.class.getName(), Trees.node("a", Many.Idle.class, Trees.local()));
        try {
            new Program(root, new Properties(), scale, Sizes.class.getClassLoader(), System.out, System.err).run();
        } catch (silf.jojo.JojoException e) {
            // the node that was weighed did not come up
        }
        for (String part : System.getProperty("java.class.path").split(":")) {
            if (part.endsWith("/jojo.jar")) {
                Main.sample("jojo.jar", "bytes", Files.size(Path.of(part)));
            }
        }
    }
}
