package silf.jojo.core;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import silf.jojo.JojoException;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;

/** Whatever bytes come: a value, or an exception that says what is wrong; never more, and never much memory. */
public final class BytesTest {
    private static final java.nio.file.Path VECTORS = java.nio.file.Path.of("spec/jojo/vectors");
    private static final UserClasses CLASSES = new UserClasses(BytesTest.class.getClassLoader());
    private static final int MUTATIONS = 60_000;

    /** Reads a stream of frames as a receiver does, up to the values in messages. @return what was seen, in words */
    private static List<String> receive(byte[] stream) throws IOException, JojoException {
        List<String> seen = new ArrayList<>();
        FrameReader reader = new FrameReader(new ByteArrayInputStream(stream));
        Blobs.Reader blobs = new Blobs.Reader(new Blobs.Taker() {
            @Override
            public void blob(Blob blob) {
                seen.add((blob.absent() ? "no " : "blob ") + blob.name());
            }

            @Override
            public void unavailable(String name, String why) {
                seen.add("unavailable " + name + ": " + why);
            }

            @Override
            public void held(String name, long hash, int size) {
                seen.add("held " + name + " " + Long.toHexString(hash) + " " + size);
            }
        });
        Inlane[] lane = new Inlane[1];
        Inlane.Owner owner = new Inlane.Owner() {
            private final Budget budget = new Budget(1 << 20);

            @Override
            public int lanes() {
                return 1;
            }

            @Override
            public void credit(Inlane of, byte[] frame) {}

            @Override
            public Budget budget() {
                return budget;
            }
        };
        for (byte[] frame; (frame = reader.next()) != null; ) {
            int type = Frame.type(frame);
            switch (type) {
                case Frame.HELLO -> seen.add(Hello.read(frame).toString());
                case Frame.GOODBYE -> seen.add("goodbye " + Link.readGoodbye(frame).code());
                case Frame.PING, Frame.PONG, Frame.ACK -> seen.add("number " + Frame.number(frame, Frame.HEADER));
                case Frame.BLOBS -> blobs.frame(frame);
                case Frame.WANT -> seen.add("want " + new In(frame, Frame.HEADER + 4).name());
                case Frame.LOST -> seen.add(Birth.Lost.read(frame).toString());
                default -> {
                    if (type >= Frame.ROUTED) {
                        routed(frame, type, lane, owner, seen);
                    }
                }
            }
        }
        return seen;
    }

    private static void routed(byte[] frame, int type, Inlane[] lane, Inlane.Owner owner, List<String> seen)
            throws Violation, JojoException {
        Path to = Path.get(frame, Frame.HEADER, frame.length);
        Path from = Path.get(frame, Frame.HEADER + to.size(), frame.length);
        int at = Frame.HEADER + to.size() + from.size();
        if (type > Frame.FAIL) {
            seen.add("number " + Frame.number(frame, at));
            return;
        }
        if (lane[0] == null) {
            lane[0] = new Inlane(from, 0, 0, to, 0, owner);
        }
        Arrived message = lane[0].take(frame, at, refused -> seen.add("refused"));
        if (message != null) {
            lane[0].handedOn(message);
            Object value = message.value(CLASSES, "a test");
            seen.add(to + " <- " + from + " " + message.tag + " "
                    + (value != null && value.getClass().isArray() ? value.getClass().getTypeName() : value));
        }
    }

    /** Hexadecimal, blanks and lines as one likes, '#' to the end of a line is for people. */
    private static byte[] hex(java.nio.file.Path file) throws IOException {
        StringBuilder digits = new StringBuilder();
        for (String line : Files.readAllLines(file)) {
            digits.append(line.replaceAll("#.*", "").replaceAll("\\s", ""));
        }
        return HexFormat.of().parseHex(digits);
    }

    private static List<java.nio.file.Path> vectors(String folder) throws IOException {
        try (var files = Files.list(VECTORS.resolve(folder))) {
            return files.filter(f -> f.toString().endsWith(".frames")).sorted().toList();
        }
    }

    private static String expected(java.nio.file.Path file) throws IOException {
        return Files.readString(java.nio.file.Path.of(file + ".expected")).strip();
    }

    /** spec/jojo/vectors/valid. */
    public void frames_that_are_right_are_read_as_they_are_meant() throws Exception {
        List<java.nio.file.Path> files = vectors("valid");
        Check.that(files.size() >= 5, files + " are too few");
        for (java.nio.file.Path file : files) {
            Check.equal(expected(file), String.join("\n", receive(hex(file))), file.toString());
        }
    }

    /** spec/jojo/vectors/invalid. */
    public void frames_that_are_wrong_are_refused_with_the_reason() throws Exception {
        List<java.nio.file.Path> files = vectors("invalid");
        Check.that(files.size() >= 10, files + " are too few");
        for (java.nio.file.Path file : files) {
            Exception e = Check.thrown(Exception.class, () -> receive(hex(file)), file.toString());
            Check.that(e instanceof Violation || e instanceof JojoException || e instanceof EOFException, file + ": " + e);
            Check.that(e.getMessage().contains(expected(file)), file + ": " + e.getMessage());
        }
    }

    private static byte[] message(Object value) throws JojoException {
        byte[] body = Encoder.bytes(value);
        byte[] frame = Frame.of(Frame.CALL, Frame.FIRST | Frame.LAST, 0, 1 + 3 + 16 + body.length);
        int at = Path.of(1).put(frame, Path.ROOT.put(frame, Frame.HEADER));
        Frame.put64(frame, at, 7L);
        Frame.put32(frame, at + 8, 1);
        Frame.put32(frame, at + 12, body.length);
        System.arraycopy(body, 0, frame, at + 16, body.length);
        return frame;
    }

