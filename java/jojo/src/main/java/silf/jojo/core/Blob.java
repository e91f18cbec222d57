package silf.jojo.core;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** A class or resource of the client's class path, or the certainty that there is none (bytes are null). */
record Blob(String name, byte[] bytes, long hash) {
    static Blob of(String name, byte[] bytes) {
        return new Blob(name, bytes, bytes == null ? 0 : hash(bytes));
    }

    boolean absent() {
        return bytes == null;
    }

    /** The first 8 bytes of SHA-256. */
    static long hash(byte[] bytes) {
        try {
            return (long) Frame.LONG.get(MessageDigest.getInstance("SHA-256").digest(bytes), 0);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }
}
