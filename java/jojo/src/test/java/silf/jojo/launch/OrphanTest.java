package silf.jojo.launch;

import java.io.IOException;
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
import silf.jojo.testkit.Run;
import silf.jojo.testkit.SshDaemon;

/** The client's end ends everything (spec/jojo J17), whenever it comes. */
public final class OrphanTest {
    /** Each takes the processors for a second or two. */
    private static final int KILLS = Run.ALL ? 50 : 15;

    /** Spec/jojo J17. */
    private static final long GONE_MOST_MS = 5_000;

    /** So late a thread that sleeps may be woken on a machine that has nothing else to do. */
    private static final long PUNCTUAL_MS = 20;

    /** The bound grows with how late that is and with how many threads want each processor, up to so much. */
    private static final long SLOWER_MOST = 12;
    private static final long LOOK_MS = 10;

    private static final int NODES = 4;

    /** Behind the event that a kill waits for: another is under way then. */
    private static final int LATER_MOST_MS = 300;

    /** So many clients at once: their trees come up slowly, and are hit at other points. */
    private static final int AT_ONCE = 4;

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

    /** A node, below it another, below that two. */
    private static String tree(String mark, String host, String rsh) {
        String node = "<node host='" + host + "'><code>" + Stubborn.class.getName() + "</code><invocation javaOptions='-Xmx32m -Djojo.mark=" + mark
                + "'" + (rsh.isEmpty() ? "" : " rjavaRsh='" + rsh + "'") + "/>";
        String leaf = node.replace(host, "local") + "</node>";
        return "<node host='root'><code>" + Stubborn.class.getName() + "</code>" + node + node.replace(host, "local") + leaf + leaf
                + "</node></node></node>";
    }

    /** Starts a client, kills it as soon as it has so many nodes, and a while. */
    private static void check(String mark, Path conf, int nodes, long later_ms) throws Exception {
        Process client = Processes.guarded(new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx32m",
                "-cp", System.getProperty("java.class.path"), Jojo.class.getName(), conf.toString())
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start());
        Check.until(nodes + " nodes", () -> Processes.javaWith(mark).size() >= nodes);
        Check.that(!client.waitFor(later_ms, TimeUnit.MILLISECONDS), "the client ended by itself");
        Processes.kill(client.pid(), "KILL");
        client.waitFor();
        long most_ms = GONE_MOST_MS;
        long slower = 1;
        for (long begun = System.nanoTime(); !Processes.javaWith(mark).isEmpty(); ) {
            long asleep = System.nanoTime();
            TimeUnit.MILLISECONDS.sleep(LOOK_MS);
            long late_ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - asleep) - LOOK_MS;
            // Five seconds are for a machine that has time for them: what they become where it has not is measured as it goes.
            slower = Math.min(SLOWER_MOST, Math.max(slower, Math.max(late_ms / PUNCTUAL_MS, wanted())));
            most_ms = GONE_MOST_MS * slower;
            Check.that(System.nanoTime() - begun < TimeUnit.MILLISECONDS.toNanos(most_ms), "alive " + most_ms
                    + " ms after the client, which was killed " + later_ms + " ms after it had " + nodes + " nodes: " + Processes.javaWith(mark));
        }
    }

    /** So many threads want each processor at the moment. */
    private static long wanted() throws IOException {
        String running = Files.readString(Path.of("/proc/loadavg")).split(" ")[3].split("/")[0];
        return Long.parseLong(running) / Runtime.getRuntime().availableProcessors();
    }

    private static void kills(String host, String rsh, int kills) throws Exception {
        Random random = new Random();
        var clients = Executors.newFixedThreadPool(AT_ONCE);
        try {
            List<Future<Void>> outcomes = new ArrayList<>();
            for (int i = 0; i < kills; i++) {
                int nodes = random.nextInt(NODES + 1);
                long later_ms = random.nextInt(LATER_MOST_MS);
                outcomes.add(clients.submit((Callable<Void>) () -> {
                    String mark = UUID.randomUUID().toString();
                    Path conf = Files.writeString(Files.createTempFile("jojo-test", ".conf"), tree(mark, host, rsh));
                    try {
                        check(mark, conf, nodes, later_ms);
                        return null;
                    } finally {
                        Files.delete(conf);
                    }
                }));
            }
            for (Future<Void> outcome : outcomes) {
                outcome.get();
            }
        } finally {
            clients.shutdownNow();
        }
    }

    public void no_jvm_outlives_a_killed_client() throws Exception {
        kills("local", "", KILLS);
    }

    public void no_jvm_behind_ssh_outlives_a_killed_client() throws Exception {
        if (SshDaemon.missing() != null) {
            throw new Run.Missing(SshDaemon.missing());
        }
        try (SshDaemon sshd = SshDaemon.start()) {
            kills("far", String.join(" ", sshd.command()), Math.max(1, KILLS / 10));
        }
    }
}
