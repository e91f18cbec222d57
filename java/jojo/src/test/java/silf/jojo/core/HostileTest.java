package silf.jojo.core;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;

/**
 * A live node whose parent and children are not ours: whatever they send, it goes on or says what was wrong, and what it keeps of
 * it has bounds (spec/jojo J5, J15).
 */
public final class HostileTest {
    private static final int MUTATIONS = 400;
    private static final long MOST_s = 60;
    /** The node in the middle, its children, and who is none of these. */
    private static final Path HERE = Path.of(0);
    private static final Path BELOW = Path.of(0, 0);
    private static final int EPOCH = 5;
    private static final byte[] END_OF_WIRE = {};

    /** One side of the node: frames by hand. */
    private static final class Side {
        private final Wire wire;
        private final LinkedBlockingQueue<byte[]> came = new LinkedBlockingQueue<>();

        Side(Wire wire) {
            this.wire = wire;
            Thread reads = new Thread(() -> {
                FrameReader reader = new FrameReader(wire.in());
                try {
                    for (byte[] frame; (frame = reader.next()) != null; ) {
                        came.add(frame);
                    }
                } catch (IOException e) {
                    // Closed under the reader.
                }
                came.add(END_OF_WIRE);
            }, "a neighbour's eyes");
            reads.setDaemon(true);
            reads.start();
        }

        /** False when the node has closed it. */
        boolean say(byte[]... frames) {
            try {
                for (byte[] frame : frames) {
                    wire.out().write(frame);
                }
                wire.out().flush();
                return true;
            } catch (IOException e) {
                return false;
            }
        }

        /** The first that is one of those; others are passed over. Null at the end of the wire. */
        byte[] until(Predicate<byte[]> one) throws InterruptedException {
            for (byte[] frame; (frame = came.poll(MOST_s, TimeUnit.SECONDS)) != null; ) {
                if (frame == END_OF_WIRE) {
                    came.add(END_OF_WIRE);
                    return null;
                }
                if (one.test(frame)) {
                    return frame;
                }
            }
            throw new AssertionError("nothing came for " + MOST_s + " s");
        }

        byte[] until(int type) throws InterruptedException {
            return until(frame -> Frame.type(frame) == type);
        }

        /** All that was said is read by now; false when the wire has ended instead. */
        boolean isRead(long nonce) throws InterruptedException {
            return say(Frame.ofLong(Frame.PING, nonce))
                    && until(frame -> Frame.type(frame) == Frame.PONG && Frame.i64(frame, Frame.HEADER) == nonce) != null;
        }

        void close() throws IOException {
            wire.close();
        }
    }

    /** The node, between what a test says in its neighbours' places. */
    private static final class Bed implements AutoCloseable {
        final Side above;
        final List<Side> below = new ArrayList<>();
        final Birth[] births;
        final LocalNode node;
        final Thread runs;
        private final Map<Integer, Side> born = new ConcurrentHashMap<>();
        private volatile String ended;

        Bed(int children) throws Exception {
            NodeSpec[] specs = new NodeSpec[children];
            for (int i = 0; i < children; i++) {
                specs[i] = NodeSpec.of("leaf" + i, "local", "Any").withFaults(FaultPolicy.GO_ON);
            }
            births = new Birth[children];
            NodeSpec spec = NodeSpec.of("middle", "local", Peer.class.getName(), specs);
            Birth birth = new Birth(HERE.toString(), EPOCH, 1, spec, "client", 0,
                    List.of(new Birth.Sibling(0, "middle", EPOCH, true), new Birth.Sibling(1, "other", 0, false)), new HashMap<>());
            Wire[] up = wires("client");
            above = new Side(up[1]);
            UserClasses classes = new UserClasses(HostileTest.class.getClassLoader());
            ClassStore store = new ClassStore((name, to) -> above.came.add(want(name)));
            node = new LocalNode(birth, new LocalNode.Up(up[0], new FrameReader(up[0].in()), null, null), classes, store,
                    (child, bytes, deadline) -> {
                        Birth its = Birth.read(bytes);
                        int rank = Path.parse(its.path()).rank();
                        births[rank] = its;
                        Wire[] down = wires(child.name());
                        born.put(rank, new Side(down[1]));
                        return down[0];
                    }, false, text -> {});
            runs = new Thread(() -> {
                try {
                    ended = String.valueOf(node.run());
                } catch (InterruptedException e) {
                    ended = "interrupted";
                }
            }, "the node");
            runs.setDaemon(true);
            runs.start();
            for (int i = 0; i < children; i++) {
                int rank = i;
                Check.until("child " + rank, () -> born.containsKey(rank));
                Side side = born.get(rank);
                side.say(Hello.here(i).frame(), Frame.of(Frame.READY, 0, 0, 0));
                below.add(side);
            }
            Check.that(above.until(Frame.READY) != null, "the node is not ready: " + ended);
            above.say(Frame.of(Frame.GO, 0, 0, 0));
            for (Side side : below) {
                Check.that(side.until(Frame.GO) != null, "GO below");
            }
        }

