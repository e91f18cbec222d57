package silf.jpop.bb;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.TreeMap;
import silf.jojo.testkit.Check;
import silf.jpop.Damaged;

/** Open subproblems as bytes: back as they were, vectors, and whatever else comes is refused. */
public final class CodedTest {
    private static final Path VECTORS = Path.of("spec/jpop/vectors");

    private static String text(List<? extends Open<?>> opens) {
        StringBuilder text = new StringBuilder();
        opens.forEach(open -> text.append(open.at).append(' ').append(open.bound).append('\n'));
        return text.toString();
    }

    public void what_is_open_comes_back_as_it_was() throws Damaged {
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 300; i++) {
            TreeMap<Position, Open<?>> opens = new TreeMap<>();
            for (int count = random.nextInt(40); count > 0; count--) {
                Position at = Position.of(random.ints(1 + random.nextInt(12), 0, i % 2 == 0 ? 3 : 1 << 20).toArray());
                Position before = opens.floorKey(at);
                Position after = opens.ceilingKey(at);
                if ((before == null || !before.holds(at)) && (after == null || !at.holds(after))) {
                    opens.put(at, new Open<>(at, random.nextLong() / 4, null));
                }
            }
            List<Open<?>> all = List.copyOf(opens.values());
            Check.equal(text(all), text(Coded.opens(Coded.opens(all))), "open subproblems");
        }
    }

    public void positions_are_in_the_order_of_a_search_in_depth() {
        int[][] order = {{}, {0}, {0, 0}, {0, 0, 5}, {0, 1}, {1}, {1, 0}, {2}, {10}};
        for (int a = 0; a < order.length; a++) {
            for (int b = 0; b < order.length; b++) {
                Position one = Position.of(order[a]);
                Position other = Position.of(order[b]);
                Check.equal(Integer.signum(Integer.compare(a, b)), Integer.signum(one.compareTo(other)), one + " and " + other);
                Check.equal(Arrays.equals(order[a], Arrays.copyOf(order[b], Math.min(order[a].length, order[b].length)))
                        && order[a].length <= order[b].length, one.holds(other), one + " holds " + other);
            }
        }
    }

    /** {@code NAME.opens.hex} beside {@code NAME.txt}: the subproblems with their bounds, or why there are none. */
    public void vectors_are_taken_and_refused() throws Exception {
        for (String kind : List.of("valid", "invalid")) {
            int count = 0;
            try (var files = Files.list(VECTORS.resolve(kind))) {
                for (Path file : files.filter(f -> f.toString().endsWith(".opens.hex")).sorted().toList()) {
                    count++;
                    byte[] bytes = HexFormat.of().parseHex(Files.readString(file).replaceAll("\\s", ""));
                    String told = Files.readString(Path.of(file.toString().replace(".opens.hex", ".txt")));
                    if (kind.equals("valid")) {
                        Check.equal(told, text(Coded.opens(bytes)), file.toString());
                        Check.that(Arrays.equals(bytes, Coded.opens(Coded.opens(bytes))), file + " is written otherwise");
                    } else {
                        Check.equal(told.strip(), Check.thrown(Damaged.class, () -> Coded.opens(bytes), file.toString()).getMessage(),
                                file.toString());
                    }
                }
            }
            Check.that(count > 1, "vectors are missing: " + kind);
        }
    }

    public void any_bytes_are_refused_or_taken_and_nothing_else_happens() {
        SplittableRandom random = new SplittableRandom(2);
        byte[] well = Coded.opens(List.of(new Open<>(Position.of(new int[] {0, 1, 300}), -5, null),
                new Open<>(Position.of(new int[] {0, 2}), 1L << 40, null)));
        int refused = 0;
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = i % 2 == 0 ? new byte[random.nextInt(40)] : Arrays.copyOf(well, random.nextInt(well.length + 1));
            if (i % 2 == 0) {
                random.nextBytes(bytes);
            } else if (bytes.length > 0 && random.nextBoolean()) {
                bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
            }
            try {
                Coded.opens(bytes);
            } catch (Damaged e) {
                refused++;
            }
        }
        Check.that(refused > 10_000, "only " + refused + " were refused");
    }
}
