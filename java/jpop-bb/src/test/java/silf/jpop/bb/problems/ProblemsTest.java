package silf.jpop.bb.problems;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import silf.jojo.JojoException;
import silf.jojo.testkit.Check;
import silf.jpop.Cities;
import silf.jpop.Trees;
import silf.jpop.Words;
import silf.jpop.bb.BranchAndBound;
import silf.jpop.bb.Problem;

/** The problems against dynamic programming and against all permutations, against published optima, and their readers. */
public final class ProblemsTest {
    private static final Path VECTORS = Path.of("spec/jpop/vectors");

    private static <S> long best(Problem<S> problem) throws JojoException {
        return BranchAndBound.solve(problem, Trees.local()).value();
    }

    public void knapsacks_are_those_of_dynamic_programming() throws JojoException {
        for (int seed = 0; seed < 30; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int count = 1 + random.nextInt(14);
            long[] values = random.longs(count, 0, 50).toArray();
            long[] weights = random.longs(count, 0, 30).toArray();
            int capacity = random.nextInt(120);
            long[] best = new long[capacity + 1];
            for (int i = 0; i < count; i++) {
                for (int room = capacity; room >= weights[i]; room--) {
                    best[room] = Math.max(best[room], best[room - (int) weights[i]] + values[i]);
                }
            }
            Check.equal(best[capacity], best(Knapsack.of(capacity, values, weights)), "knapsack " + seed);
        }
    }

    public void a_knapsack_of_huge_numbers_is_exact() throws JojoException {
        long most = Knapsack.EACH_MOST;
        Check.equal(2 * most - 1, best(Knapsack.of(most, new long[] {most, most - 1, most}, new long[] {most / 2 + 1, most / 2, most / 2})),
                "the value");
    }

    private interface Order {
        long value(int[] order);
    }

    private static long leastOfAll(int[] order, int from, Order of) {
        if (from == order.length) {
            return of.value(order);
        }
        long least = Long.MAX_VALUE;
        for (int i = from; i < order.length; i++) {
            int[] next = order.clone();
            next[from] = order[i];
            next[i] = order[from];
            least = Math.min(least, leastOfAll(next, from + 1, of));
        }
        return least;
    }

    private static int[] range(int from, int to) {
        return java.util.stream.IntStream.range(from, to).toArray();
    }

    public void flow_shops_are_the_best_of_all_orders() throws JojoException {
        for (int seed = 0; seed < 15; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int jobs = 1 + random.nextInt(6);
            int[][] times = new int[1 + random.nextInt(4)][];
            for (int m = 0; m < times.length; m++) {
                times[m] = random.ints(jobs, 0, 20).toArray();
            }
            long least = leastOfAll(range(0, jobs), 0, order -> {
                long[] done = new long[times.length];
                for (int job : order) {
                    long before = 0;
                    for (int m = 0; m < done.length; m++) {
                        before = Math.max(before, done[m]) + times[m][job];
                        done[m] = before;
                    }
                }
                return done[done.length - 1];
            });
            Check.equal(least, best(new FlowShop(times)), "flow shop " + seed);
        }
    }

    public void tours_are_the_best_of_all_orders() throws JojoException {
        for (int seed = 0; seed < 15; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int count = 1 + random.nextInt(8);
            long[][] ways = new long[count][count];
            for (int i = 0; i < count; i++) {
                for (int j = 0; j < i; j++) {
                    ways[i][j] = ways[j][i] = random.nextInt(100);
                }
            }
            long least = leastOfAll(range(1, count), 0, order -> {
                long length = 0;
                int last = 0;
                for (int city : order) {
                    length += ways[last][city];
                    last = city;
                }
                return length + ways[last][0];
            });
            Check.equal(least, best(Salesman.of(ways)), "tour " + seed);
        }
    }

    public void cliques_are_the_largest_of_all_subsets() throws JojoException {
        for (int seed = 0; seed < 25; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int count = 1 + random.nextInt(12);
            int percent = random.nextInt(100);
            boolean[][] know = new boolean[count][count];
            for (int i = 0; i < count; i++) {
                for (int j = 0; j < i; j++) {
                    know[i][j] = know[j][i] = random.nextInt(100) < percent;
                }
            }
            long most = 0;
            subsets:
            for (int set = 0; set < 1 << count; set++) {
                for (int i = 0; i < count; i++) {
                    for (int j = 0; j < i; j++) {
                        if ((set >> i & set >> j & 1) == 1 && !know[i][j]) {
                            continue subsets;
                        }
                    }
                }
                most = Math.max(most, Integer.bitCount(set));
            }
            Check.equal(most, best(Clique.of(count, (a, b) -> know[a][b])), "clique " + seed);
        }
    }

