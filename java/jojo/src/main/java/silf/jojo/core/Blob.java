package silf.jojo.core;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * A class or resource of the client's class path, or the certainty that there is none (bytes are null).
 *
 * @param hash as whoever read the bytes from the class path found it: it tells versions apart and proves nothing, so that
 *     a JVM that is just starting need not compute it
 */
record Blob(String name, byte[] bytes, long hash) {
    /** Whose hash nobody asks for: what each node has anyway, and what is of one start only. */
    static Blob unhashed(String name, byte[] bytes) {
        return new Blob(name, bytes, 0);
    }

    static Blob of(String name, byte[] bytes) {
        return new Blob(name, bytes, bytes == null ? 0 : hash(bytes));
    }

    boolean absent() {
        return bytes == null;
    }

    /** The first 8 bytes of SHA-256. */
    static long hash(byte[] bytes) {
        try {
            return Frame.i64(MessageDigest.getInstance("SHA-256").digest(bytes), 0);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }
}
