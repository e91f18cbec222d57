package silf.jojo.bench;

import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import silf.jojo.Code;
import silf.jojo.Future;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.testkit.Processes;
import silf.jojo.testkit.SshDaemon;

/** How soon whoever waits for a node is told that it is lost: a child, a grandchild, a sibling; killed, or stopped. */
final class Lost {
    private static final int PID = 1;
    private static final int WAIT = 2;
    private static final int ASK_SIBLING = 3;
    /** For calls to be with their handlers. */
    private static final long UNDER_WAY_MS = 200;

    private Lost() {}

    /** Answers late: never. */
    public static final class Waits extends Code {
        @Override
        public Object handle(Message message) throws JojoException {
            switch (message.tag) {
                case PID:
                    return ProcessHandle.current().pid();
                case WAIT:
                    try {
                        TimeUnit.DAYS.sleep(1);
                    } catch (InterruptedException e) {
                        // its end
                    }
                    return null;
                default:
                    // Of this machine's one monotonic clock, which all its JVMs read.
                    return lost_ns(siblings[1].callFuture(new Message(WAIT, null)));
            }
        }
    }

    private static long lost_ns(Future call) throws JojoException {
        try {
            call.touch();
        } catch (NodeLostException e) {
            return System.nanoTime();
        }
        throw new JojoException("an answer of one that never answers");
    }

    static void measure() throws Exception {
        Main.note("from the signal until the exception of a call that waits, the client's to a child or grandchild, a node's to its sibling;"
                + " SIGKILL closes the wire (by ssh: when ssh has told), SIGSTOP leaves it silent, for 7 s until it is given up");
        try (SshDaemon sshd = SshDaemon.start()) {
            for (int i = 0; i < Main.rounds(30); i++) {
                round("KILL", "a pipe", Trees.local());
                round("KILL", "ssh", Trees.ssh(sshd.command()));
            }
            for (int i = 0; i < Main.rounds(10); i++) {
                round("STOP", "a pipe", Trees.local());
                round("STOP", "ssh", Trees.ssh(sshd.command()));
            }
        }
    }

    /** What is stopped behind ssh nobody else can end. */
    private static void round(String signal, String over, Invocation how) throws Exception {
        String mark = UUID.randomUUID().toString();
        try {
            marked(signal, over, new Invocation(
                    how.protocol(), how.javaPath(), List.of("-Djojo.mark=" + mark), how.command(), how.launchMost_ms(), how.more()));
        } finally {
            Processes.end(mark);
        }
    }

    private static void marked(String signal, String over, Invocation how) throws Exception {
        NodeSpec leaf = Trees.node("leaf", Waits.class, how).withFaults(FaultPolicy.GO_ON);
        NodeSpec head = Trees.node("head", Waits.class, how, leaf).withFaults(FaultPolicy.GO_ON);
        NodeSpec other = Trees.node("other", Waits.class, how).withFaults(FaultPolicy.GO_ON);
        Trees.run(List.of(head, other), below -> {
            Node deep = Trees.find("leaf");
            Future grandchild = deep.callFuture(new Message(WAIT, null));
            long of_ns = signalled(signal, deep);
            told(signal, "a grandchild", over, lost_ns(grandchild) - of_ns);
            Future child = below[1].callFuture(new Message(WAIT, null));
            Future sibling = below[0].callFuture(new Message(ASK_SIBLING, null));
            of_ns = signalled(signal, below[1]);
            told(signal, "a child", over, lost_ns(child) - of_ns);
            told(signal, "a sibling", over, (Long) sibling.touch() - of_ns);
        });
    }

    private static void told(String signal, String whom, String over, long ns) {
        Main.seconds("SIG" + signal, ns);
        Main.seconds("SIG" + signal + " of " + whom + " over " + over, ns);
    }

    /** When it was. */
    private static long signalled(String signal, Node node) throws Exception {
        long pid = (Long) node.call(new Message(PID, null));
        Thread.sleep(UNDER_WAY_MS);
        long now = System.nanoTime();
        Processes.kill(pid, signal);
        return now;
    }
}
