package silf.jojo.bench;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import silf.jojo.Code;
import silf.jojo.Future;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.testkit.DelayProxy;
import silf.jojo.testkit.SshDaemon;

/**
 * The paper's section 6.2: 10,000 jobs of 8 ms on up to 16 workers, the client 300 ms and 0.17 MB/s away; a master at the
 * client (2 layers) or at the head (3 layers). Workers sleep, for a machine here has two processors.
 */
final class Farm {
    private static final double FAR_MS = 300;
    private static final long FAR_BYTES_PER_SECOND = 170_000;
    private static final int JOBS = 10_000;
    private static final long JOB_MS = 8;
    private static final int WORKERS = 16;
    /** Requests under way of each worker, with credit: 300 ms behind jobs of 8 ms need 38. */
    private static final int CREDIT = 64;

    private static final int ASK = 1;
    private static final int TIME = 2;

    /** Seventeen JVMs on two processors would compile for longer than the farm takes: without the second compiler. */
    private static final List<String> JVM = List.of("-Xmx32m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC");

    private Farm() {}

    /** Gives numbers out, and knows when the first was asked for and the last result came. */
    public static class Master extends Code {
        private int jobs;
        private int given;
        private int done;
        private long begun;
        private long took_ns;

        @Override
        public synchronized Object handle(Message message) throws JojoException {
            if (message.tag == TIME) {
                while (took_ns == 0) {
                    try {
                        wait();
                    } catch (InterruptedException e) {
                        throw new JojoException("interrupted");
                    }
                }
                return took_ns;
            }
            long[] asked = (long[]) message.contents;
            if (jobs == 0) {
                jobs = (int) asked[1];
                begun = System.nanoTime();
            }
            if (asked[0] >= 0 && ++done == jobs) {
                took_ns = System.nanoTime() - begun;
                notifyAll();
            }
            return given < jobs ? (long) given++ : -1L;
        }
    }

    /** A master at the client: tells the work when all is done. */
    public static final class ClientMaster extends Master {
        static volatile long took_ns;
        static volatile DelayProxy link;
        static volatile long[] bytes;

        @Override
        public void start() throws JojoException {
            long[] before = link.bytes();
            took_ns = (Long) handle(new Message(TIME, null));
            long[] after = link.bytes();
            bytes = new long[] {after[0] - before[0], after[1] - before[1]};
        }
    }

    /** Asks ahead, does what it is given, in order. */
    public static class Worker extends Code {
        private int jobs;
        private int credit;

        @Override
        @SuppressWarnings("rawtypes")
        public void init(java.util.Map arg) {
            jobs = Integer.parseInt((String) arg.get("jobs"));
            credit = Integer.parseInt((String) arg.get("credit"));
        }

        @Override
        public void start() throws JojoException {
            Deque<Future> asked = new ArrayDeque<>();
            for (int i = 0; i < credit; i++) {
                asked.add(ask(-1));
            }
            while (!asked.isEmpty()) {
                long job = (Long) asked.remove().touch();
                if (job >= 0) {
                    try {
                        TimeUnit.MILLISECONDS.sleep(JOB_MS);
                    } catch (InterruptedException e) {
                        return;
                    }
                    asked.add(ask(job));
                }
            }
        }

        private Future ask(long result) throws JojoException {
            return parent.callFuture(new Message(ASK, new long[] {result, jobs}));
        }
    }

