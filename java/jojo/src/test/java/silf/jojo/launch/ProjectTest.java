package silf.jojo.launch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import silf.jojo.Jojo;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;
import silf.jojo.testkit.Run;
import silf.jojo.testkit.Scratch;

/** The project that a person copies, copied: it builds, and does what its page says. */
public final class ProjectTest {
    private static final Path JAVA = Path.of("java");
    private static final String SAYS = "168 primes up to 1000\n";

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> files = Files.walk(from)) {
            for (Path file : files.filter(f -> !f.startsWith(from.resolve("target"))).toList()) {
                Path there = to.resolve(from.relativize(file).toString());
                if (Files.isDirectory(file)) {
                    Files.createDirectories(there);
                } else {
                    Files.copy(file, there);
                }
            }
        }
    }

    private static Path copied() throws IOException {
        Path folder = Scratch.folder();
        copy(JAVA.resolve("jojo-examples/project"), folder.resolve("project"));
        return folder;
    }

    private record Said(int status, String text) {}

    private static Said said(Path in, Map<String, String> environment, String... command) throws Exception {
        ProcessBuilder builder = new ProcessBuilder(command).directory(in.toFile()).redirectErrorStream(true);
        builder.environment().putAll(environment);
        Process process = Processes.guarded(builder.start());
        process.getOutputStream().close();
        String text = new String(process.getInputStream().readAllBytes());
        return new Said(process.waitFor(), text);
    }

    private static void runs(Path project, String jojo, Path classes) throws Exception {
        Said said = said(project, Map.of(), System.getProperty("java.home") + "/bin/java", "-cp", jojo + ":" + classes, Jojo.class.getName(),
                "conf/primes.toml", "conf/primes.prop");
        Check.equal(new Said(0, SAYS), said, "what it says");
    }

    /** Where Jojo itself runs from: its jar. */
    private static String jojo() throws Exception {
        return Path.of(Jojo.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
    }

    public void it_builds_with_javac_alone_and_runs() throws Exception {
        var compiler = ToolProvider.getSystemJavaCompiler();
        if (compiler == null) {
            throw new Run.Missing("javac");
        }
        Path folder = copied();
        Path classes = folder.resolve("classes");
        List<String> arguments = new ArrayList<>(List.of("--release", "17", "-proc:none", "-cp", jojo(), "-d", classes.toString()));
        try (Stream<Path> files = Files.walk(folder.resolve("project/src"))) {
            files.filter(f -> f.toString().endsWith(".java")).forEach(f -> arguments.add(f.toString()));
        }
        Check.equal(0, compiler.run(null, null, null, arguments.toArray(String[]::new)), "javac");
        runs(folder.resolve("project"), jojo(), classes);
    }

    /** Beside Jojo's own poms, whose jars it takes, so that nothing of ours need be installed. */
    public void it_builds_with_maven_and_runs() throws Exception {
        Path folder = copied();
        for (String part : List.of("pom.xml", "jojo/pom.xml", "jojo/src/main", "jpop/pom.xml", "jpop/src/main", "jpop-bb/src/main", "jpop-ga/src/main")) {
            Files.createDirectories(folder.resolve("java").resolve(part).getParent());
            copy(JAVA.resolve(part), folder.resolve("java").resolve(part));
        }
        Files.writeString(folder.resolve("pom.xml"), """
                <project xmlns="http://maven.apache.org/POM/4.0.0">
                  <modelVersion>4.0.0</modelVersion>
                  <groupId>org.example</groupId>
                  <artifactId>both</artifactId>
                  <version>1</version>
                  <packaging>pom</packaging>
                  <modules>
                    <module>java</module>
                    <module>project</module>
                  </modules>
                </project>
                """);
        Callable<Said> maven = () -> said(folder, Map.of("JAVA_HOME", System.getProperty("java.home")), "mvn", "-B", "-o", "-q", "package");
        Said built;
        try {
            built = maven.call();
        } catch (IOException e) {
            throw new Run.Missing("mvn");
        }
        // Nothing is fetched by a test.
        if (built.text().contains("offline mode")) {
            throw new Run.Missing("Maven's plugins in ~/.m2 (mvn -f java/pom.xml package)");
        }
        Check.equal(0, built.status(), built.text());
        for (String jar : List.of("jojo", "jpop")) {
            for (String kind : List.of("", "-sources", "-javadoc")) {
                Path made = folder.resolve("java/" + jar + "/target/" + jar + "-0.1.0" + kind + ".jar");
                Check.that(Files.size(made) > 10_000, made + " has " + Files.size(made) + " bytes");
            }
        }
        Path project = folder.resolve("project");
        runs(project, folder.resolve("java/jojo/target/jojo-0.1.0.jar").toString(), project.resolve("target/classes"));
    }
}