    /** DIMACS' second challenge: graphs by definition, with their largest cliques as published there. */
    public void cliques_of_published_graphs_are_the_published_ones() throws JojoException {
        Check.equal(4L, best(Clique.of(64, (a, b) -> Integer.bitCount(a ^ b) >= 4)), "hamming6-4");
        Check.equal(32L, best(Clique.of(64, (a, b) -> Integer.bitCount(a ^ b) >= 2)), "hamming6-2");
        int[] pairs = java.util.stream.IntStream.range(0, 256).filter(v -> Integer.bitCount(v) == 2).toArray();
        Check.equal(4L, best(Clique.of(pairs.length, (a, b) -> Integer.bitCount(pairs[a] ^ pairs[b]) >= 4)), "johnson8-2-4");
        int[] fours = java.util.stream.IntStream.range(0, 256).filter(v -> Integer.bitCount(v) == 4).toArray();
        Check.equal(14L, best(Clique.of(fours.length, (a, b) -> Integer.bitCount(fours[a] ^ fours[b]) >= 4)), "johnson8-4-4");
    }

    private static Problem<?> read(Path file) throws JojoException {
        Words words = Words.of(file.toString());
        String name = file.getFileName().toString();
        return switch (name.substring(name.lastIndexOf('.') + 1)) {
            case "kp" -> Knapsack.read(words);
            case "fsp" -> FlowShop.read(words);
            case "clq" -> Clique.read(words);
            case "tsp" -> Salesman.of(Cities.read(words));
            default -> throw new AssertionError("what is " + file + "?");
        };
    }

    private static List<Path> vectors(String kind) throws Exception {
        try (var files = Files.list(VECTORS.resolve(kind))) {
            List<Path> all = files.filter(f -> f.toString().matches(".*\\.(kp|fsp|clq|tsp)")).sorted().toList();
            Check.that(all.size() > 3, "vectors are missing in " + VECTORS.resolve(kind));
            return all;
        }
    }

    /** A vector's name ends with its optimum: gr17-2085.tsp. */
    public void valid_instances_are_read_and_have_their_published_optimum() throws Exception {
        for (Path file : vectors("valid")) {
            String name = file.getFileName().toString();
            if (!name.contains("-")) {
                continue; // too hard to be solved here
            }
            long optimum = Long.parseLong(name.replaceAll(".*-(\\d+)\\.[a-z]+$", "$1"));
            Check.equal(optimum, best(read(file)), name);
        }
    }

    /** Taillard (1993) gives this bound for his first instance, and it is computed as ours is. */
    public void the_bound_of_a_published_flow_shop_is_the_published_one() throws JojoException {
        FlowShop shop = FlowShop.read(Words.of(VECTORS.resolve("valid/ta001.fsp").toString()));
        Check.equal(1232L, shop.bound(shop.root()), "the bound of ta001");
    }

    /** What is to be said stands beside it: instance.txt. */
    public void invalid_instances_are_refused_with_line_and_column() throws Exception {
        for (Path file : vectors("invalid")) {
            String said = Files.readString(Path.of(file + ".txt")).strip();
            JojoException e = Check.thrown(JojoException.class, () -> read(file), file.toString());
            Check.equal(file + ":" + said, e.getMessage(), "what is said");
        }
    }

    public void every_instance_that_is_cut_short_is_refused_or_smaller() throws Exception {
        List<String> well = new ArrayList<>();
        for (Path file : vectors("valid")) {
            String text = Files.readString(file);
            for (int length = 0; length < text.stripTrailing().length(); length += 1 + text.length() / 400) {
                Path cut = Path.of(file.getFileName().toString());
                Words words = new Words(cut.toString(), text.substring(0, length));
                try {
                    switch (cut.toString().replaceAll(".*\\.", "")) {
                        case "kp" -> Knapsack.read(words);
                        case "fsp" -> FlowShop.read(words);
                        case "clq" -> Clique.read(words);
                        default -> Cities.read(words);
                    }
                    // Within its last number or behind it nothing can be seen to be missing.
                    if (text.substring(length).strip().length() > 5) {
                        well.add(cut + " after " + length);
                    }
                } catch (JojoException e) {
                    Check.that(e.getMessage().matches("(?s)" + cut + ":\\d+:\\d+: .+"), e.getMessage());
                }
            }
        }
        Check.equal(List.of(), well, "read although cut");
    }

    public void euclidean_distances_are_rounded_as_tsplib_says() throws JojoException {
        long[][] ways = Cities.read(new Words("x", "DIMENSION: 3\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 1.5 0\n3 0 1e1\nEOF\n"));
        Check.equal("[[0, 2, 10], [2, 0, 10], [10, 10, 0]]", Arrays.deepToString(ways), "distances");
    }
}
