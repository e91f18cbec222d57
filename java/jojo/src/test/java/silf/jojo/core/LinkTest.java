package silf.jojo.core;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import silf.jojo.config.NodeSpec;
import silf.jojo.testkit.Check;

/** One link by itself: for how long it may be silent (spec/jojo J16), by a clock that is told. */
public final class LinkTest {
    private static final long SECOND_ns = 1_000_000_000L;

    private final LinkedBlockingQueue<Link.Loss> lost = new LinkedBlockingQueue<>();

    private final Link link = new Link(
            Wire.of("far", new MemoryPipe().in, new MemoryPipe().out, () -> {}),
            new Link.Owner() {
                @Override
                public void frame(Link link, byte[] frame) {}

                @Override
                public void lost(Link link, Link.Loss loss) {
                    lost.add(loss);
                }
            });

    private void after(long seconds) {
        link.tick(System.nanoTime() + seconds * SECOND_ns);
    }

    private static NodeSpec startsWithin(long most_ms) {
        NodeSpec.Invocation usual = NodeSpec.Invocation.USUAL;
        return NodeSpec.of("pad00", "pad00", "Code").withInvocation(new NodeSpec.Invocation(
                usual.protocol(), usual.javaPath(), usual.javaOptions(), usual.command(), most_ms, usual.more()));
    }

    public void a_link_that_runs_is_lost_after_seven_seconds_of_silence() throws Exception {
        link.watch(Link.SILENT_ns);
        after(6);
        Check.that(lost.isEmpty(), "lost after 6 s: " + lost);
        after(8);
        Check.equal(new Link.Loss(-1, "silent for 7 s"), lost.poll(60, TimeUnit.SECONDS), "how it was lost");
    }

    public void a_node_that_starts_may_be_silent_for_as_long_as_its_start_may_take() throws Exception {
        link.watch(Link.silentWhileStarting_ns(startsWithin(60_000)));
        after(59);
        Check.that(lost.isEmpty(), "lost after 59 s: " + lost);
        after(61);
        Check.equal(new Link.Loss(-1, "silent for 60 s"), lost.poll(60, TimeUnit.SECONDS), "how it was lost");
    }

    public void a_short_start_does_not_make_silence_shorter_than_it_is_later() {
        Check.equal(Link.SILENT_ns, Link.silentWhileStarting_ns(startsWithin(10)), "the longest silence");
    }

    /** Who waits for the peer is told before anybody looks into why it has ended. */
    public void a_loss_is_told_before_it_is_explained() throws Exception {
        CountDownLatch told = new CountDownLatch(1);
        LinkedBlockingQueue<Link.Loss> explained = new LinkedBlockingQueue<>();
        MemoryPipe in = new MemoryPipe();
        Wire far = new Wire() {
            @Override
            public java.io.InputStream in() {
                return in.in;
            }

            @Override
            public java.io.OutputStream out() {
                return new MemoryPipe().out;
            }

            @Override
            public String name() {
                return "far";
            }

            /** As a process that ends late. */
            @Override
            public String diagnosis() {
                try {
                    return told.await(60, TimeUnit.SECONDS) ? "status 9" : "nobody was told";
                } catch (InterruptedException e) {
                    return e.toString();
                }
            }

            @Override
            public void close() {}
        };
        Link link = new Link(far, new Link.Owner() {
            @Override
            public void frame(Link link, byte[] frame) {}

            @Override
            public void lost(Link link, Link.Loss loss) {
                lost.add(loss);
                told.countDown();
            }

            @Override
            public void explained(Link link, Link.Loss loss) {
                explained.add(loss);
            }
        });
        link.open();
        in.out.close();
        Check.equal(new Link.Loss(-1, "closed by the other side"), lost.poll(60, TimeUnit.SECONDS), "what is told");
        Check.equal(new Link.Loss(-1, "closed by the other side; status 9"), explained.poll(60, TimeUnit.SECONDS), "what is known then");
    }

    public void a_link_that_is_not_watched_may_be_silent_for_ever() {
        after(1_000_000);
        Check.that(lost.isEmpty(), "lost: " + lost);
    }
}
