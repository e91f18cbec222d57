package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import silf.jojo.Future;
import silf.jojo.JojoException;
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

/** Nodes that die, stop and come back: JVMs that are killed. */
public final class FaultTest {
    /** What a link says that was given up for its silence (spec/jojo J16). How soon is for `./x bench jojo`. */
    private static final String SILENT = "silent for";

    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    private static NodeSpec peer(String name, FaultPolicy faults, NodeSpec... children) {
        return NodeSpec.of(name, name, Peer.class.getName(), children).withFaults(faults);
    }

    private int run(Body.Test test, NodeSpec... children) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("body", Body.name(test));
        PrintStream to = new PrintStream(err, true, StandardCharsets.UTF_8);
        return new Program(
                        NodeSpec.of("client", "client", Body.class.getName(), children), properties,
                        new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line)),
                        FaultTest.class.getClassLoader(), System.out, to)
                .run();
    }

    private static long pid(Node node) throws JojoException {
        return (Long) node.call(new Message(Peer.PID, null));
    }

    private static String next(Body client) throws InterruptedException {
        return client.news.poll(60, TimeUnit.SECONDS);
    }

    public void calls_to_a_node_that_dies_end_at_once_and_name_it() throws Exception {
        run(client -> {
            Node node = client.child(0);
            List<Future> calls = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                calls.add(node.callFuture(new Message(Peer.WAIT, null)));
            }
            Future bySibling = client.child(1).callFuture(new Message(Peer.ECHO, "up"));
            bySibling.touch();
            long pid = pid(node);
            Processes.kill(pid, "KILL");
            for (Future call : calls) {
                NodeLostException e = Check.thrown(NodeLostException.class, call::touch, "a call to the dead");
                Check.equal("pad00", e.node(), "the node named");
                Check.that(!e.getMessage().contains(SILENT), "by its end, not its silence: " + e.getMessage());
            }
            Check.equal("lost pad00", next(client), "the news");
            Check.that(!node.alive(), "it is said to be alive");
            Check.thrown(NodeLostException.class, () -> node.call(new Message(Peer.ECHO, 1)), "a call after that");
            Check.until("the sibling knows", () -> client.child(1).call(new Message(Peer.NEWS, null))
                    .equals(List.of("lost pad00")));
        }, peer("pad00", FaultPolicy.GO_ON), peer("pad01", FaultPolicy.GO_ON));
    }

    public void a_node_that_is_stopped_is_lost_for_its_silence() throws Exception {
        run(client -> {
            Node node = client.child(0);
            long pid = pid(node);
            Future call = node.callFuture(new Message(Peer.WAIT, null));
            Processes.kill(pid, "STOP");
            NodeLostException e = Check.thrown(NodeLostException.class, call::touch, "a call to the stopped");
            Check.that(e.getMessage().contains(SILENT), e.getMessage());
        }, peer("pad00", FaultPolicy.GO_ON));
    }

    public void a_lost_node_ends_the_program_unless_a_policy_says_otherwise() throws Exception {
        JojoException e = Check.thrown(JojoException.class, () -> run(client -> {
            client.child(0).send(new Message(Peer.DIE, null));
            client.messages.take();
        }, peer("pad00", FaultPolicy.FAIL)), "the program");
        Check.that(e.getMessage().contains("pad00"), e.getMessage());
    }

    public void a_node_is_started_again_in_its_place() throws Exception {
        run(client -> {
            Node node = client.child(0);
            for (int i = 0; i < 3; i++) {
                long before = pid(node);
                Processes.kill(before, "KILL");
                Check.equal("lost pad00", next(client), "the news");
                Check.equal("joined pad00", next(client), "the news");
                Check.that(pid(node) != before, "it is the same process");
                Check.equal(0, node.call(new Message(Peer.RANK, null)), "its rank");
            }
            Check.equal("pad00", client.child(1).call(new Message(Peer.ASK_SIBLING, 0)), "what the sibling hears from it");
        }, peer("pad00", new FaultPolicy(FaultPolicy.Kind.RESTART, 5, 60_000, 10)), peer("pad01", FaultPolicy.FAIL));
    }

    public void restarts_are_not_endless() throws Exception {
        JojoException e = Check.thrown(JojoException.class, () -> run(client -> {
            for (;;) {
                client.child(0).send(new Message(Peer.DIE, null));
                next(client);
                next(client);
            }
        }, peer("pad00", new FaultPolicy(FaultPolicy.Kind.RESTART, 2, 60_000, 10))), "the program");
        Check.that(e.getMessage().contains("pad00") && e.getMessage().contains("2 times"), e.getMessage());
    }

    public void a_spare_takes_the_place_of_the_lost() throws Exception {
        JojoException e = Check.thrown(JojoException.class, () -> run(client -> {
            Check.equal(2, client.children().length, "places");
            client.child(1).send(new Message(Peer.DIE, null));
            Check.equal("lost pad01", next(client), "the news");
            Check.equal("joined pad01", next(client), "the news");
            Check.equal(1, client.child(1).call(new Message(Peer.RANK, null)), "the spare's rank");
            client.child(1).send(new Message(Peer.DIE, null));
            client.messages.take();
        }, peer("pad00", FaultPolicy.FAIL), peer("pad01", FaultPolicy.SPARE), peer("extra", FaultPolicy.FAIL).asSpare()),
                "the program");
        Check.that(e.getMessage().contains("no spare is left"), e.getMessage());
    }

    public void a_subtree_that_dies_takes_its_processes_along_and_comes_back_whole() throws Exception {
        run(client -> {
            Node head = client.child(0);
            long leaf = (Long) head.call(new Message(Peer.RELAY, new Object[] {0, Peer.PID}));
            Node below = client.below("leaf");
            Check.equal(1, below.call(new Message(Peer.ECHO, 1)), "an echo of the leaf");
            Processes.kill(pid(head), "KILL");
            Check.equal("lost head", next(client), "the news");
            Check.thrown(NodeLostException.class, () -> below.call(new Message(Peer.ECHO, 1)), "a call to a leaf that is gone");
            Check.equal("joined head", next(client), "the news");
            Check.equal(2, client.below("leaf").call(new Message(Peer.ECHO, 2)), "the leaf that is found now");
            Check.until("the leaf of the dead head has gone", () -> !ProcessHandle.of(leaf).map(ProcessHandle::isAlive).orElse(false));
            Check.equal("deep", head.call(new Message(Peer.RELAY, new Object[] {0, Peer.ECHO})), "a new leaf");
        }, peer("head", FaultPolicy.RESTART, peer("leaf", FaultPolicy.FAIL)));
    }

    public void nodes_join_and_leave_while_the_program_runs() throws Exception {
        run(client -> {
            Node added = client.add(peer("late", FaultPolicy.FAIL));
            Check.equal("joined late", next(client), "the news");
            Check.equal(1, added.rank(), "its rank");
            Check.equal("late", client.child(0).call(new Message(Peer.ASK_SIBLING, 1)), "what its sibling hears");
            client.drop(added);
            Check.equal("lost late", next(client), "the news");
            Check.thrown(NodeLostException.class, () -> added.call(new Message(Peer.ECHO, 1)), "a call after that");
            Check.equal(0, client.child(0).call(new Message(Peer.RANK, null)), "the rank of who stayed");
        }, peer("pad00", FaultPolicy.FAIL));
    }

    public void a_start_that_throws_ends_the_program_with_its_trace() throws Exception {
        JojoException e = Check.thrown(JojoException.class, () -> run(client -> {
            client.messages.take();
        }, NodeSpec.of("pad00", "pad00", silf.jojo.program.Broken.class.getName())), "the program");
        Check.that(e.getMessage().contains("pad00") && e.getMessage().contains("Broken.start"), e.getMessage());
    }

    public void a_class_that_is_not_there_is_named() throws Exception {
        JojoException e = Check.thrown(
                JojoException.class, () -> run(client -> {}, NodeSpec.of("pad00", "pad00", "no.such.Code")), "the program");
        Check.that(e.getMessage().contains("no.such.Code") && e.getMessage().contains("class path"), e.getMessage());
    }

    public void a_message_that_does_not_fit_into_the_heap_is_refused_with_its_size() throws Exception {
        NodeSpec.Invocation small = new NodeSpec.Invocation(
                "local", "java", List.of("-Xmx24m"), List.of(), 60_000, java.util.Map.of());
        run(client -> {
            JojoException e = Check.thrown(
                    JojoException.class, () -> Contract.echo(client.child(0), new byte[40 << 20]), "40 MB for 24");
            Check.that(e.getMessage().contains("too large"), e.getMessage());
            Check.equal(7, Contract.echo(client.child(0), 7), "an echo after that");
        }, peer("pad00", FaultPolicy.FAIL).withInvocation(small));
    }
}
