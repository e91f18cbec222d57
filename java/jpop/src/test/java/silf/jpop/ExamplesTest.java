package silf.jpop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;
import silf.jojo.testkit.Scratch;

/** The guide's example as a person runs it: a command, nodes that are JVMs of their own. */
public final class ExamplesTest {
    private static final Path FOLDER = Path.of("java/jojo-examples/queens");

    /** What it prints. */
    private static List<String> run(Path tree, Path properties) throws Exception {
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        String classes = "target/java/jojo.jar:target/java/jpop.jar:target/java/examples/queens";
        Process process = Processes.guarded(new ProcessBuilder(
                        java.toString(), "-cp", classes, "silf.jojo.Jojo", tree.toString(), properties.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start());
        List<String> lines = new ArrayList<>();
        try (var out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line; (line = out.readLine()) != null; ) {
                lines.add(line);
            }
        }
        Check.equal(0, process.waitFor(), "exit status of " + tree + ": " + lines);
        return lines;
    }

    public void the_guides_problem_is_solved_by_two_nodes() throws Exception {
        List<String> lines = run(FOLDER.resolve("jojo.toml"), FOLDER.resolve("queens.prop"));
        Check.that(lines.get(0).startsWith("best: 73, proven; columns ["), lines.toString());
    }

    public void the_guides_problem_has_sixty_lines_at_most() throws Exception {
        Check.that(Files.readAllLines(FOLDER.resolve("Queens.java")).size() <= 60, "it has grown");
    }

    public void events_are_written_while_islands_breed() throws Exception {
        Path folder = Scratch.folder();
        Path events = folder.resolve("events.jsonl");
        Path properties = folder.resolve("r.prop");
        // Too hard to be solved by one island before the other has begun; so each breeds to the last generation.
        String harder = "jpop.function=rosenbrock\njpop.generations=300\n";
        Files.writeString(properties, Files.readString(FOLDER.resolve("rastrigin.prop")) + harder + "jpop.events=" + events + "\n");
        List<String> lines = run(FOLDER.resolve("rastrigin.toml"), properties);
        Check.that(lines.get(0).startsWith("best: "), lines.toString());
        List<String> told = Files.readAllLines(events);
        Check.equal("{\"jpop\":1,\"kind\":\"ga\",\"problem\":\"silf.jpop.ga.problems.Real\",\"maximises\":false}", told.get(0), "the first");
        Check.that(told.get(told.size() - 1).endsWith("\"end\":\"done\"}"), "the last: " + told.get(told.size() - 1));
        String before = told.get(told.size() - 2);
        Check.that(before.contains("\"name\":\"island1\",\"works\":true,\"work\":") && before.contains("\"mean\":"), before);
    }
}
