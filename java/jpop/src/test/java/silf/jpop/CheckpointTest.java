package silf.jpop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import silf.jojo.JojoException;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Scratch;

/** Checkpoints: one that was cut or altered anywhere is refused, and is one's own alone. */
public final class CheckpointTest {
    private static byte[] bytes() {
        byte[] bytes = new byte[300];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 7);
        }
        return bytes;
    }

    public void what_was_kept_is_read_again_and_replaced_by_what_is_kept_next() throws Exception {
        Path file = Scratch.file("kept");
        Checkpoint checkpoint = new Checkpoint(file, "bb", "the problem");
        Check.equal(null, checkpoint.read(), "before anything was kept");
        checkpoint.write(bytes());
        Check.that(Arrays.equals(bytes(), checkpoint.read()), "it is not what was kept");
        Check.equal("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)), "mode");
        checkpoint.write(new byte[0]);
        Check.equal(0, checkpoint.read().length, "length of the next");
        try (var all = Files.list(file.getParent())) {
            Check.equal(1L, all.count(), "files there");
        }
    }

    public void one_of_another_problem_or_module_is_refused() throws Exception {
        Path file = Scratch.file("kept");
        new Checkpoint(file, "bb", "the problem").write(bytes());
        JojoException problem = Check.thrown(JojoException.class, () -> new Checkpoint(file, "bb", "another").read(), "another problem");
        Check.that(problem.getMessage().contains("another problem") && problem.getMessage().contains(file.toString()), problem.getMessage());
        JojoException kind = Check.thrown(JojoException.class, () -> new Checkpoint(file, "ga", "the problem").read(), "another module");
        Check.that(kind.getMessage().contains("jpop-bb"), kind.getMessage());
    }

    public void one_that_was_cut_or_altered_anywhere_is_refused() throws Exception {
        byte[] of = new byte[32];
        byte[] whole = Checkpoint.encode("bb", of, bytes());
        Check.that(Arrays.equals(bytes(), Checkpoint.decode(whole, "bb", of)), "the whole one");
        for (int length = 0; length < whole.length; length++) {
            byte[] cut = Arrays.copyOf(whole, length);
            Check.thrown(Damaged.class, () -> Checkpoint.decode(cut, "bb", of), "cut after " + length);
        }
        for (int at = 0; at < whole.length; at++) {
            byte[] altered = whole.clone();
            altered[at] ^= 1;
            Check.thrown(Damaged.class, () -> Checkpoint.decode(altered, "bb", of), "altered at " + at);
        }
    }
}
