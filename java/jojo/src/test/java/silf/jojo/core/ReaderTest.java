package silf.jojo.core;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import silf.jojo.testkit.Check;

/** A link's reader runs errands, and is waited for by nobody. */
public final class ReaderTest {
    private static final int MOST_s = 60;

    private interface Taker {
        void take(long number) throws Exception;
    }

    private final MemoryPipe in = new MemoryPipe();
    private final MemoryPipe back = new MemoryPipe();
    private final CountDownLatch over = new CountDownLatch(1);

    /** A link that is sent CREDIT frames, each a number. */
    private Link link(Taker taker) {
        Wire wire = Wire.of("a test", in.in, back.out, () -> {
            in.in.close();
            back.out.close();
        });
        return new Link(wire, new Link.Owner() {
            @Override
            public void frame(Link link, byte[] frame) {
                try {
                    taker.take(Frame.number(frame, frame.length - 8));
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }

            @Override
            public void lost(Link link, Link.Loss loss) {
                over.countDown();
            }
        }).open();
    }

    private void send(long number) throws Exception {
        in.out.write(Frame.routed(Frame.CREDIT, 0, Path.ROOT, Path.of(1), number));
    }

    private static <T> T poll(LinkedBlockingQueue<T> from) throws InterruptedException {
        return from.poll(MOST_s, TimeUnit.SECONDS);
    }

    public void a_handler_that_waits_for_what_comes_by_the_same_link_ends() throws Exception {
        List<Long> came = new CopyOnWriteArrayList<>();
        LinkedBlockingQueue<String> ended = new LinkedBlockingQueue<>();
        CountDownLatch second = new CountDownLatch(1);
        LinkedBlockingQueue<Boolean> taken = new LinkedBlockingQueue<>();
        Link link = link(number -> {
            came.add(number);
            if (number == 1) {
                taken.add(LinkReader.handles(() -> {
                    try {
                        ended.add(second.await(MOST_s, TimeUnit.SECONDS) ? "released" : "late");
                    } catch (InterruptedException e) {
                        ended.add("interrupted");
                    }
                }));
            } else if (number == 2) {
                second.countDown();
            }
        });
        send(1);
        Check.equal(true, poll(taken), "a reader with nothing else to do takes a handler");
        send(2);
        Check.equal("released", poll(ended), "the handler");
        for (long number = 3; number < 100; number++) {
            send(number);
        }
        Check.until("all have come", () -> came.size() == 99);
        for (int i = 0; i < came.size(); i++) {
            Check.equal(i + 1L, came.get(i), "frames, before and after another reads, in their order");
        }
        link.close("over");
        Check.that(over.await(MOST_s, TimeUnit.SECONDS), "the link ends, once");
    }

    public void a_handler_is_run_by_the_reader_only_when_nothing_else_has_come() throws Exception {
        LinkedBlockingQueue<Boolean> taken = new LinkedBlockingQueue<>();
        LinkedBlockingQueue<String> ran = new LinkedBlockingQueue<>();
        Link link = link(number -> taken.add(LinkReader.handles(() -> ran.add(number + " " + LinkThread.here()))));
        byte[] one = Frame.routed(Frame.CREDIT, 0, Path.ROOT, Path.of(1), 1);
        byte[] both = java.util.Arrays.copyOf(one, 2 * one.length);
        System.arraycopy(one, 0, both, one.length, one.length);
        Frame.put64(both, both.length - 8, 2L);
        in.out.write(both);
        Check.equal(false, poll(taken), "with another behind it");
        Check.equal(true, poll(taken), "the last");
        Check.equal("2 false", poll(ran), "what ran, in a thread that may wait");
        Check.that(!LinkReader.handles(() -> {}), "a thread that reads no link takes none");
        link.close("over");
    }

    public void what_was_passed_on_is_written_though_the_next_frame_ends_the_link() throws Exception {
        MemoryPipe onward = new MemoryPipe();
        MemoryPipe silence = new MemoryPipe();
        Wire wire = Wire.of("another", silence.in, onward.out, silence.in::close);
        Link other = new Link(wire, new Link.Owner() {
            @Override
            public void frame(Link link, byte[] frame) {}

            @Override
            public void lost(Link link, Link.Loss loss) {}
        });
        link(number -> other.send(Frame.ofLong(Frame.WANT, number)));
        byte[] good = Frame.routed(Frame.CREDIT, 0, Path.ROOT, Path.of(1), 5);
        byte[] both = java.util.Arrays.copyOf(good, good.length + Frame.HEADER); // behind it a frame of type 0
        in.out.write(both);
        byte[] passed = new FrameReader(onward.in).next();
        Check.equal(5L, Frame.number(passed, Frame.HEADER), "what was passed on");
        FrameReader said = new FrameReader(back.in);
        Check.equal(Link.VIOLATION, Link.readGoodbye(said.next()).code(), "the last word");
        Check.that(over.await(MOST_s, TimeUnit.SECONDS), "the link ends");
        other.close("over");
    }

    public void a_reader_that_waits_to_write_is_replaced() throws Exception {
        LinkedBlockingQueue<Long> came = new LinkedBlockingQueue<>();
        Link[] made = new Link[1];
        CountDownLatch opened = new CountDownLatch(1);
        made[0] = link(number -> {
            opened.await();
            came.add(number);
            // Brief enough to be the reader's errand, and soon more than the pipe back holds, which nobody reads.
            made[0].send(Frame.of(Frame.WANT, 0, 0, 7000));
        });
        opened.countDown();
        for (long number = 0; number < 50; number++) {
            send(number);
            Check.equal(number, poll(came), "what is read while a writer waits");
        }
        made[0].close("over");
        Check.that(over.await(MOST_s, TimeUnit.SECONDS), "the link ends");
    }
}