        private static byte[] want(String name) {
            return Frame.of(Frame.WANT, new Bytes(64).i32(0).name(name).toArray());
        }

        private static Wire[] wires(String name) {
            MemoryPipe there = new MemoryPipe();
            MemoryPipe back = new MemoryPipe();
            return new Wire[] {
                Wire.of(name, back.in, there.out, () -> {
                    there.out.close();
                    back.in.close();
                }),
                Wire.of(name, there.in, back.out, () -> {
                    back.out.close();
                    there.in.close();
                }),
            };
        }

        /** It answers its parent still. */
        void lives(long call) throws Exception {
            above.say(message(Frame.CALL, 0, HERE, EPOCH, Path.ROOT, 0, call, Peer.SELF, null));
            byte[] answer = above.until(frame -> Frame.type(frame) == Frame.REPLY && call(frame) == call);
            Check.that(answer != null, "the node has ended: " + ended);
        }

        /** The epoch of a child. */
        int epoch(int rank) {
            return births[rank].epoch();
        }

        @Override
        public void close() throws IOException {
            above.close();
            for (Side side : below) {
                side.close();
            }
            try {
                runs.join(TimeUnit.SECONDS.toMillis(MOST_s));
            } catch (InterruptedException e) {
                throw new IOException("interrupted while the node ends", e);
            }
            Check.that(!runs.isAlive(), "the node does not end");
        }
    }

    private static long call(byte[] frame) {
        try {
            Path to = Path.get(frame, Frame.HEADER, frame.length);
            return Frame.i64(frame, Frame.HEADER + to.size() + Path.get(frame, Frame.HEADER + to.size(), frame.length).size());
        } catch (Violation e) {
            throw new AssertionError(e);
        }
    }

    /** A message of one frame. */
    private static byte[] message(int type, int lane, Path to, int epochTo, Path from, int epochFrom, long call, int tag, Object value)
            throws Exception {
        return raw(type, lane, to, epochTo, from, epochFrom, call, tag, Encoder.bytes(value));
    }

    private static byte[] raw(int type, int lane, Path to, int epochTo, Path from, int epochFrom, long call, int tag, byte[] body) {
        int head = to.size() + from.size();
        byte[] frame = Frame.of(
                type, Frame.FIRST | Frame.LAST, Frame.laneField(lane, epochTo, epochFrom), head + 16 + body.length);
        int at = from.put(frame, to.put(frame, Frame.HEADER));
        Frame.put64(frame, at, call);
        Frame.put32(frame, at + 8, tag);
        Frame.put32(frame, at + 12, body.length);
        System.arraycopy(body, 0, frame, at + 16, body.length);
        return frame;
    }

