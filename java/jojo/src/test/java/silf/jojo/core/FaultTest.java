package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import silf.jojo.Future;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.program.Body;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;

/** Nodes that die, stop and come back. What only a JVM of its own can meet with is in {@link JvmTest}. */
public final class FaultTest {
    /** What a link says that was given up for its silence (spec/jojo J16). How soon is for `./x bench jojo`. */
    private static final String SILENT = "silent for";

    /** What a machine with other work to do may add. */
    private static final long BUSY_ms = 10_000;

    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    private final Over over;

    public FaultTest(Over over) {
        this.over = over;
        // Of nodes in this JVM; others halt their own.
        Peer.end = Transport::cut;
    }

    private NodeSpec peer(String name, FaultPolicy faults, NodeSpec... children) throws Exception {
        return NodeSpec.of(name, name, Peer.class.getName(), children).withFaults(faults).withInvocation(over.invocation());
    }

    private int run(Body.Test test, NodeSpec... children) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("body", Body.name(test));
        PrintStream to = new PrintStream(err, true, StandardCharsets.UTF_8);
        return new Program(
                        NodeSpec.of("client", "client", Body.class.getName(), children), properties,
                        over.launcher(),
                        FaultTest.class.getClassLoader(), System.out, to)
                .run();
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
            over.life(node).kill();
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
        String mark = UUID.randomUUID().toString();
        NodeSpec marked = peer("pad00", FaultPolicy.GO_ON).withInvocation(over.invocation("-Djojo.mark=" + mark));
        run(client -> {
            Node node = client.child(0);
            Life life = over.life(node);
            Future call = node.callFuture(new Message(Peer.WAIT, null));
            life.stop();
            try {
                NodeLostException e = Check.thrown(NodeLostException.class, call::touch, "a call to the stopped");
                Check.that(e.getMessage().contains(SILENT), e.getMessage());
            } finally {
                Processes.end(mark); // behind ssh nobody else can
            }
            Check.until("nothing is left of it", life::hasEnded);
        }, marked);
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
                node.call(new Message(Peer.NOTE, i));
                over.life(node).kill();
                Check.equal("lost pad00", next(client), "the news");
                Check.equal("joined pad00", next(client), "the news");
                Check.equal(List.of(), node.call(new Message(Peer.NOTES, null)), "what it knows of the one before");
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

    public void a_subtree_that_dies_takes_all_below_it_along_and_comes_back_whole() throws Exception {
        run(client -> {
            Node head = client.child(0);
            Node below = client.below("leaf");
            Life leaf = over.life(below);
            Check.equal(1, below.call(new Message(Peer.ECHO, 1)), "an echo of the leaf");
            over.life(head).kill();
            Check.equal("lost head", next(client), "the news");
            Check.thrown(NodeLostException.class, () -> below.call(new Message(Peer.ECHO, 1)), "a call to a leaf that is gone");
            Check.equal("joined head", next(client), "the news");
            Node found = client.below("leaf");
            Check.that(found.epoch() != below.epoch(), "it is told apart from the one that is gone");
            Check.equal(2, found.call(new Message(Peer.ECHO, 2)), "the leaf that is found now");
            Check.until("the leaf of the dead head has gone", leaf::hasEnded);
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
        }, over.reached(NodeSpec.of("pad00", "pad00", silf.jojo.program.Broken.class.getName()))), "the program");
        Check.that(e.getMessage().contains("pad00") && e.getMessage().contains("Broken.start"), e.getMessage());
    }

    /** J18: ten seconds for those that have begun, and three for nodes to say that they are over. */
    public void a_handler_that_never_returns_keeps_nobody() throws Exception {
        long[] ended_ns = new long[1];
        Life[] life = new Life[1];
        run(client -> {
            life[0] = over.life(client.child(0));
            client.child(0).send(new Message(Peer.STUBBORN, null));
            client.child(0).call(new Message(Peer.ECHO, 1));
            ended_ns[0] = System.nanoTime();
        }, peer("pad00", FaultPolicy.FAIL));
        long took_ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - ended_ns[0]);
        Check.that(took_ms >= Course.HANDLERS_MOST_ms, "its ten seconds were " + took_ms + " ms");
        Check.that(took_ms < Course.HANDLERS_MOST_ms + 3_000 + BUSY_ms, "the program ended after " + took_ms + " ms");
        Check.until("it has ended", life[0]::hasEnded);
    }

    public void a_class_that_is_not_there_is_named() throws Exception {
        JojoException e = Check.thrown(
                JojoException.class, () -> run(client -> {}, over.reached(NodeSpec.of("pad00", "pad00", "no.such.Code"))), "the program");
        Check.that(e.getMessage().contains("no.such.Code") && e.getMessage().contains("class path"), e.getMessage());
    }
}