    static void measure() throws Exception {
        Main.note("the client's link: " + FAR_MS + " ms round trip, " + FAR_BYTES_PER_SECOND / 1e6 + " MB/s each way, shared by all"
                + " connections; jobs sleep " + JOB_MS + " ms; from the first request to the last result");
        Main.note("workers' JVMs have " + String.join(" ", JVM) + ": they compile for longer than the farm takes; the head's and the client's have no options");
        Main.note("as the paper: one request under way a worker; with credit: " + CREDIT + "; fewer jobs than " + JOBS
                + " are scaled up, for 2 layers as the paper take minutes");
        one();
        try (SshDaemon sshd = SshDaemon.start()) {
            for (int round = 0; round < Main.rounds(3); round++) {
                for (int workers : round == 0 ? new int[] {1, 2, 4, 8, WORKERS} : new int[] {WORKERS}) {
                    three(sshd, workers, workers == WORKERS ? JOBS : JOBS / 16 * workers);
                    two(sshd, workers, 20 * workers, 1);
                }
                two(sshd, WORKERS, JOBS, CREDIT);
            }
        }
    }

    /** The same jobs without anybody else: the paper's 81.4 s. */
    private static void one() throws Exception {
        int jobs = JOBS / WORKERS;
        long begun = System.nanoTime();
        for (int i = 0; i < jobs; i++) {
            TimeUnit.MILLISECONDS.sleep(JOB_MS);
        }
        long all_ns = (System.nanoTime() - begun) * JOBS / jobs;
        Main.seconds("one node", all_ns);
        for (int workers = 1; workers <= WORKERS; workers *= 2) {
            Main.point("one node", workers, all_ns / 1e9);
        }
    }

    private static void three(SshDaemon sshd, int workers, int jobs) throws Exception {
        try (DelayProxy proxy = new DelayProxy(sshd.address(), FAR_MS, FAR_BYTES_PER_SECOND)) {
            List<NodeSpec> below = new ArrayList<>();
            for (int i = 0; i < workers; i++) {
                below.add(Trees.node("w" + i, Worker.class, Trees.local(JVM.toArray(String[]::new))));
            }
            NodeSpec head = Trees.node("head", Master.class, Trees.ssh(sshd.command(proxy.port())), below.toArray(NodeSpec[]::new));
            Trees.run(List.of(head), properties(jobs, 1), at -> told("3 layers", workers, jobs, (Long) at[0].call(new Message(TIME, null))));
        }
    }

    private static void two(SshDaemon sshd, int workers, int jobs, int credit) throws Exception {
        try (DelayProxy proxy = new DelayProxy(sshd.address(), FAR_MS, FAR_BYTES_PER_SECOND)) {
            List<NodeSpec> below = new ArrayList<>();
            Invocation how = Trees.ssh(sshd.command(proxy.port()));
            Invocation small = new Invocation(how.protocol(), how.javaPath(), JVM, how.command(), 240_000, how.more());
            for (int i = 0; i < workers; i++) {
                below.add(Trees.node("w" + i, Worker.class, small));
            }
            ClientMaster.took_ns = 0;
            ClientMaster.link = proxy;
            Trees.run(ClientMaster.class, below, properties(jobs, credit));
            long took_ns = ClientMaster.took_ns;
            told(credit == 1 ? "2 layers" : "2 layers with credit", workers, jobs, took_ns);
            if (credit > 1) {
                // What passed, as ssh sent it, at the link's rate: the direction that had more.
                long most = Math.max(ClientMaster.bytes[0], ClientMaster.bytes[1]);
                Main.seconds("floor of the bandwidth", most * 1_000_000_000L / FAR_BYTES_PER_SECOND);
                Main.note(ClientMaster.bytes[0] + " bytes to the workers and " + ClientMaster.bytes[1] + " from them for " + jobs + " jobs");
            }
        }
    }

    private static java.util.Properties properties(int jobs, int credit) {
        java.util.Properties properties = new java.util.Properties();
        properties.setProperty("jobs", Integer.toString(jobs));
        properties.setProperty("credit", Integer.toString(credit));
        return properties;
    }

    private static void told(String layers, int workers, int jobs, long took_ns) {
        long all_ns = took_ns * JOBS / jobs;
        Main.seconds(layers + ", " + workers + " workers", all_ns);
        Main.point(layers, workers, all_ns / 1e9);
        Main.point("ideal", workers, JOBS * JOB_MS / 1e3 / workers);
    }
}
