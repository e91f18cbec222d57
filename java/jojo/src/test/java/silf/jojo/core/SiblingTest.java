package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import javax.net.ssl.SSLSocket;
import silf.jojo.Future;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.config.NodeSpec;
import silf.jojo.program.Body;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;

/** Direct links between siblings: how they come to be used, and what becomes of messages when they are cut. */
public final class SiblingTest {
    static {
        Siblings.resumeMost_ms = 60_000; // five cuts, one after another, where a processor is seldom had
    }

    private final Over over;

    public SiblingTest(Over.Within within) {
        this.over = within.over;
    }

    private void run(Body.Test test, String... properties) throws Exception {
        Properties all = new Properties();
        all.setProperty("body", Body.name(test));
        for (String property : properties) {
            all.setProperty(property.split("=")[0], property.split("=")[1]);
        }
        NodeSpec a = NodeSpec.of("a", "a", Peer.Orderly.class.getName());
        NodeSpec b = NodeSpec.of("b", "b", Peer.Orderly.class.getName());
        new Program(
                        NodeSpec.of("client", "client", Body.class.getName(), a, b), all, over.launcher(),
                        SiblingTest.class.getClassLoader(), System.out,
                        new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8))
                .run();
    }

    private static Siblings of(String name) {
        return Transport.NODES.get(name).siblings();
    }

    private static void meet(Body client) throws Exception {
        Check.equal("b", client.child(0).call(new Message(Peer.ASK_SIBLING, 1)), "what a hears from b");
        Check.until("both have a direct link",
                () -> of("a").link(Path.of(1)) != null && of("b").link(Path.of(0)) != null);
    }

    /** Notes of a at b: 0, 1, 2, ... */
    private static void complete(Node b, int count) throws Exception {
        List<?>[] notes = new List<?>[1];
        Check.until(count + " notes", () -> {
            notes[0] = (List<?>) b.call(new Message(Peer.NOTES, null));
            return notes[0].size() >= count;
        });
        Check.equal(count, notes[0].size(), "notes");
        for (int i = 0; i < count; i++) {
            Object note = notes[0].get(i);
            Check.equal(i, note instanceof int[] array ? array[0] : note, "the note in place " + i);
        }
    }

    public void siblings_find_a_direct_link_and_use_it() throws Exception {
        run(client -> {
            meet(client);
            Check.equal("b", client.child(0).call(new Message(Peer.ASK_SIBLING, 1)), "what a hears from b, directly");
            Check.equal("a", client.child(1).call(new Message(Peer.ASK_SIBLING, 0)), "what b hears from a, directly");
        });
    }

    /** A message that nobody answers is there all the same before the program can end. */
    public void the_last_words_to_a_sibling_are_heard() throws Exception {
        for (int i = 0; i < 5; i++) {
            silf.jojo.program.Last.heard.set(0);
            Properties none = new Properties();
            NodeSpec a = NodeSpec.of("a", "a", silf.jojo.program.Last.class.getName());
            NodeSpec b = NodeSpec.of("b", "b", silf.jojo.program.Last.class.getName());
            new Program(
                            NodeSpec.of("client", "client", silf.jojo.program.Last.class.getName(), a, b), none, over.launcher(),
                            SiblingTest.class.getClassLoader(), System.out, System.err)
                    .run();
            Check.equal(silf.jojo.program.Last.WORDS, silf.jojo.program.Last.heard.get(), "words that were heard");
        }
    }

    public void changing_the_route_neither_reorders_nor_loses() throws Exception {
        run(client -> {
            int piece = 20_000;
            int[] count = {0};
            Callable<Boolean> direct = () -> {
                client.child(0).call(new Message(Peer.FLOOD_SIBLING, new int[] {1, count[0], count[0] += piece}));
                return of("a").link(Path.of(1)) != null;
            };
            Check.until("a change of route", direct);
            direct.call();
            complete(client.child(1), count[0]);
        });
    }

    public void a_direct_link_that_is_cut_is_mended_and_every_message_comes_once() throws Exception {
        run(client -> {
            meet(client);
            int count = 60_000;
            Future flood = client.child(0).callFuture(new Message(Peer.FLOOD_SIBLING, new int[] {1, 0, count}));
            for (int i = 0; i < 5; i++) {
                Thread.sleep(20);
                Link.cut(of(i % 2 == 0 ? "a" : "b").link(Path.of(i % 2 == 0 ? 1 : 0)).wire());
            }
            flood.touch();
            complete(client.child(1), count);
        });
    }

    public void a_direct_link_that_cannot_be_made_again_goes_on_by_the_tree() throws Exception {
        run(client -> {
            meet(client);
            client.child(0).call(new Message(Peer.FLOOD_SIBLING, new int[] {1, 0, 1000}));
            of("b").shutDoor();
            Link.cut(of("a").link(Path.of(1)).wire());
            client.child(0).call(new Message(Peer.FLOOD_SIBLING, new int[] {1, 1000, 3000}));
            complete(client.child(1), 3000);
        });
    }

    public void a_dial_that_is_refused_leaves_siblings_to_the_tree() throws Exception {
        run(client -> {
            of("b").shutDoor();
            for (int i = 0; i < 100; i++) {
                Check.equal("b", client.child(0).call(new Message(Peer.ASK_SIBLING, 1)), "what a hears from b");
                Check.equal("a", client.child(1).call(new Message(Peer.ASK_SIBLING, 0)), "what b hears from a");
            }
            client.child(0).call(new Message(Peer.FLOOD_SIBLING, new int[] {1, 0, 3000}));
            complete(client.child(1), 3000);
            Check.that(of("a").link(Path.of(1)) == null && of("b").link(Path.of(0)) == null, "there is a direct link");
        });
    }

    /** A sibling that is known, at an address that another one gave. */
    public void who_answers_in_anothers_place_is_not_talked_to() throws Exception {
        Door here = new Door(certificate -> true, socket -> {});
        Door impostor = new Door(certificate -> true, socket -> {});
        Door meant = new Door(certificate -> true, socket -> {});
        try {
            here.dial(List.of("127.0.0.1"), meant.port(), meant.certificate()).close();
            java.io.IOException e = Check.thrown(java.io.IOException.class,
                    () -> here.dial(List.of("127.0.0.1"), impostor.port(), meant.certificate()), "a dial");
            Check.that(e.getMessage().contains("another sibling answers there"), e.getMessage());
        } finally {
            here.close();
            impostor.close();
            meant.close();
        }
    }

    public void who_has_not_come_by_the_tree_is_turned_away_at_the_door() throws Exception {
        run(client -> {
            meet(client);
            Door stranger = new Door(certificate -> true, socket -> {});
            try {
                int port = of("b").doorPort();
                byte[] any = of("b").doorCertificate();
                Check.thrown(java.io.IOException.class, () -> {
                    SSLSocket socket = stranger.dial(List.of("127.0.0.1"), port, any);
                    // TLS 1.3: the client's certificate is looked at after the client believes to be done.
                    socket.setSoTimeout(5_000);
                    if (socket.getInputStream().read() < 0) {
                        throw new java.io.IOException("closed");
                    }
                    return socket;
                }, "a stranger at the door");
            } finally {
                stranger.close();
            }
        });
    }

    public void a_program_can_keep_siblings_from_looking() throws Exception {
        run(client -> {
            for (int i = 0; i < 50; i++) {
                Check.equal("b", client.child(0).call(new Message(Peer.ASK_SIBLING, 1)), "what a hears from b");
            }
            Check.that(of("a").link(Path.of(1)) == null, "there is a direct link");
        }, "jojo.direct=false");
    }
}
