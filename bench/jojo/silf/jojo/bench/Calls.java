package silf.jojo.bench;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import silf.jojo.Code;
import silf.jojo.Future;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;
import silf.jojo.testkit.SshDaemon;

/** Small calls: how long one takes, and how many a second. */
final class Calls {
    private static final int WARM = 20_000;
    private static final int CALLS = 5_000;
    private static final Message SMALL = new Message(1, 42L);
    /** Calls under way at once where they are pipelined. */
    private static final int PIPELINE = 1000;
    private static final int BATCH = 200_000;
    /** Rounds that are not told: compilers take a second or two of this until rates stay. */
    private static final int WARM_ROUNDS = 8;

    private Calls() {}

    /** Counts what it is sent, and answers with the count. */
    public static final class Counter extends Code {
        private final java.util.concurrent.atomic.LongAdder count = new java.util.concurrent.atomic.LongAdder();

        @Override
        public Object handle(Message message) {
            if (message.tag == 1) {
                count.increment();
                return null;
            }
            return count.sum();
        }
    }

    static void latency() throws Exception {
        Main.note("each sample is one call, of a Long, answered with it, after " + WARM + " calls to warm up; bare: "
                + Peers.BARE_BYTES + " bytes to `ssh ... cat` and back, by one thread of this JVM: what is left when all of Jojo is taken away; 3 hops: a node three levels below the client, past the nodes between");
        try (SshDaemon sshd = SshDaemon.start()) {
            Trees.run(List.of(Trees.node("pipe", Trees.Echo.class, Trees.local())), below -> latency("a pipe", below[0]));
            Trees.run(List.of(Trees.node("far", Trees.Echo.class, Trees.ssh(sshd.command()))), below -> latency("ssh", below[0]));
            NodeSpec third = Trees.node("c", Trees.Echo.class, Trees.ssh(sshd.command()));
            NodeSpec second = Trees.node("b", Trees.Relay.class, Trees.ssh(sshd.command()), third);
            Trees.run(List.of(Trees.node("a", Trees.Relay.class, Trees.ssh(sshd.command()), second)), below -> {
                latency("ssh, 3 hops", Trees.find("c"));
                latency("ssh, 3 hops, by handlers that call on", below[0]);
            });
            Peers.bare("bare ssh", sshd, 1, CALLS, WARM);
            Peers.bare("bare ssh, 3 hops", sshd, 3, CALLS, WARM);
            Peers.mitogenCalls(sshd);
        }
        Peers.rmi(CALLS, WARM);
    }

    private static void latency(String over, Node node) throws Exception {
        for (int i = 0; i < WARM; i++) {
            node.call(SMALL);
        }
        for (int i = 0; i < Main.rounds(CALLS); i++) {
            long begun = System.nanoTime();
            node.call(SMALL);
            Main.seconds("call over " + over, System.nanoTime() - begun);
        }
    }

    static void rates() throws Exception {
        Main.note("pipelined: " + PIPELINE + " calls of a Long under way; one way: byte[100], counted by their receiver");
        try (SshDaemon sshd = SshDaemon.start()) {
            for (boolean ssh : new boolean[] {false, true}) {
                String over = ssh ? "ssh" : "a pipe";
                var how = ssh ? Trees.ssh(sshd.command()) : Trees.local();
                Trees.run(List.of(Trees.node("far", Counter.class, how)), below -> {
                    for (int i = -WARM_ROUNDS; i < Main.rounds(30); i++) {
                        oneWay(over, below[0], i >= 0);
                    }
                });
                Trees.run(List.of(Trees.node("far", Trees.Echo.class, how)), below -> {
                    for (int i = -WARM_ROUNDS; i < Main.rounds(30); i++) {
                        pipelined(over, below[0], i >= 0);
                    }
                });
            }
            Peers.mitogenRates(sshd);
        }
        Peers.rmiRates();
    }

    private static void oneWay(String over, Node node, boolean told) throws Exception {
        Message message = new Message(1, new byte[100]);
        long before = (Long) node.call(new Message(2, null));
        long begun = System.nanoTime();
        for (int i = 0; i < BATCH; i++) {
            node.send(message);
        }
        while ((Long) node.call(new Message(2, null)) < before + BATCH) {
            Thread.onSpinWait();
        }
        if (told) {
            Main.sample("one-way messages over " + over, "per_second", BATCH * 1e9 / (System.nanoTime() - begun));
        }
    }

    private static void pipelined(String over, Node node, boolean told) throws Exception {
        Deque<Future> under = new ArrayDeque<>();
        long begun = System.nanoTime();
        for (int i = 0; i < BATCH / 4; i++) {
            if (under.size() == PIPELINE) {
                under.remove().touch();
            }
            under.add(node.callFuture(SMALL));
        }
        while (!under.isEmpty()) {
            under.remove().touch();
        }
        if (told) {
            Main.sample("pipelined calls over " + over, "per_second", BATCH / 4 * 1e9 / (System.nanoTime() - begun));
        }
    }
}