    /** A seeded walk around what is right: any byte changed, removed or doubled, in any place. */
    public void bytes_that_were_damaged_end_in_a_named_exception() throws Exception {
        List<byte[]> seeds = new ArrayList<>();
        for (java.nio.file.Path file : vectors("valid")) {
            seeds.add(hex(file));
        }
        for (Object value : new Object[] {
            List.of(1, "two", 3.0), new Peer.Point(1, 2, "p", List.of(1)), new java.util.TreeMap<>(java.util.Map.of("a", 1)),
            new double[40], Peer.Colour.RED, new java.math.BigInteger("123456789012345678901234567890"), new Object[] {"x", null},
        }) {
            seeds.add(message(value));
        }
        Random random = new Random(20031);
        for (int i = 0; i < MUTATIONS; i++) {
            byte[] bytes = seeds.get(random.nextInt(seeds.size())).clone();
            for (int changes = 1 + random.nextInt(3); changes > 0; changes--) {
                int at = random.nextInt(bytes.length);
                switch (random.nextInt(3)) {
                    case 0 -> bytes[at] = (byte) random.nextInt();
                    case 1 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
                    default -> {
                        ByteArrayOutputStream other = new ByteArrayOutputStream();
                        other.write(bytes, 0, at);
                        int from = Math.min(bytes.length, at + random.nextInt(5));
                        other.write(bytes, from, bytes.length - from);
                        bytes = other.size() > 0 ? other.toByteArray() : bytes;
                    }
                }
            }
            byte[] damaged = bytes;
            try {
                receive(damaged);
            } catch (Violation | JojoException | EOFException e) {
                // As it should be.
            } catch (Throwable e) {
                throw new AssertionError("mutation " + i + " " + HexFormat.of().formatHex(damaged), e);
            }
        }
    }

    /** J9: a message that finds no room gives no credit, and who goes on all the same is refused. */
    public void a_sender_beyond_its_credit_is_refused() throws Exception {
        int announced = 900_000;
        long[] told = {Lane.BEGIN};
        Inlane lane = new Inlane(Path.of(1), 0, 0, Path.ROOT, 0, new Inlane.Owner() {
            private final Budget budget = new Budget(announced + 1);

            @Override
            public int lanes() {
                return 1;
            }

            @Override
            public void credit(Inlane of, byte[] frame) {
                told[0] = Frame.i64(frame, frame.length - 8);
            }

            @Override
            public Budget budget() {
                return budget;
            }
        });
        lane.take(piece(8, announced, 100), 12, refused -> {}); // has the room
        lane.take(piece(9, announced, 1000), 12, refused -> {}); // waits for it
        long[] sent = {1200};
        Check.thrown(Violation.class, () -> {
            for (;;) {
                lane.take(piece(9, -1, 30_000), 12, refused -> {});
                sent[0] += 30_000;
            }
        }, "a flood without credit");
        Check.that(sent[0] <= told[0], sent[0] + " bytes were taken with a credit of " + told[0]);
    }

    /** J10: senders other than ours may end a frame within an element. */
    public void arrays_are_whole_wherever_frames_cut_them() throws Exception {
        Random random = new Random(3);
        for (int tag = Tag.BYTES; tag <= Tag.BOOLEANS; tag++) {
            byte[] elements = new byte[100_000 / Tag.size(tag) * Tag.size(tag)];
            random.nextBytes(elements);
            Object array = Elements.make(tag, elements.length / Tag.size(tag));
            Elements.get(tag, elements, 0, array, 0, elements.length / Tag.size(tag));
            byte[] body = Encoder.bytes(array);
            for (boolean room : new boolean[] {true, false}) {
                Arrived message = cut(body, room, random);
                byte[] again = Encoder.bytes(message.value(CLASSES, "a test"));
                Check.that(java.util.Arrays.equals(body, again), "tag " + tag + (room ? " with" : " without") + " room");
            }
        }
    }

    /** A message of this body in frames of any size. */
    private static Arrived cut(byte[] body, boolean room, Random random) throws Violation {
        Arrived message = null;
        for (int at = 0; at < body.length; ) {
            int size = Math.min(body.length - at, at == 0 ? 5 + random.nextInt(20) : 1 + random.nextInt(5_000));
            byte[] frame = java.util.Arrays.copyOfRange(body, at, at + size);
            if (message == null) {
                message = new Arrived(Frame.SEND, null, 1, 0, body.length, frame, 0, false);
                if (room) {
                    message.fill();
                }
            } else {
                message.more(frame, 0);
            }
            at += size;
        }
        message.end();
        return message;
    }

    private static byte[] piece(long call, int announced, int size) {
        boolean first = announced >= 0;
        byte[] frame = Frame.of(Frame.CALL, first ? Frame.FIRST : 0, 0, 4 + (first ? 16 : 8) + size);
        int at = Path.of(1).put(frame, Path.ROOT.put(frame, Frame.HEADER));
        Frame.put64(frame, at, call);
        if (first) {
            Frame.put32(frame, at + 12, announced);
        }
        return frame;
    }

    public void a_length_is_not_believed_before_its_bytes_are_there() throws Exception {
        byte[] huge = new byte[] {Tag.DOUBLES, -1, -1, -1, 0x7f};
        JojoException e = Check.thrown(
                JojoException.class, () -> Decoder.decode(new In(huge, 0), CLASSES, "a test"), "a huge array");
        Check.that(e.getMessage().contains("elements in 0 bytes"), e.getMessage());
    }
}
