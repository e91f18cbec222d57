package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import silf.jojo.Future;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.launch.ProcessLauncher;
import silf.jojo.program.Body;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;
import silf.jojo.testkit.Run;
import silf.jojo.testkit.SshDaemon;

/** Links over a real ssh that is cut while the program runs (spec/jojo J13). */
public final class ResumeTest {
    /** So long that only a link that does not come back reaches it. */
    private static final String LONG_MS = "60000";

    private static final int NOTES = 30_000;

    /** To people. */
    private static final ByteArrayOutputStream SAID = new ByteArrayOutputStream();

    private interface Test {
        void run(Body client, SshDaemon sshd) throws Exception;
    }

    private static void run(String most_ms, FaultPolicy faults, Test test) throws Exception {
        if (SshDaemon.missing() != null) {
            throw new Run.Missing(SshDaemon.missing());
        }
        try (SshDaemon sshd = SshDaemon.start()) {
            Properties properties = new Properties();
            properties.setProperty("body", Body.name(client -> test.run(client, sshd)));
            properties.setProperty(Resumption.PROPERTY, most_ms);
            NodeSpec leaf = NodeSpec.of("leaf", "leaf", Peer.class.getName()).withInvocation(sshd.invocation());
            NodeSpec talks = NodeSpec.of("talks", "talks", Peer.class.getName(), leaf).withInvocation(sshd.invocation()).withFaults(faults);
            NodeSpec notes = NodeSpec.of("notes", "notes", Peer.Orderly.class.getName()).withInvocation(sshd.invocation()).withFaults(faults);
            new Program(
                            NodeSpec.of("client", "client", Body.class.getName(), talks, notes), properties,
                            new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line)),
                            ResumeTest.class.getClassLoader(), System.out, new PrintStream(SAID, true, StandardCharsets.UTF_8))
                    .run();
        }
    }

    private static List<ProcessHandle> daemon() {
        return ProcessHandle.current().children().filter(named("sshd")).toList();
    }

    /** Ends processes that this JVM has started, or they: the ssh of each link, or what sshd has for each. */
    private static int kill(boolean atSshd) {
        Predicate<ProcessHandle> which = named(atSshd ? "sshd" : "ssh");
        List<ProcessHandle> found = ProcessHandle.current().descendants().filter(which).filter(p -> !daemon().contains(p)).toList();
        found.forEach(ProcessHandle::destroyForcibly);
        return found.size();
    }

    private static Predicate<ProcessHandle> named(String name) {
        return p -> p.info().command().map(c -> c.endsWith("/" + name) || c.endsWith("/" + name + "-session")).orElse(false);
    }

    public void a_cut_ssh_is_made_again_and_every_message_comes_once_and_in_order() throws Exception {
        run(LONG_MS, FaultPolicy.FAIL, (client, sshd) -> {
            Node talks = client.child(0);
            Node notes = client.child(1);
            Object[] pid = {0, Peer.PID};
            long leaf = (Long) talks.call(new Message(Peer.RELAY, pid));
            Future talk = talks.callFuture(new Message(Peer.FLOOD, NOTES));
            int sent = 0;
            for (int round = 0; round < 4; round++) {
                int killed = kill(round % 2 == 1);
                Check.that(killed >= 2, killed + " links of two were cut");
                for (int end = sent + NOTES / 4; sent < end; sent++) {
                    notes.send(new Message(Peer.NOTE, sent));
                }
                Check.equal(round, talks.call(new Message(Peer.ECHO, round)), "an echo after cut " + round);
                Check.equal(round, notes.call(new Message(Peer.ECHO, round)), "an echo after cut " + round);
            }
            talk.touch();
            List<?> came = (List<?>) notes.call(new Message(Peer.NOTES, null));
            Check.equal(sent, came.size(), "notes that came");
            for (int i = 0; i < sent; i++) {
                Check.equal(i, came.get(i), "the note in place " + i);
            }
            TreeSet<Object> heard = new TreeSet<>();
            while (heard.size() < NOTES) {
                Message one = client.messages.poll(60, TimeUnit.SECONDS);
                Check.that(one != null, "no more than " + heard.size() + " words came");
                Check.that(heard.add(one.contents), one.contents + " came twice");
            }
            Check.that(client.messages.isEmpty(), "more came than was said");
            Check.equal(leaf, talks.call(new Message(Peer.RELAY, pid)), "the JVM of the leaf, which was there all the time");
            Check.that(client.news.isEmpty(), "news of " + client.news);
        });
    }

    public void a_time_that_is_none_is_refused_before_anything_is_started() {
        for (String bad : List.of("soon", "-1", "3 s", "", "9999999999")) {
            Properties properties = new Properties();
            properties.setProperty(Resumption.PROPERTY, bad);
            IllegalArgumentException e = Check.thrown(IllegalArgumentException.class, () -> new Program(
                    NodeSpec.of("client", "client", Body.class.getName()), properties, Transport.memory(),
                    ResumeTest.class.getClassLoader(), System.out, System.err), bad);
            Check.that(e.getMessage().contains(Resumption.PROPERTY), e.getMessage());
        }
    }

    public void a_jvm_that_ends_behind_ssh_is_lost_at_once() throws Exception {
        run(LONG_MS, FaultPolicy.GO_ON, (client, sshd) -> {
            Node talks = client.child(0);
            Future waits = talks.callFuture(new Message(Peer.WAIT, null));
            Processes.kill((Long) talks.call(new Message(Peer.PID, null)), "KILL");
            NodeLostException e = Check.thrown(NodeLostException.class, waits::touch, "a call to the dead");
            Check.equal("talks", e.node(), "the node that is named");
            Check.until("it is said how it ended", () -> SAID.toString(StandardCharsets.UTF_8).contains(
                    "node talks is lost: closed by the other side; the command to it ended with status 99"));
            Check.equal("up", client.child(1).call(new Message(Peer.ECHO, "up")), "an echo of the other");
        });
    }

    public void a_link_that_does_not_come_back_is_lost_and_its_jvm_ends() throws Exception {
        run("200", FaultPolicy.GO_ON, (client, sshd) -> {
            Node talks = client.child(0);
            long head = (Long) talks.call(new Message(Peer.PID, null));
            long leaf = (Long) talks.call(new Message(Peer.RELAY, new Object[] {0, Peer.PID}));
            Future waits = talks.callFuture(new Message(Peer.WAIT, null));
            sshd.stop(); // others of this JVM's serve other tests
            kill(false);
            Check.thrown(NodeLostException.class, waits::touch, "a call over a link that is cut");
            for (long pid : new long[] {head, leaf}) {
                Check.until("JVM " + pid + " has ended", () -> ProcessHandle.of(pid).isEmpty());
            }
        });
    }
}
