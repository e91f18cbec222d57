package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.launch.Launcher;
import silf.jojo.launch.ProcessLauncher;
import silf.jojo.program.Body;
import silf.jojo.program.Reads;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Scratch;

/** What a host keeps from run to run, for programs that ask for it. */
public final class CacheTest {
    private static final int MOST_ms = 60_000;

    private static Path place() throws IOException {
        return Scratch.file("jojo");
    }

    private static byte[] got(BlobCache cache, long hash, int size) throws Exception {
        CompletableFuture<byte[]> got = new CompletableFuture<>();
        cache.get(hash, size, got::complete);
        return got.get(MOST_ms, TimeUnit.MILLISECONDS);
    }

    public void what_is_put_is_there_in_the_next_run_and_damage_is_seen() throws Exception {
        Path place = place();
        Blob blob = Blob.of("a/B.class", new byte[] {1, 2, 3});
        BlobCache first = BlobCache.in(place);
        first.put(blob);
        first.put(new Blob("a/C.class", new byte[] {4}, 77)); // another hash than its own
        first.settle(Deadline.in_ms(MOST_ms));
        BlobCache next = BlobCache.in(place);
        Check.equal(List.of(blob.hash()), Arrays.stream(next.held()).boxed().toList(), "held");
        Check.that(Arrays.equals(blob.bytes(), got(next, blob.hash(), 3)), "what was put");
        Check.equal(null, got(next, blob.hash(), 4), "another size");
        Check.equal(null, got(next, 77, 1), "what was never put");
        try (var files = Files.list(place)) {
            Files.write(files.findFirst().orElseThrow(), new byte[] {1, 2, 4});
        }
        Check.equal(null, got(next, blob.hash(), 3), "damaged");
        Check.equal(0, next.held().length, "held of damaged ones");
    }

    public void a_folder_that_others_may_write_is_not_used() throws Exception {
        Path place = place();
        Files.createDirectory(place);
        Files.setPosixFilePermissions(place, PosixFilePermissions.fromString("rwxrwxrwx"));
        Check.equal(null, BlobCache.in(place), "a cache");
        Path link = place();
        Files.createSymbolicLink(link, Scratch.folder());
        Check.equal(null, BlobCache.in(link), "a cache behind a link");
    }

    /** Counts what goes to nodes once they are up. */
    private static Launcher counting(AtomicLong bytes) {
        Launcher real = new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line));
        return (node, opening, deadline) -> {
            Wire wire = real.launch(node, opening, deadline);
            OutputStream out = new FilterOutputStream(wire.out()) {
                @Override
                public void write(byte[] from, int at, int count) throws IOException {
                    bytes.addAndGet(count);
                    wire.out().write(from, at, count);
                }
            };
            return new Wire() {
                @Override
                public InputStream in() {
                    return wire.in();
                }

                @Override
                public OutputStream out() {
                    return out;
                }

                @Override
                public String name() {
                    return wire.name();
                }

                @Override
                public void close() throws IOException {
                    wire.close();
                }
            };
        };
    }

    private static final class Folder extends java.net.URLClassLoader {
        Folder(Path folder) throws IOException {
            super(new java.net.URL[] {folder.toUri().toURL()}, CacheTest.class.getClassLoader());
        }
    }

    /** Runs a program that reads two resources; how many bytes went to its node. */
    private static long run(Path home, Path folder, byte[]... resources) throws Exception {
        AtomicLong bytes = new AtomicLong();
        Properties properties = new Properties();
        properties.setProperty(BlobCache.PROPERTY, "true");
        properties.setProperty("body", Body.name(client -> {
            for (int i = 0; i < resources.length; i++) {
                Check.equal((long) Arrays.hashCode(resources[i]), client.child(0).call(new Message(2, i + ".bin")), "a resource");
            }
        }));
        NodeSpec.Invocation how = new NodeSpec.Invocation(
                "ssh", Path.of(System.getProperty("java.home"), "bin", "java").toString(), List.of(),
                List.of("sh", "-c", "XDG_CACHE_HOME=" + home + "; export XDG_CACHE_HOME; {script}"), MOST_ms, Map.of());
        for (int i = 0; i < resources.length; i++) {
            Files.write(folder.resolve(i + ".bin"), resources[i]);
        }
        try (Folder loader = new Folder(folder)) {
            NodeSpec node = NodeSpec.of("pad00", "pad00", Reads.class.getName()).withInvocation(how);
            new Program(
                            NodeSpec.of("client", "client", Body.class.getName(), node), properties, counting(bytes), loader,
                            System.out, new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8))
                    .run();
        }
        return bytes.get();
    }

    /** A host that is busy at the end of a run keeps the rest in the next. */
    private static void allHeld(Path home, Path folder, byte[]... resources) throws Exception {
        Deadline deadline = Deadline.in_ms(MOST_ms);
        long warm;
        do {
            warm = run(home, folder, resources);
        } while (warm >= 20_000 && !deadline.passed());
        Check.that(warm < 20_000, "a run of what is held sent " + warm);
    }

    public void a_second_run_ships_only_what_changed() throws Exception {
        Path home = Scratch.folder();
        Path folder = Scratch.folder();
        Random random = new Random(4);
        byte[] same = new byte[300_000];
        byte[] other = new byte[100_000];
        random.nextBytes(same);
        random.nextBytes(other);
        long cold = run(home, folder, same, other);
        Check.that(cold > 400_000, "the first run sent " + cold);
        allHeld(home, folder, same, other);
        random.nextBytes(other);
        long changed = run(home, folder, same, other);
        Check.that(changed > 100_000 && changed < 120_000, "the third run sent " + changed);
        allHeld(home, folder, same, other);
        // What was said to be held and is damaged by now is asked for.
        try (var files = Files.list(home.resolve("jojo"))) {
            for (Path file : files.filter(f -> f.toString().endsWith("-300000")).toList()) {
                byte[] bytes = Files.readAllBytes(file);
                bytes[17] ^= 1;
                Files.write(file, bytes);
            }
        }
        long mended = run(home, folder, same, other);
        Check.that(mended > 300_000 && mended < 320_000, "the fourth run sent " + mended);
    }
}