    private static byte[] bytes(int type, int... payload) {
        byte[] bytes = new byte[payload.length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) payload[i];
        }
        return Frame.of(type, bytes);
    }

    private record Row(byte[] frame, String says) {}

    private static String goodbye(Side side) throws Exception {
        byte[] last = side.until(Frame.GOODBYE);
        Check.that(last != null, "the wire ended without a GOODBYE");
        Link.Loss loss = Link.readGoodbye(last);
        Check.equal(Link.VIOLATION, loss.code(), loss.text());
        return loss.text();
    }

    public void a_child_that_breaks_a_rule_is_told_which_and_lost_and_the_node_goes_on() throws Exception {
        List<Row> rows = List.of(
                new Row(Blobs.frames(List.of(Blob.of("A.class", new byte[10]))), "type 8 from a child"),
                new Row(Frame.of(Frame.START, new Bytes(64).name("A").toArray()), "type 2 from a child"),
                new Row(Frame.of(Frame.GO, 0, 0, 0), "type 17 from a child"),
                new Row(bytes(Frame.END, 0, 0, 0, 0), "type 19 from a child"),
                new Row(Birth.familyFrame(List.of()), "type 20 from a child"),
                new Row(bytes(Frame.READY, 1), "type 16 with 1 bytes"),
                new Row(bytes(Frame.DONE), "DONE"),
                new Row(bytes(Frame.DONE, 2), "DONE"),
                new Row(bytes(Frame.PING, 1, 2, 3), "not 8"),
                new Row(bytes(Frame.ACK, 1, 0, 0, 0, 0, 0, 0, 0), "cannot be resumed"),
                new Row(bytes(Frame.WANT, 0, 0), "cut off"),
                new Row(bytes(Frame.HELLO, 9, 0), "version 9"),
                new Row(bytes(Frame.GOODBYE, 1), "GOODBYE is cut off"),
                new Row(bytes(Frame.LOST, Tag.NULL), "null where the tree"),
                new Row(new Birth.Lost("0.0.a", 0, "x", "y").frame(), "LOST of 0.0.a"),
                new Row(new Birth.Lost("0.1", 0, "x", "y").frame(), "one who cannot know"),
                new Row(new Birth.Lost("0.0", 0, "x", "y").frame(), "one who cannot know"),
                new Row(new Birth.Lost("client", 0, "x", "y").frame(), "one who cannot know"),
                new Row(bytes(Frame.REPORT, Tag.LIST, 0, 0, 0, 0), "cut off"),
                new Row(bytes(7), "a frame of type 7"),
                new Row(new byte[] {Frame.SEND, 0, 0, 0, -1, -1, -1, 127}, "a frame of 2147483647 bytes"),
                new Row(bytes(Frame.SEND, 17), "a path of depth 17"),
                new Row(bytes(Frame.SEND, 0), "a path is missing"));
        for (Row row : rows) {
            try (Bed bed = new Bed(2)) {
                bed.below.get(0).say(row.frame());
                String said = goodbye(bed.below.get(0));
                Check.that(said.contains(row.says()), said + "\n  instead of: " + row.says());
                byte[] lost = bed.above.until(Frame.LOST);
                Check.equal("0.0", Birth.Lost.read(lost).path(), "who is lost");
                bed.lives(1);
                Check.that(bed.below.get(1).isRead(7), "the other child's link has ended");
            }
        }
    }

    public void a_parent_that_breaks_a_rule_is_told_which_and_the_node_ends() throws Exception {
        List<Row> rows = List.of(
                new Row(Frame.of(Frame.READY, 0, 0, 0), "type 16 from the parent"),
                new Row(bytes(Frame.DONE, 1), "type 18 from the parent"),
                new Row(bytes(Frame.WANT, 0, 0, 0, 0, 0, 0), "type 9 from the parent"),
                new Row(Frame.of(Frame.START, new Bytes(64).name("A").toArray()), "type 2 from the parent"),
                new Row(bytes(Frame.GO, 1), "type 17 with 1 bytes"),
                new Row(bytes(Frame.END, 1, 2, 3), "END of 3 bytes"),
                new Row(bytes(Frame.FAMILY, Tag.NULL), "null where the tree"),
                new Row(bytes(Frame.BLOBS, 9, 0, 0), "kind 9"),
                new Row(new Birth.Lost("0", 0, "x", "y").frame(), "one who cannot know"),
                new Row(new Birth.Lost("0.0", 0, "x", "y").frame(), "one who cannot know"));
        for (Row row : rows) {
            try (Bed bed = new Bed(1)) {
                bed.above.say(row.frame());
                String said = goodbye(bed.above);
                Check.that(said.contains(row.says()), said + "\n  instead of: " + row.says());
                bed.runs.join(TimeUnit.SECONDS.toMillis(MOST_s));
                Check.that(!bed.runs.isAlive(), "the node lives without a parent");
            }
        }
    }

    public void a_false_source_is_dropped_and_counted_and_the_link_stays() throws Exception {
        try (Bed bed = new Bed(2)) {
            Side child = bed.below.get(0);
            for (Path from : List.of(Path.ROOT, HERE, Path.of(0, 1), Path.of(1), Path.of(1, 0))) {
                child.say(message(Frame.SEND, 0, HERE, EPOCH, from, 0, 0, Peer.NOTE, "false"));
            }
            Check.that(child.isRead(1), "the link has ended");
            // From above, what is at or below the node itself is false; and a cousin has no way to name this node.
            bed.above.say(message(Frame.SEND, 0, HERE, EPOCH, BELOW, bed.epoch(0), 0, Peer.NOTE, "false"));
            bed.above.say(message(Frame.SEND, 0, HERE, EPOCH, Path.of(1, 3), 0, 0, Peer.NOTE, "a cousin"));
            bed.lives(1);
            Check.equal(7L, bed.node.post().dropped.sum(), "frames dropped");
            bed.above.say(message(Frame.CALL, 0, HERE, EPOCH, Path.ROOT, 0, 2, Peer.NOTES, null));
            byte[] notes = bed.above.until(frame -> Frame.type(frame) == Frame.REPLY && call(frame) == 2);
            Check.that(Arrays.equals(message(Frame.REPLY, 0, Path.ROOT, 0, HERE, EPOCH, 2, 0, List.of()), notes), "a false note was handled");
        }
    }

    public void what_passes_a_node_is_not_decoded_by_it() throws Exception {
        byte[] body = {Tag.JAVA, 4, 0, 0, 0, 1, 2, 3, 4};
        try (Bed bed = new Bed(1)) {
            byte[] call = raw(Frame.CALL, 0, BELOW, bed.epoch(0), Path.ROOT, 0, 9, 77, body);
            bed.above.say(call);
            byte[] passed = bed.below.get(0).until(Frame.CALL);
            Check.that(Arrays.equals(call, passed), "it was changed: " + HexFormat.of().formatHex(passed));
            byte[] answer = raw(Frame.REPLY, 0, Path.ROOT, 0, BELOW, bed.epoch(0), 9, 0, body);
            bed.below.get(0).say(answer);
            Check.that(Arrays.equals(answer, bed.above.until(Frame.REPLY)), "the answer was changed");
        }
    }

    /** J15: a child can give itself any number of names; what is kept for them is bounded. */
    public void a_child_of_many_names_fills_nothing() throws Exception {
        int names = 4 * Senders.MORE_MOST;
        try (Bed bed = new Bed(2)) {
            Side child = bed.below.get(0);
            Post post = bed.node.post();
            for (int i = 0; i < names; i++) {
                child.say(message(Frame.SEND, Post.MESSAGES, HERE, EPOCH, Path.of(0, 0, i), 0, 0, 99, null));
            }
            Check.that(child.isRead(1), "the link has ended");
            int most = Senders.MORE_MOST + Frame.LANES;
            Check.equal(most, post.lanes(), "lanes that are kept");
            Check.equal((long) names - most, post.dropped.sum(), "frames dropped");
            // Another child is not in its way, and each name that is lost makes room.
            bed.below.get(1).say(message(Frame.CALL, 0, HERE, EPOCH, Path.of(0, 1), bed.epoch(1), 3, Peer.SELF, null));
            Check.that(bed.below.get(1).until(Frame.REPLY) != null, "an answer to the other child");
            for (int i = 0; i < 3 * Gone.FAR_MOST; i++) {
                child.say(new Birth.Lost("0.0." + i, 0, "x", "y").frame());
            }
            Check.that(child.isRead(2), "the link has ended");
            Check.equal(1, post.lanes(), "lanes that are kept");
            Check.that(post.gone() <= Gone.FAR_MOST, post.gone() + " places are remembered as gone");
            bed.lives(1);
        }
    }

    public void two_children_that_want_the_same_make_one_want() throws Exception {
        byte[] want = Bed.want("a/B.class");
        try (Bed bed = new Bed(2)) {
            bed.below.get(0).say(want);
            Check.that(bed.above.until(frame -> Arrays.equals(frame, want)) != null, "the first want");
            bed.below.get(1).say(want);
            Check.that(bed.below.get(1).isRead(1), "the link has ended");
            bed.above.say(Blobs.frames(List.of(Blob.of("a/B.class", new byte[] {1, 2, 3}))));
            for (Side child : bed.below) {
                Check.that(child.until(Frame.BLOBS) != null, "the class");
            }
            Check.that(bed.above.came.stream().noneMatch(frame -> Arrays.equals(frame, want)), "a second want");
        }
    }

    // -- by chance ---------------------------------------------------------------------------------------------------

    private static byte[] mutant(byte[] frame, Random random) {
        byte[] bytes = frame.clone();
        for (int changes = 1 + random.nextInt(3); changes > 0; changes--) {
            int at = random.nextInt(8) == 0 ? random.nextInt(bytes.length) : Frame.HEADER + random.nextInt(Math.max(1, bytes.length - Frame.HEADER));
            at = Math.min(at, bytes.length - 1);
            switch (random.nextInt(3)) {
                case 0 -> bytes[at] = (byte) random.nextInt();
                case 1 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
                default -> {
                    bytes = Arrays.copyOf(bytes, Math.max(Frame.HEADER, at));
                    // Its length still true: the payload is what is wrong.
                    Frame.put32(bytes, 4, bytes.length - Frame.HEADER);
                }
            }
        }
        return bytes;
    }

    /** What a neighbour says that the tree itself reads: all of the node's own, and lanes 1 and 3. */
    private static List<byte[]> seeds(boolean child, int epoch) throws Exception {
        Path from = child ? BELOW : Path.ROOT;
        int epochFrom = child ? epoch : 0;
        List<byte[]> seeds = new ArrayList<>(List.of(
                Frame.ofLong(Frame.PING, 1), Frame.ofLong(Frame.PONG, 1), new Birth.Lost(child ? "0.0.3" : "1.2", 1, "x", "y").frame()));
        if (child) {
            seeds.addAll(List.of(
                    new Birth.Report("leaf0", "text", "trace", 1).frame(), bytes(Frame.DONE, 1), Bed.want("a/B.class"),
                    Frame.of(Frame.READY, 0, 0, 0), Hello.here(1, new long[] {1, 2}).frame()));
        } else {
            seeds.addAll(List.of(
                    Birth.familyFrame(List.of(new Birth.Sibling(1, "other", 3, true), new Birth.Sibling(2, "third", 4, false))),
                    bytes(Frame.END, 0, 0, 0, 0), Frame.of(Frame.START, new Bytes(64).name("silf.jojo.core.NodeMain").toArray()),
                    Frame.of(Frame.GO, 0, 0, 0), Blobs.frames(List.of(Blob.of("a/B.class", new byte[100])))));
        }
        Object[] files = {List.of("in/a.txt", "r"), List.of(0L, 100), List.of(0L, new byte[10]), List.of(0L)};
        for (int tag = FileService.OPEN; tag <= FileService.CLOSE; tag++) {
            seeds.add(message(Frame.CALL, Post.FILES, HERE, EPOCH, from, epochFrom, 100 + tag, tag, files[Math.min(tag, 4) - 1]));
        }
        for (int what = 0; what <= 4; what++) {
            seeds.add(message(Frame.CALL, Post.TREE, HERE, EPOCH, from, epochFrom, 200 + what, 0,
                    Arrays.asList(what, Peer.RANK, what == 4 ? "leaf0" : null, null)));
        }
        seeds.add(message(Frame.CALL, Post.TREE, HERE, EPOCH, from, epochFrom, 300, 0,
                Arrays.asList(Siblings.MEET, new byte[20], List.of("127.0.0.1"), 9)));
        seeds.add(message(Frame.SEND, Post.TREE, HERE, EPOCH, from, epochFrom, 0, Siblings.BYTES, new byte[30]));
        seeds.add(message(Frame.CALL, Post.TREE, HERE, EPOCH, from, epochFrom, 301, Looks.LOOK, null));
        seeds.add(message(Frame.CALL, Post.TREE, HERE, EPOCH, from, epochFrom, 302, Names.ASK, List.of("late")));
        for (int type : new int[] {Frame.CREDIT, Frame.CANCEL, Frame.SWITCH, Frame.NOWAY}) {
            seeds.add(Frame.routed(type, Frame.laneField(3, EPOCH, epochFrom), HERE, from, 9));
        }
        return seeds;
    }

    /** Each mutant of each is taken, or its sender is told why not; no thread of the node ends by it. */
    private static void mutate(boolean child, long seed) throws Exception {
        Random random = new Random(seed);
        Queue<Throwable> escaped = new ConcurrentLinkedQueue<>();
        Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> escaped.add(new AssertionError("in " + thread.getName(), e)));
        Map<String, Integer> ends = new HashMap<>();
        try {
            for (int i = 0; i < MUTATIONS; ) {
                try (Bed bed = new Bed(1)) {
                    List<byte[]> seeds = seeds(child, bed.epoch(0));
                    Side side = child ? bed.below.get(0) : bed.above;
                    String what = "";
                    for (boolean stays = true; stays && i < MUTATIONS; i++) {
                        byte[] mutant = mutant(seeds.get(random.nextInt(seeds.size())), random);
                        what = "seed " + seed + ", mutation " + i + ": " + HexFormat.of().formatHex(mutant);
                        boolean header = Frame.i32(mutant, 4) > mutant.length - Frame.HEADER;
                        stays = side.say(mutant) && !header && side.isRead(1_000_000L + i);
                    }
                    if (child) {
                        // Whatever a child says, the node ends by nothing but its parent: REPORT goes up, and is the client's to judge.
                        bed.lives(5_000_000L + i);
                    }
                    ends.merge(side.came.contains(END_OF_WIRE) ? "ended" : "stays", 1, Integer::sum);
                    Check.that(escaped.isEmpty(), what + ": " + escaped);
                }
            }
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }
        Check.that(escaped.isEmpty(), escaped.toString());
        Check.that(ends.getOrDefault("ended", 0) > 10, "so few violations: " + ends);
    }

    public void whatever_a_child_says_the_node_serves_its_parent() throws Exception {
        mutate(true, 20_031);
    }

    public void whatever_a_parent_says_the_node_goes_on_or_ends() throws Exception {
        mutate(false, 20_032);
    }
}
