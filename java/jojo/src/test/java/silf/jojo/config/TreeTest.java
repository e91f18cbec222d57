package silf.jojo.config;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import silf.jojo.testkit.Check;

/** Configurations as files: the vectors of spec/jojo/vectors, and what is made of them by chance. */
public final class TreeTest {
    /** Where the vectors say that they stand. */
    private static final Path FOLDER = Path.of("/srv");

    private static final long MUTANTS = 20_000;

    /** Configurations among the vectors, whose other files are frames. */
    private static List<Path> vectors(String kind) throws Exception {
        Path folder = Path.of(System.getProperty("jojo.root", "."), "spec/jojo/vectors", kind);
        try (var files = Files.list(folder)) {
            List<Path> found = files.filter(f -> f.toString().matches(".*\\.(xml|toml|conf)")).sorted().toList();
            Check.that(!found.isEmpty(), "no vectors in " + folder.toAbsolutePath());
            return found;
        }
    }

    private static String expected(Path vector) throws Exception {
        return Files.readString(Path.of(vector + ".expected"));
    }

    public void every_valid_vector_is_the_tree_that_it_says() throws Exception {
        for (Path vector : vectors("valid")) {
            NodeSpec tree = Tree.parse(vector.getFileName().toString(), Files.readAllBytes(vector), FOLDER);
            Check.equal(expected(vector), TreeText.of(tree), vector.toString());
        }
    }

    public void every_invalid_vector_is_refused_at_its_line_and_column() throws Exception {
        for (Path vector : vectors("invalid")) {
            String name = vector.getFileName().toString();
            ConfigException refused = Check.thrown(ConfigException.class,
                    () -> Tree.parse(name, Files.readAllBytes(vector), FOLDER), name);
            Check.equal(name + ":" + expected(vector).strip(), refused.getMessage(), name);
        }
    }

    public void names_are_unique_whatever_was_written() throws Exception {
        for (Path vector : vectors("valid")) {
            NodeSpec tree = Tree.parse("it", Files.readAllBytes(vector), FOLDER);
            List<String> names = names(tree);
            Check.equal(names.size(), (int) names.stream().distinct().count(), names.toString());
            Check.equal(tree.size(), names.size(), vector.toString());
        }
    }

    private static List<String> names(NodeSpec node) {
        List<String> names = new java.util.ArrayList<>(List.of(node.name()));
        node.children().forEach(c -> names.addAll(names(c)));
        return names;
    }

    public void a_file_that_is_not_there_is_told() {
        ConfigException refused = Check.thrown(ConfigException.class, () -> Tree.read(Path.of("/no/such.conf")), "reading");
        Check.that(refused.getMessage().contains("/no/such.conf"), refused.getMessage());
    }

    /** Bytes of vectors changed, cut and joined at random: each is a tree or is refused with a place, in bounded time. */
    public void damaged_files_are_refused_and_never_break_the_reader() throws Exception {
        List<Path> all = new java.util.ArrayList<>(vectors("valid"));
        all.addAll(vectors("invalid"));
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (long i = 0; i < MUTANTS; i++) {
            byte[] text = Files.readAllBytes(all.get(random.nextInt(all.size())));
            for (int changes = random.nextInt(4); changes >= 0 && text.length > 0; changes--) {
                int at = random.nextInt(text.length);
                switch (random.nextInt(3)) {
                    case 0 -> text[at] = (byte) random.nextInt(256);
                    case 1 -> text = java.util.Arrays.copyOf(text, at);
                    default -> text[at] = "<>[]\"'=&#-\n".getBytes(StandardCharsets.US_ASCII)[random.nextInt(11)];
                }
            }
            try {
                Tree.parse("mutant", text, FOLDER);
            } catch (ConfigException e) {
                Check.that(e.place().line() >= 1 && e.place().column() >= 1, e.getMessage());
            } catch (RuntimeException e) {
                throw new AssertionError("seed " + seed + ", mutant " + i + ": " + new String(text, StandardCharsets.ISO_8859_1), e);
            }
        }
    }
}
