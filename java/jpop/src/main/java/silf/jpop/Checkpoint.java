package silf.jpop;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.EnumSet;
import silf.jojo.JojoException;

/**
 * A file from which a run goes on after all of its tree was lost (spec/jpop P2): it is the old one or the new one, whatever
 * happens while it is written, and one that was altered or cut is refused. Not in it: what the bytes mean.
 */
public final class Checkpoint {
    /** What 1,000 nodes have open takes some megabytes. */
    private static final int FILE_MOST_bytes = 256 << 20;
    private static final byte[] MAGIC = "JPOP/1\r\n".getBytes(StandardCharsets.US_ASCII);
    private static final int SUM = 32;
    private static final int KIND_MOST_bytes = 16;

    private final Path file;
    private final String kind;
    private final byte[] of;

    /**
     * @param kind which module's: "bb", "ga"
     * @param problem what is being solved; a file of another one is refused
     */
    public Checkpoint(Path file, String kind, Serializable problem) throws JojoException {
        this.file = file.toAbsolutePath();
        this.kind = kind;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (var out = new java.io.ObjectOutputStream(bytes)) {
            out.writeObject(problem);
        } catch (IOException e) {
            throw new JojoException(problem.getClass().getName() + " cannot be sent or kept, it is not Serializable: " + e.getMessage(), e);
        }
        this.of = sha256(bytes.toByteArray(), bytes.size());
    }

    /** The bytes that were kept; null if there is no file. */
    public byte[] read() throws JojoException {
        byte[] bytes;
        try {
            if (Files.size(file) > FILE_MOST_bytes) {
                throw new JojoException(file + " has more than " + FILE_MOST_bytes + " bytes: it is no checkpoint");
            }
            bytes = Files.readAllBytes(file);
        } catch (NoSuchFileException e) {
            return null;
        } catch (IOException e) {
            throw new JojoException("the checkpoint " + file + " cannot be read: " + e, e);
        }
        try {
            return decode(bytes, kind, of);
        } catch (Damaged e) {
            throw new JojoException("the checkpoint " + file + " cannot be used: " + e.getMessage()
                    + ". Remove it to begin anew", e);
        }
    }

    /** Replaces what is kept. */
    public void write(byte[] bytes) throws JojoException {
        Path next = file.resolveSibling("." + file.getFileName() + ".next");
        try {
            Files.deleteIfExists(next);
            Files.createFile(next, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            try (FileChannel out = FileChannel.open(next, EnumSet.of(StandardOpenOption.WRITE))) {
                ByteBuffer all = ByteBuffer.wrap(encode(kind, of, bytes));
                while (all.hasRemaining()) {
                    out.write(all);
                }
                out.force(true);
            }
            Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
            try (FileChannel folder = FileChannel.open(file.getParent())) {
                folder.force(true); // else a crash of the machine could bring the old one back
            }
        } catch (IOException e) {
            throw new JojoException("the checkpoint " + file + " cannot be written: " + e, e);
        }
    }

    static byte[] encode(String kind, byte[] of, byte[] bytes) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length + 128);
        out.writeBytes(MAGIC);
        Numbers.putText(out, kind);
        out.writeBytes(of);
        Numbers.put(out, bytes.length);
        out.writeBytes(bytes);
        out.writeBytes(sha256(out.toByteArray(), out.size()));
        return out.toByteArray();
    }

    static byte[] decode(byte[] file, String kind, byte[] of) throws Damaged {
        Numbers in = new Numbers(file);
        if (file.length < MAGIC.length || !Arrays.equals(in.take(MAGIC.length), MAGIC)) {
            throw new Damaged("it is no checkpoint of jPoP");
        }
        int end = file.length - SUM;
        if (end < MAGIC.length || !Arrays.equals(sha256(file, end), Arrays.copyOfRange(file, end, file.length))) {
            throw new Damaged("it was cut short or altered: its sum is wrong");
        }
        String its = in.text(KIND_MOST_bytes);
        if (!its.equals(kind)) {
            throw new Damaged("it is of a run of jpop-" + its + ", this is jpop-" + kind);
        }
        if (!Arrays.equals(in.take(SUM), of)) {
            throw new Damaged("it is of another problem, or of another version of its class");
        }
        byte[] bytes = in.take(in.count(FILE_MOST_bytes, 1, "bytes"));
        in.take(SUM);
        in.end();
        return bytes;
    }

    private static byte[] sha256(byte[] bytes, int count) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(bytes, 0, count);
            return digest.digest();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }
}
