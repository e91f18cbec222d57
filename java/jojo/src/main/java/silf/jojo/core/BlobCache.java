package silf.jojo.core;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;

/**
 * Blobs that a host keeps from run to run (spec/jojo J8), for programs that ask for it: nothing stays on a host otherwise.
 * A folder of the account's own, a file a blob, named by its hash and size and looked at before it is used. Not in it: who
 * tells whom what is held.
 */
final class BlobCache {
    /** The property of a program that wants it, when it is "true". */
    static final String PROPERTY = "jojo.cache";

    /** The code of a large program, some versions of it; what was not used for longest goes first. */
    private static final long BYTES_MOST = 256L << 20;
    /** One model or native library must not push out all classes. */
    private static final int BLOB_MOST = 64 << 20;

    private record Kept(Path file, long hash, long size, FileTime used) {}

    private final Path folder;
    private final LinkedBlockingQueue<Runnable> work = new LinkedBlockingQueue<>();
    // Guarded by this.
    private boolean working;

    private BlobCache(Path folder) {
        this.folder = folder;
        Thread thread = new LinkThread("cache", this::work);
        thread.setPriority(Thread.MIN_PRIORITY); // what is kept now is for another day
        thread.start();
    }

    static boolean isAsked(Map<String, String> properties) {
        return "true".equals(properties.get(PROPERTY));
    }

    /** That of this account; null where the host has no place that is this account's alone. */
    static BlobCache ofThisAccount() {
        String cache = System.getenv("XDG_CACHE_HOME");
        if (cache == null || !cache.startsWith("/")) {
            cache = System.getProperty("user.home") + "/.cache";
        }
        return in(Path.of(cache, "jojo"));
    }

    static BlobCache in(Path folder) {
        try {
            var own = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
            Files.createDirectories(folder.getParent());
            if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
                Files.createDirectory(folder, own);
            }
            PosixFileAttributes is = Files.readAttributes(folder, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
            boolean ours = is.isDirectory() && is.owner().equals(Files.getOwner(Path.of("/proc/self")))
                    && PosixFilePermissions.toString(is.permissions()).equals("rwx------");
            return ours ? new BlobCache(folder) : null;
        } catch (IOException | UnsupportedOperationException e) {
            return null;
        }
    }

    /** What HELLO says: the hashes of what was used last. */
    long[] held() {
        List<Kept> all = all();
        long[] held = new long[Math.min(all.size(), Hello.HELD_MOST)];
        for (int i = 0; i < held.length; i++) {
            held[i] = all.get(i).hash;
        }
        return held;
    }

    /** All that is kept, what was used last first; none where the folder cannot be read. */
    private List<Kept> all() {
        List<Kept> all = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "????????????????-*")) {
            for (Path file : files) {
                String name = file.getFileName().toString();
                try {
                    BasicFileAttributes is = Files.readAttributes(file, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
                    all.add(new Kept(file, Long.parseUnsignedLong(name.substring(0, 16), 16), is.size(), is.lastModifiedTime()));
                } catch (IOException | NumberFormatException e) {
                    // Another JVM was quicker to remove it, or it is none of ours.
                }
            }
        } catch (IOException | java.nio.file.DirectoryIteratorException e) {
            return List.of();
        }
        all.sort((a, b) -> b.used.compareTo(a.used));
        return all;
    }

    private Path file(long hash, int size) {
        return folder.resolve(String.format("%016x-%d", hash, size));
    }

    /** Hands on what is kept by this hash, or null; later, in a thread of the cache. */
    void get(long hash, int size, Consumer<byte[]> to) {
        submit(() -> to.accept(read(hash, size)));
    }

    private byte[] read(long hash, int size) {
        Path file = file(hash, size);
        try {
            byte[] bytes = Files.readAllBytes(file);
            if (bytes.length == size && Blob.hash(bytes) == hash) {
                Files.setLastModifiedTime(file, FileTime.fromMillis(System.currentTimeMillis()));
                return bytes;
            }
            Files.deleteIfExists(file); // damaged
        } catch (IOException | OutOfMemoryError e) {
            // As if it were not there.
        }
        return null;
    }

    /** Keeps a blob, later; one that is not what its hash says is not kept. */
    void put(Blob blob) {
        if (blob.bytes().length <= BLOB_MOST) {
            submit(() -> write(blob));
        }
    }

    private void write(Blob blob) {
        Path file = file(blob.hash(), blob.bytes().length);
        if (Files.exists(file) || Blob.hash(blob.bytes()) != blob.hash()) {
            return;
        }
        try {
            Path part = Files.createTempFile(folder, "part", null); // 0600
            try {
                Files.write(part, blob.bytes());
                Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(part);
            }
        } catch (IOException e) {
            // A full disk is no reason to fail.
        }
    }

    private void submit(Runnable task) {
        synchronized (this) {
            working = true;
        }
        work.add(task);
    }

    private void work() {
        for (; ; ) {
            try {
                work.take().run();
            } catch (InterruptedException e) {
                return;
            }
            synchronized (this) {
                if (work.isEmpty()) {
                    working = false;
                    notifyAll();
                }
            }
        }
    }

    /** Before this JVM ends: what is to be kept is kept, and what is too much goes. */
    void settle(Deadline deadline) {
        submit(this::shrink);
        synchronized (this) {
            while (working && !deadline.passed()) {
                try {
                    wait(Math.max(1, deadline.left_ms()));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return;
                }
            }
        }
    }

    private void shrink() {
        long sum = 0;
        for (Kept kept : all()) {
            sum += kept.size;
            if (sum > BYTES_MOST) {
                try {
                    Files.deleteIfExists(kept.file);
                } catch (NoSuchFileException e) {
                    // Another JVM shrinks it as well.
                } catch (IOException e) {
                    return;
                }
            }
        }
    }
}
