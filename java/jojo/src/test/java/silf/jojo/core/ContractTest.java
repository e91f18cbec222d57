package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import silf.jojo.Context;
import silf.jojo.Future;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.RemoteException;
import silf.jojo.config.NodeSpec;
import silf.jojo.program.Body;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;

/** What every transport must do: the tests of {@code silf.jojo}'s promises. */
public final class ContractTest {
    static final int TEST_MOST_S = 60;

    private final Over over;

    public ContractTest(Over over) {
        this.over = over;
    }

    private NodeSpec.Invocation invocation() throws Exception {
        return over.invocation();
    }

    /** What nodes printed, line by line. */
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    private final NodeSpec peer(String name, NodeSpec... children) throws Exception {
        return NodeSpec.of(name, name, Peer.class.getName(), children).withInvocation(invocation());
    }

    private final NodeSpec[] peers(int count) throws Exception {
        NodeSpec[] peers = new NodeSpec[count];
        for (int i = 0; i < count; i++) {
            peers[i] = peer("pad0" + i);
        }
        return peers;
    }

    private final int run(Body.Test test, NodeSpec... children) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("body", Body.name(test));
        NodeSpec root = NodeSpec.of("client", "client", Body.class.getName(), children);
        return new Program(
                        root, properties, over.launcher(), ContractTest.class.getClassLoader(),
                        new PrintStream(out, true, StandardCharsets.UTF_8),
                        new PrintStream(err, true, StandardCharsets.UTF_8))
                .run();
    }

    static Object echo(Node node, java.io.Serializable contents) throws JojoException {
        return node.call(new Message(Peer.ECHO, contents));
    }

    public void values_of_every_kind_come_back_as_they_went() throws Exception {
        run(client -> {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("a", 1);
            map.put("b", List.of("x", 2.5));
            Object[] rows = {
                null, true, false, (byte) -1, (short) -2, 'x', -3, 1L << 40, 1.5f, Math.PI, "text", "", "\u00e9\ud83d\ude00",
                "lone \ud83d", new byte[] {1, 2}, new short[] {3}, new char[] {'y'}, new int[0], new long[] {1, -1},
                new float[] {1f}, new double[] {Double.NaN, 2}, new boolean[] {true, false}, new ArrayList<>(List.of(1, "2")),
                map, new HashMap<>(Map.of(1, 2)), new Object[] {1, "x", null}, new String[] {"a", null},
                new Peer.Point(1, 2, "p", new ArrayList<>(List.of(1, 2))), Peer.Colour.GREEN, new java.math.BigInteger("123"),
                new LinkedList<>(List.of(1, 2)), new int[][] {{1}, {2, 3}}, java.time.Instant.EPOCH, new java.util.BitSet(),
                java.util.EnumSet.of(Peer.Colour.RED), new java.util.TreeMap<>(Map.of("k", "v")), java.util.UUID.randomUUID(),
                new Peer.Point[] {new Peer.Point(1, 2, null, null)},
            };
            for (Object row : rows) {
                Object back = echo(client.child(0), (java.io.Serializable) row);
                Check.equal(row, back, "echo of " + (row == null ? "null" : row.getClass()));
            }
        }, peer("pad00"));
    }

    public void an_object_twice_in_a_message_is_one_object_there_too() throws Exception {
        run(client -> {
            ArrayList<Object> inner = new ArrayList<>(List.of(1));
            ArrayList<Object> outer = new ArrayList<>(Arrays.asList(inner, inner));
            outer.add(outer);
            List<?> back = (List<?>) echo(client.child(0), outer);
            Check.that(back.get(0) == back.get(1), "two lists came of one");
            Check.that(back.get(2) == back, "a cycle was opened");
        }, peer("pad00"));
    }

    public void large_arrays_pass_whole() throws Exception {
        run(client -> {
            double[] many = new double[1_000_003];
            Arrays.setAll(many, i -> i * 0.5);
            Check.that(Arrays.equals(many, (double[]) echo(client.child(0), many)), "doubles differ");
            byte[] bytes = new byte[3_000_001];
            new java.util.Random(1).nextBytes(bytes);
            Check.that(Arrays.equals(bytes, (byte[]) echo(client.child(0), bytes)), "bytes differ");
            Object[] mixed = {bytes, "between", many};
            Object[] back = (Object[]) echo(client.child(0), mixed);
            Check.that(Arrays.equals(bytes, (byte[]) back[0]) && Arrays.equals(many, (double[]) back[2]), "mixed differ");
        }, peer("pad00"));
    }

    /** When nothing was said of credit yet, and pieces of it are all that there is. */
    public void the_first_message_to_a_node_may_have_any_size() throws Exception {
        int[] sizes = {28_000, 50_000, 57_000, 65_000};
        run(client -> {
            for (int i = 0; i < sizes.length; i++) {
                byte[] bytes = new byte[sizes[i]];
                new java.util.Random(i).nextBytes(bytes);
                Check.that(Arrays.equals(bytes, (byte[]) echo(client.child(i), bytes)), sizes[i] + " bytes differ");
            }
        }, peers(sizes.length));
    }

    public void messages_of_several_pieces_that_all_begin_at_once_all_end() throws Exception {
        int many = 200;
        run(client -> {
            ConcurrentLinkedQueue<Object> wrong = new ConcurrentLinkedQueue<>();
            Thread[] callers = new Thread[many];
            for (int i = 0; i < many; i++) {
                byte[] bytes = new byte[30_000 + 200 * i];
                Arrays.fill(bytes, (byte) i);
                callers[i] = new Thread(() -> {
                    try {
                        if (!Arrays.equals(bytes, (byte[]) echo(client.child(0), bytes))) {
                            wrong.add(bytes.length);
                        }
                    } catch (JojoException e) {
                        wrong.add(e);
                    }
                });
                callers[i].start();
            }
            for (Thread caller : callers) {
                caller.join();
            }
            Check.that(wrong.isEmpty(), wrong.toString());
        }, peer("pad00"));
    }

    public void a_large_message_goes_out_whole_or_not_at_all_when_its_sender_is_interrupted() throws Exception {
        run(client -> {
            Thread sender = Thread.currentThread();
            List<Integer> sent = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                int[] large = new int[1 << 16];
                large[0] = i;
                Thread interrupts = new Thread(sender::interrupt);
                interrupts.start();
                try {
                    client.child(0).send(new Message(Peer.NOTE, large));
                    sent.add(i);
                } catch (JojoException e) {
                    Check.that(e.getMessage().contains("interrupted"), e.toString());
                }
                while (interrupts.isAlive()) {
                    Thread.onSpinWait();
                }
                Check.that(Thread.interrupted(), "the interrupt was forgotten");
            }
            List<?> notes = (List<?>) client.child(0).call(new Message(Peer.NOTES, null));
            Check.equal(sent, notes.stream().map(note -> ((int[]) note)[0]).toList(), "what came of what was sent");
        }, NodeSpec.of("pad00", "pad00", Peer.Orderly.class.getName()).withInvocation(invocation()));
    }

    public void messages_of_one_sender_are_handled_in_the_order_in_which_they_were_sent() throws Exception {
        int count = 20_000;
        run(client -> {
            Node node = client.child(0);
            for (int i = 0; i < count; i++) {
                node.send(new Message(Peer.NOTE, i % 1000 == 0 ? new int[] {i, 0} : i));
            }
            List<?> notes = (List<?>) node.call(new Message(Peer.NOTES, null));
            Check.equal(count, notes.size(), "messages that came");
            for (int i = 0; i < count; i++) {
                Object note = notes.get(i);
                Check.equal(i, note instanceof int[] array ? array[0] : note, "the message in place " + i);
            }
        }, NodeSpec.of("pad00", "pad00", Peer.Orderly.class.getName()).withInvocation(invocation()));
    }

    public void an_exception_in_handle_travels_to_the_caller_with_its_remote_trace() throws Exception {
        run(client -> {
            RemoteException e = Check.thrown(
                    RemoteException.class, () -> client.child(1).call(new Message(Peer.FAIL, "luck")), "a failing handler");
            Check.equal("pad01", e.node(), "the node that is named");
            Check.equal(Peer.Own.class.getName(), e.type(), "the type");
            Check.that(e.getMessage().contains("no luck") && e.remoteTrace().contains("Peer.act"), e.remoteTrace());
            Check.that(e.getCause() instanceof Peer.Own, "the cause: " + e.getCause());
        }, peers(2));
    }

    public void a_handler_that_waits_holds_up_no_other() throws Exception {
        run(client -> {
            List<Future> waiting = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                waiting.add(client.child(0).callFuture(new Message(Peer.WAIT, null)));
            }
            Check.equal("x", echo(client.child(0), "x"), "an answer beside them");
            client.child(0).send(new Message(Peer.RELEASE, null));
            for (Future future : waiting) {
                Check.equal("released", future.touch(), "a handler that waited");
            }
        }, peer("pad00"));
    }

    public void handlers_may_call_back_and_be_called_back_again() throws Exception {
        run(client -> {
            Check.equal(1, client.child(0).call(new Message(Peer.BOUNCE, 1)), "one bounce");
        }, peer("pad00"));
        run(client -> {
            Object[] down = {0, Peer.BOUNCE};
            Check.thrown(JojoException.class, () -> client.child(0).call(new Message(Peer.RELAY, down)), "a text bounced");
            Check.equal("deep", client.child(0).call(new Message(Peer.RELAY, new Object[] {0, Peer.ECHO})), "an echo below");
        }, peer("head", peer("leaf")));
    }

    public void siblings_reach_each_other() throws Exception {
        run(client -> {
            for (int from = 0; from < 3; from++) {
                for (int to = 0; to < 3; to++) {
                    Check.equal("pad0" + to, client.child(from).call(new Message(Peer.ASK_SIBLING, to)),
                            "what " + from + " heard from " + to);
                }
            }
        }, peers(3));
    }

    /** Whatever the route, and while it changes. */
    public void messages_between_siblings_come_once_and_in_order() throws Exception {
        int piece = 5_000;
        run(client -> {
            for (int i = 0; i < 4; i++) {
                client.child(0).call(new Message(Peer.FLOOD_SIBLING, new int[] {1, i * piece, (i + 1) * piece}));
            }
            Node to = client.child(1);
            Check.until("all have come", () -> ((List<?>) to.call(new Message(Peer.NOTES, null))).size() >= 4 * piece);
            List<?> notes = (List<?>) to.call(new Message(Peer.NOTES, null));
            Check.equal(4 * piece, notes.size(), "notes");
            for (int i = 0; i < notes.size(); i++) {
                Check.equal(i, notes.get(i) instanceof int[] array ? array[0] : notes.get(i), "the note in place " + i);
            }
        }, peer("pad00"), NodeSpec.of("pad01", "pad01", Peer.Orderly.class.getName()).withInvocation(invocation()));
    }

    public void a_tree_of_four_levels_answers_from_its_leaves() throws Exception {
        run(client -> {
            Check.equal("deep", client.child(0).call(new Message(Peer.RELAY, new Object[] {1, 0, Peer.ECHO})), "from a leaf");
            Check.equal(1, client.child(0).call(new Message(Peer.RELAY, new Object[] {1, Peer.RANK})), "a rank");
        }, peer("head", peer("a"), peer("b", peer("c"))));
    }

    public void a_node_far_below_is_found_and_called_past_the_nodes_between() throws Exception {
        run(client -> {
            Node deep = client.below("c");
            Check.equal("c", deep.call(new Message(Peer.SELF, null)), "who answers");
            Check.equal("x", echo(deep, "x"), "an echo");
            double[] many = new double[100_001];
            Arrays.setAll(many, i -> i);
            Check.that(Arrays.equals(many, (double[]) echo(deep, many)), "doubles differ");
            Check.thrown(JojoException.class, () -> client.below("nobody"), "a name that nobody has");
            Check.equal("head", client.below("head").name(), "a child is found as well");
        }, peer("head", peer("a"), peer("b", peer("c"))));
    }

    public void futures_contexts_and_completable_futures_bring_the_answer() throws Exception {
        run(client -> {
            Node node = client.child(0);
            Check.equal(1, node.callFuture(new Message(Peer.ECHO, 1)).touch(), "touch");
            LinkedBlockingQueue<Object> ran = new LinkedBlockingQueue<>();
            node.callWithContext(new Message(Peer.ECHO, 2), ran::add);
            Check.equal(2, ran.poll(TEST_MOST_S, TimeUnit.SECONDS), "run of a context");
            node.callWithContext(new Message(Peer.FAIL, 2), new Context() {
                @Override
                public void run(Object o) {
                    ran.add("ran");
                }

                @Override
                public void failed(JojoException e) {
                    ran.add(e);
                }
            });
            Check.that(ran.poll(TEST_MOST_S, TimeUnit.SECONDS) instanceof RemoteException, "failed of a context");
            CompletableFuture<Object> future = node.callFuture(new Message(Peer.ECHO, 3)).toCompletableFuture();
            Check.equal(4, future.thenApply(x -> (Integer) x + 1).get(TEST_MOST_S, TimeUnit.SECONDS), "thenApply");
            ExecutionException e = Check.thrown(
                    ExecutionException.class,
                    () -> node.callFuture(new Message(Peer.FAIL, 3)).toCompletableFuture().get(), "a failure");
            Check.that(e.getCause() instanceof RemoteException, "its cause: " + e.getCause());
        }, peer("pad00"));
    }

    public void a_call_that_is_given_up_interrupts_its_handler() throws Exception {
        run(client -> {
            Node node = client.child(0);
            // More than once: a call that is given up before its handler has begun interrupts nothing.
            Check.until("a handler is interrupted", () -> {
                Check.thrown(
                        JojoException.class, () -> node.call(new Message(Peer.SLEEP, 50_000), Duration.ofMillis(50)), "a deadline");
                return (Boolean) node.call(new Message(Peer.WAS_INTERRUPTED, null));
            });
            Future future = node.callFuture(new Message(Peer.SLEEP, 50_000));
            Check.that(future.cancel(), "it was answered already");
            Check.thrown(JojoException.class, future::touch, "touch of a cancelled call");
            Check.that(!future.cancel(), "it was cancelled twice");
        }, peer("pad00"));
    }

    public void what_nodes_print_arrives_with_their_names() throws Exception {
        run(client -> {
            client.child(0).call(new Message(Peer.ECHO, null));
            client.child(1).call(new Message(Peer.RELAY, new Object[] {0, Peer.PRINT}));
        }, peer("pad00"), peer("head", peer("leaf")));
        if (over == Over.PIPE || over == Over.SSH) {
            Check.equal("[leaf] deep\n", out.toString(StandardCharsets.UTF_8), "stdout");
            Check.that(err.toString(StandardCharsets.UTF_8).contains("[leaf] err deep\n"), "stderr: " + err);
        }
    }

    public void all_below_are_asked_by_tree() throws Exception {
        run(client -> {
            Check.equal(List.of("head", "a", "b", "pad"), client.all(new Message(Peer.SELF, null)), "gather");
            Check.equal(0 + 0 + 1 + 1, client.sum(new Message(Peer.RANK, null), new Body.Sum()), "reduce of ranks");
            client.tellAll(new Message(Peer.NOTE, "all"));
            Check.until("all have it", () -> client.all(new Message(Peer.NOTES, null))
                    .equals(List.of(List.of("all"), List.of("all"), List.of("all"), List.of("all"))));
        }, peer("head", peer("a"), peer("b")), peer("pad"));
    }

    public void a_flood_of_messages_is_taken_whole() throws Exception {
        int count = 100_000;
        run(client -> {
            client.child(0).call(new Message(Peer.FLOOD, count));
            Check.until("all have come", () -> client.messages.size() == count);
        }, peer("pad00"));
    }

    public void a_sender_waits_for_a_receiver_that_does_not_take() throws Exception {
        int count = 8_000;
        run(client -> {
            Node node = client.child(0);
            java.util.concurrent.atomic.AtomicInteger sent = new java.util.concurrent.atomic.AtomicInteger();
            node.send(new Message(Peer.SLEEP, 1500));
            Thread flood = new Thread(() -> {
                try {
                    for (int i = 0; i < count; i++) {
                        node.send(new Message(Peer.NOTE, new byte[1000]));
                        sent.incrementAndGet();
                    }
                } catch (JojoException e) {
                    throw new IllegalStateException(e);
                }
            });
            flood.start();
            flood.join(1000);
            Check.that(sent.get() < 2_000, sent + " kB are on their way to one who takes nothing");
            flood.join();
            Check.equal(count, ((List<?>) node.call(new Message(Peer.NOTES, null))).size(), "notes in the end");
        }, NodeSpec.of("pad00", "pad00", Peer.Orderly.class.getName()).withInvocation(invocation()));
    }

    public void an_answer_of_another_type_or_too_late_is_an_exception() throws Exception {
        run(client -> {
            Node node = client.child(0);
            ExecutionException e = Check.thrown(
                    ExecutionException.class, () -> node.ask("x", String.class).get(), "a tag that nobody handles");
            Check.that(e.getCause() instanceof RemoteException, "the cause: " + e.getCause());
            Check.thrown(ExecutionException.class, () -> node.ask(1, String.class, Duration.ofMillis(1)).get(), "a late one");
        }, peer("pad00"));
    }

    public void an_answer_of_the_type_that_was_asked_for_comes() throws Exception {
        run(client -> {
            Node node = client.child(0);
            Check.equal(14, node.ask(7, Integer.class).get(TEST_MOST_S, TimeUnit.SECONDS), "an Integer");
            Check.equal("77", node.ask("7", String.class, Duration.ofSeconds(TEST_MOST_S)).get(), "a String");
            ExecutionException e = Check.thrown(ExecutionException.class, () -> node.ask(7, String.class).get(), "another type");
            Check.that(e.getCause() instanceof ClassCastException, "the cause: " + e.getCause());
        }, NodeSpec.of("twice", "twice", silf.jojo.program.Twice.class.getName()).withInvocation(invocation()));
    }

    public void synchronized_makes_handlers_exclusive_and_without_it_they_run_at_the_same_time() throws Exception {
        run(client -> {
            Check.equal(1, inside(client.child(0), 200), "handlers at the same time, synchronized");
            Check.until("several at the same time", () -> inside(client.child(1), 200) > 1);
        }, NodeSpec.of("pad00", "pad00", Peer.Exclusive.class.getName()).withInvocation(invocation()), peer("pad01"));
    }

    private static int inside(Node node, int calls) throws JojoException {
        List<Future> all = new ArrayList<>();
        for (int i = 0; i < calls; i++) {
            all.add(node.callFuture(new Message(Peer.ENTER, null)));
        }
        int most = 0;
        for (Future each : all) {
            most = Math.max(most, (Integer) each.touch());
        }
        return most;
    }

    /** No lock is held while a sender waits for credit. */
    public void a_sender_of_bulk_that_waits_holds_up_nobody_else() throws Exception {
        run(client -> {
            Node slow = client.child(0);
            Future sleeps = slow.callFuture(new Message(Peer.SLEEP, 60_000));
            Thread bulk = new Thread(() -> {
                try {
                    for (int i = 0; i < 500; i++) {
                        slow.send(new Message(Peer.NOTE, new byte[60_000])); // larger ones the node may have room for
                    }
                } catch (JojoException e) {
                    throw new IllegalStateException(e);
                }
            });
            bulk.start();
            Check.until("it waits for credit", () -> bulk.getState() == Thread.State.WAITING);
            for (int i = 0; i < 100; i++) {
                Check.equal(i, echo(client.child(1), i), "an echo of another node");
            }
            slow.send(new Message(Peer.NOTE, "small")); // what bulk leaves to small messages
            Check.that(bulk.isAlive(), "it did not wait");
            sleeps.cancel();
            bulk.join();
        }, NodeSpec.of("pad00", "pad00", Peer.Orderly.class.getName()).withInvocation(invocation()), peer("pad01"));
    }

    /** J31: what a program has join is held to what a file is held to. */
    public void a_subtree_joins_and_what_no_file_may_say_is_refused() throws Exception {
        run(client -> {
            Node head = client.add(peer("late", peer("below")));
            Check.equal("joined late", client.news.poll(TEST_MOST_S, TimeUnit.SECONDS), "the news");
            Check.equal("deep", head.call(new Message(Peer.RELAY, new Object[] {0, Peer.ECHO})), "the node below it");
            Check.equal("below", client.below("below").call(new Message(Peer.SELF, null)), "the same, found");
            Check.equal("later", client.child(0).call(new Message(Peer.JOIN, peer("later"))), "one that joins below another");
            NodeSpec good = peer("good");
            NodeSpec.Invocation how = good.invocation();
            Object[][] rows = {
                {NodeSpec.of("-oProxyCommand=x", "-oProxyCommand=x", "A"), "no - at its beginning"},
                {NodeSpec.of("a", "a b", "A"), "no host name"},
                {NodeSpec.of("a", "a", "not a class"), "no name of a class"},
                {NodeSpec.of("", "a", "A"), "a name is"},
                {peer("a", NodeSpec.of("b", "-b", "A")), "no - at its beginning"},
                {peer("a", peer("b"), peer("b")), "there twice"},
                {peer("a", deep(Path.DEPTH_MOST)), "levels deep"},
                {good.withInvocation(new NodeSpec.Invocation("telnet", "java", List.of(), List.of(), 1, Map.of())), "\"telnet\" is unknown"},
                {good.withInvocation(new NodeSpec.Invocation("ssh", "java'", List.of(), List.of(), 1, Map.of())), "cannot stand in javaPath"},
                {good.withInvocation(new NodeSpec.Invocation("ssh", "java", List.of("-D`x`"), List.of(), 1, Map.of())), "cannot stand in javaOptions"},
                {good.withInvocation(new NodeSpec.Invocation("ssh", "java", List.of(), List.of("docker", "{host}"), 1, how.more())), "lacks {command}"},
                {peer("pad00"), "there is a node named pad00 already"},
                {peer("below"), "there is a node named below already"},
                {peer("later"), "there is a node named later already"},
                {peer("client"), "there is a node named client already"},
            };
            for (Object[] row : rows) {
                for (boolean far : new boolean[] {false, true}) {
                    JojoException e = Check.thrown(JojoException.class,
                            () -> far ? client.child(0).call(new Message(Peer.JOIN, (NodeSpec) row[0])) : client.add((NodeSpec) row[0]),
                            row[0].toString());
                    Check.that(e.getMessage().contains((String) row[1]), e.getMessage());
                }
            }
            Check.equal(2, client.children().length, "places below the client");
        }, peer("pad00"));
    }

    private NodeSpec deep(int levels) throws Exception {
        return levels == 1 ? peer("level1") : peer("level" + levels, deep(levels - 1));
    }

    public void any_node_can_end_the_program_with_a_status() throws Exception {
        Check.equal(7, run(client -> {
            client.child(0).call(new Message(Peer.RELAY, new Object[] {0, Peer.EXIT}));
            client.messages.take();
        }, peer("head", peer("leaf"))), "the status");
    }

    public void what_cannot_be_sent_is_refused_at_the_sender_and_harms_nobody() throws Exception {
        run(client -> {
            Node node = client.child(0);
            JojoException e = Check.thrown(
                    JojoException.class, () -> echo(node, new ArrayList<>(List.of(new Object()))), "not serializable");
            Check.that(e.getMessage().contains("java.lang.Object is not Serializable"), e.getMessage());
            LinkedList<Object> deep = new LinkedList<>();
            for (int i = 0; i < 200_000; i++) {
                LinkedList<Object> outer = new LinkedList<>();
                outer.add(deep);
                deep = outer;
            }
            LinkedList<Object> graph = deep;
            Check.thrown(JojoException.class, () -> echo(node, graph), "a deep graph");
            Check.equal(1, echo(node, 1), "an echo after that");
        }, peer("pad00"));
    }

    public void a_message_that_names_a_class_outside_is_refused_and_the_link_stays() throws Exception {
        run(client -> {
            Node node = client.child(0);
            RemoteException e = Check.thrown(
                    RemoteException.class, () -> echo(node, new javax.management.ObjectName("a:b=c")), "a class of the JDK");
            Check.that(e.getMessage().contains("may not stand in a message"), e.getMessage());
            Check.equal(1, echo(node, 1), "an echo after that");
        }, peer("pad00"));
    }
}
