package silf.jojo.bench;

import java.util.List;
import silf.jojo.testkit.DelayProxy;
import silf.jojo.testkit.SshDaemon;

/** From nothing to a node that runs user code, by one ssh; beside `ssh host true` over the same link. */
final class Ready {
    private static final double FAR_MS = 300;

    private Ready() {}

    static void near() throws Exception {
        try (SshDaemon sshd = SshDaemon.start()) {
            rounds(sshd.command(), Main.rounds(20));
            Peers.mitogenReady(sshd, Main.rounds(20));
        }
    }

    static void far() throws Exception {
        try (SshDaemon sshd = SshDaemon.start(); DelayProxy proxy = new DelayProxy(sshd.address(), FAR_MS, 0)) {
            Main.note("the link: " + FAR_MS + " ms round trip, any rate (testkit's DelayProxy)");
            rounds(sshd.command(proxy.port()), Main.rounds(10));
        }
    }

    private static void rounds(List<String> ssh, int rounds) throws Exception {
        for (int i = 0; i <= rounds; i++) {
            long bare_ns = Trees.time_ns(() -> {
                Trees.must(Trees.with(ssh, "-T", "-o", "BatchMode=yes", "far", "true"));
                return null;
            });
            long begun = System.nanoTime();
            long[] up_ns = new long[1];
            Trees.run(List.of(Trees.node("far", Trees.Echo.class, Trees.ssh(ssh))), below -> up_ns[0] = System.nanoTime() - begun);
            if (i > 0) { // the first finds everything cold
                Main.seconds("ssh true", bare_ns);
                Main.seconds("node ready", up_ns[0]);
            }
        }
    }
}
