package silf.jojo.testkit;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Processes as /proc shows them: which are there, what they are. Marks go into the options of nodes' JVMs
 * ({@code -Djojo.mark=...}), so that a test finds its own nodes and no other's, orphans too.
 */
public final class Processes {
    private static final Set<Process> GUARDED = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> GUARDED.forEach(Process::destroyForcibly)));
    }

    private Processes() {}

    /** The same process, which ends with this JVM at the latest: a test that fails leaves nothing behind. */
    public static Process guarded(Process process) {
        GUARDED.add(process);
        process.onExit().thenAccept(GUARDED::remove);
        return process;
    }

    /** Numbers of all processes, zombies left out, with {@code word} in their command line; ssh and shells that only carry the command are left out. */
    public static List<Long> javaWith(String word) throws IOException {
        List<Long> found = new ArrayList<>();
        try (var folders = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path folder : folders) {
                String command;
                try {
                    command = new String(Files.readAllBytes(folder.resolve("cmdline")), StandardCharsets.UTF_8);
                } catch (IOException e) {
                    continue; // it has ended
                }
                String[] words = command.split("\0");
                boolean java = words[0].endsWith("java");
                if (java && command.contains(word)) {
                    found.add(Long.parseLong(folder.getFileName().toString()));
                }
            }
        }
        return found;
    }

    /** Waits until no such process is left. @return milliseconds that it took; -1 if there is one after {@code most_ms} */
    public static long goneWithin_ms(String word, long most_ms) throws IOException, InterruptedException {
        long begun = System.nanoTime();
        while (true) {
            long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
            if (javaWith(word).isEmpty()) {
                return ms;
            }
            if (ms > most_ms) {
                return -1;
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    /** Ends at once all that {@link #javaWith} finds, what is stopped as well. */
    public static void end(String word) throws IOException, InterruptedException {
        for (long pid : javaWith(word)) {
            kill(pid, "KILL");
        }
    }

    /** Resident memory in kB; 0 if it has gone. */
    public static long memory_kB(long pid) throws IOException {
        try {
            return Files.readAllLines(Path.of("/proc/" + pid + "/status")).stream()
                    .filter(l -> l.startsWith("VmRSS:")).mapToLong(l -> Long.parseLong(l.replaceAll("[^0-9]", ""))).sum();
        } catch (java.nio.file.NoSuchFileException e) {
            return 0;
        }
    }

    public static void kill(long pid, String signal) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + signal, Long.toString(pid)).inheritIO().start().waitFor();
    }
}
