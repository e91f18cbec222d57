package silf.jojo.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import silf.jojo.Code;
import silf.jojo.Jojo;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;
import silf.jojo.testkit.SshDaemon;

/** Clients that are killed at any moment of a tree's life: how long the last JVM below outlives them. */
final class Kills {
    private static final int KILLS = 1000;
    /** Of clients whose nodes are behind ssh. */
    private static final int KILLS_SSH = 200;
    private static final int NODES = 4;
    /** Behind the event that a kill waits for: another is under way then. */
    private static final int LATER_MOST_MS = 300;
    /** So many clients at once: their trees come up slowly, and are hit at other points. */
    private static final int AT_ONCE = 4;
    /** One that is there so much later stays. */
    private static final long GONE_MOST_MS = 60_000;

    private Kills() {}

    /** Never ends by itself, and takes no interrupt for an answer. */
    public static final class Stubborn extends Code {
        @Override
        public void start() {
            while (true) {
                try {
                    TimeUnit.DAYS.sleep(1);
                } catch (InterruptedException e) {
                    // stays
                }
            }
        }
    }

    static void measure() throws Exception {
        Main.note("kill -9 of the client of " + NODES + " nodes on 3 levels, at any moment of their coming up and after it, " + AT_ONCE
                + " clients at once; from the kill until no JVM of the tree is left, looked at every 20 ms");
        Main.seconds("the longest", kills(KILLS, "local", ""));
        try (SshDaemon sshd = SshDaemon.start()) {
            Main.seconds("the longest behind ssh", kills(KILLS_SSH, "far", String.join(" ", sshd.command())));
        }
    }

    /** The longest, in nanoseconds. */
    private static long kills(int kills, String host, String rsh) throws Exception {
        Random random = new Random();
        var clients = Executors.newFixedThreadPool(AT_ONCE);
        try {
            List<Future<Long>> outcomes = new ArrayList<>();
            for (int i = 0; i < Main.rounds(kills); i++) {
                int nodes = random.nextInt(NODES + 1);
                long later_ms = random.nextInt(LATER_MOST_MS);
                outcomes.add(clients.submit((Callable<Long>) () -> kill(nodes, later_ms, host, rsh)));
            }
            long worst_ns = 0;
            for (Future<Long> outcome : outcomes) {
                worst_ns = Math.max(worst_ns, outcome.get());
            }
            return worst_ns;
        } finally {
            clients.shutdownNow();
        }
    }

    /** How long the last of its JVMs outlived it. */
    private static long kill(int nodes, long later_ms, String host, String rsh) throws Exception {
        String mark = UUID.randomUUID().toString();
        Path conf = Files.writeString(Files.createTempFile("jojo-bench", ".conf"), tree(mark, host, rsh));
        try {
            Process client = Processes.guarded(new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx32m",
                    "-cp", System.getProperty("java.class.path"), Jojo.class.getName(), conf.toString())
                    .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start());
            Check.until(nodes + " nodes", () -> Processes.javaWith(mark).size() >= nodes);
            Check.that(!client.waitFor(later_ms, TimeUnit.MILLISECONDS), "the client ended by itself");
            Processes.kill(client.pid(), "KILL");
            client.waitFor();
            long ms = Processes.goneWithin_ms(mark, GONE_MOST_MS);
            Check.that(ms >= 0, "there after " + GONE_MOST_MS + " ms: " + Processes.javaWith(mark));
            Main.seconds(rsh.isEmpty() ? "last JVM gone" : "last JVM gone behind ssh", ms * 1_000_000);
            return ms * 1_000_000;
        } finally {
            Files.delete(conf);
        }
    }

    /** A node, below it another, below that two. */
    private static String tree(String mark, String host, String rsh) {
        String node = "<node host='" + host + "'><code>" + Stubborn.class.getName() + "</code><invocation javaOptions='-Xmx32m -Djojo.mark=" + mark
                + "'" + (rsh.isEmpty() ? "" : " rjavaRsh='" + rsh + "'") + "/>";
        String near = node.replace(host, "local");
        String leaf = near + "</node>";
        return "<node host='root'><code>" + Stubborn.class.getName() + "</code>" + node + near + leaf + leaf + "</node></node></node>";
    }
}
