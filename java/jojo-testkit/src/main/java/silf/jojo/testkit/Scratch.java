package silf.jojo.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Folders of one test, gone when it ends. */
public final class Scratch {
    private static final Queue<Path> FOLDERS = new ConcurrentLinkedQueue<>();

    private Scratch() {}

    /** A new, empty folder. */
    public static Path folder() {
        try {
            Path folder = Files.createTempDirectory("jojo-test");
            FOLDERS.add(folder);
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The place of a file that is not there yet, in a folder of its own. */
    public static Path file(String name) {
        return folder().resolve(name);
    }

    static void clear() {
        for (Path folder = FOLDERS.poll(); folder != null; folder = FOLDERS.poll()) {
            try (var files = Files.walk(folder)) {
                for (Path file : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
                    Files.deleteIfExists(file);
                }
            } catch (IOException | UncheckedIOException e) {
                System.err.println("left behind: " + folder + ": " + e);
            }
        }
    }
}
