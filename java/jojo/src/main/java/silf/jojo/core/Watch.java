package silf.jojo.core;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Who watches a program: a door of its client's, a socket in a folder of the account's own, and events to all who came in, as
 * lines of JSON (spec/jojo J21, J22). Nodes are asked only while somebody is there. At the client only, and not sent to
 * nodes. Not in it: how events are shown (`kumiko jojo watch`).
 */
final class Watch {
    /** A socket of this name is connected to at once, and the program ends when it is closed: who watches has started it. */
    static final String PROPERTY = "jojo.watch";

    private static final long LOOK_EVERY_ms = 500;
    /** A JVM that is just starting has better things to load; and nobody comes so early. */
    private static final long DOOR_AFTER_ms = 300;
    /** Views of one program; each has a thread here. */
    private static final int WATCHERS_MOST = 16;
    /** Who does not read misses ticks, and when even losses are this many, the rest. */
    private static final int QUEUED_MOST = 1_000;
    private static final int TICKS_QUEUED_MOST = 4;
    /** What the end of a program waits for its last event to be read. */
    private static final long LAST_MOST_ms = 1_000;
    /** A path of a socket (unix(7)). */
    private static final int PATH_MOST_bytes = 107;

    private static final AtomicInteger COUNT = new AtomicInteger();

    /** Where sockets of this account's programs are. */
    static java.nio.file.Path folder() {
        String runtime = System.getenv("XDG_RUNTIME_DIR");
        if (runtime != null && runtime.startsWith("/")) {
            return java.nio.file.Path.of(runtime, "jojo");
        }
        String home = System.getenv("HOME");
        return java.nio.file.Path.of(home != null ? home : System.getProperty("user.home"), ".cache", "jojo-run");
    }

    private final LocalNode node;
    private final long begun_ns = System.nanoTime();
    private final List<Watcher> watchers = new CopyOnWriteArrayList<>();
    /** What children of the client said last, with all below them, by rank; and who has not answered yet. */
    private final Map<Integer, List<?>> said = new ConcurrentHashMap<>();

    private final Map<Integer, Boolean> asked = new ConcurrentHashMap<>();
    private ServerSocketChannel door;
    private java.nio.file.Path file;
    // Guarded by this.
    private boolean looking;
    private boolean over;

    Watch(LocalNode node) {
        this.node = node;
    }

    // -- who comes ---------------------------------------------------------------------------------------------------

    /** Lets people in, from a thread of its own: a program is not held up, and does not fail, because nobody can watch it. */
    void open() {
        String starter = System.getProperty(PROPERTY);
        if (starter != null) {
            try {
                SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
                channel.connect(UnixDomainSocketAddress.of(starter));
                Watcher watcher = new Watcher(channel);
                begin(watcher);
                new LinkThread("watch starter", () -> watcher.awaitEnd(() -> node.report(
                        new Birth.Report(node.birth.spec().name(), "who watched the program is gone", "", 1)))).start();
            } catch (IOException | IllegalArgumentException e) {
                node.note("the property " + PROPERTY + " is " + starter + ", where nobody watches: " + e);
            }
        }
        new LinkThread("watch door", this::serve).start();
    }

    private void serve() {
        try {
            synchronized (this) {
                if (!over) {
                    wait(DOOR_AFTER_ms);
                }
                if (over) {
                    return;
                }
            }
            java.nio.file.Path at = own(folder());
            if (at == null) {
                return;
            }
            long pid = ProcessHandle.current().pid();
            int number = COUNT.getAndIncrement();
            java.nio.file.Path path = at.resolve(number == 0 ? Long.toString(pid) : pid + "." + number);
            // Until it is listened at it has another name: who finds nobody at one takes it for a dead process's.
            java.nio.file.Path fresh = at.resolve(path.getFileName() + ".new");
            if (fresh.toString().getBytes(StandardCharsets.UTF_8).length > PATH_MOST_bytes) {
                return;
            }
            Files.deleteIfExists(fresh); // of a process of this number that was killed
            ServerSocketChannel opened = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
            synchronized (this) {
                if (over) {
                    opened.close();
                    return;
                }
                opened.bind(UnixDomainSocketAddress.of(fresh));
                Files.move(fresh, path, StandardCopyOption.ATOMIC_MOVE);
                door = opened;
                file = path;
            }
            while (true) {
                SocketChannel channel = opened.accept();
                if (watchers.size() >= WATCHERS_MOST) {
                    channel.close();
                } else {
                    begin(new Watcher(channel));
                }
            }
        } catch (IOException | UnsupportedOperationException | SecurityException e) {
            // The program is over, or this host has no such sockets.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** That folder, where it is this account's alone; else null. */
    private static java.nio.file.Path own(java.nio.file.Path folder) throws IOException {
        try {
            Files.createDirectories(folder.getParent());
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        } catch (FileAlreadyExistsException e) {
            // Looked at below.
        }
        PosixFileAttributes is = Files.readAttributes(folder, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        boolean ours = is.isDirectory() && is.owner().equals(Files.getOwner(java.nio.file.Path.of("/proc/self")))
                && PosixFilePermissions.toString(is.permissions()).equals("rwx------");
        return ours ? folder : null;
    }

    private void begin(Watcher watcher) {
        watcher.lines.add("{\"jojo\":1,\"code\":" + Text.json(node.birth.spec().code()) + ",\"places\":" + places(node.birth.spec())
                + ",\"pid\":" + ProcessHandle.current().pid() + ",\"t\":" + seconds() + "}");
        boolean first;
        synchronized (this) {
            if (over) {
                watcher.close();
                return;
            }
            watchers.add(watcher);
            first = !looking;
            looking = true;
        }
        new LinkThread("watcher", watcher::write).start();
        if (first) {
            new LinkThread("watch", this::look).start();
        }
    }

    /** Nodes that are to be there: spares are not, until one is needed. */
    private static int places(silf.jojo.config.NodeSpec spec) {
        int sum = 1;
        for (silf.jojo.config.NodeSpec child : spec.children()) {
            sum += child.spare() ? 0 : places(child);
        }
        return sum;
    }

    /** One view. */
    private final class Watcher {
        final SocketChannel channel;
        final LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>(QUEUED_MOST);
        private volatile boolean gone;

        Watcher(SocketChannel channel) {
            this.channel = channel;
        }

        private void write() {
            try {
                for (String line; !(line = lines.take()).isEmpty(); ) {
                    ByteBuffer bytes = ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8));
                    while (bytes.hasRemaining()) {
                        channel.write(bytes);
                    }
                }
            } catch (IOException e) {
                // Nobody watches any more.
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } finally {
                close();
            }
        }

        void close() {
            gone = true;
            watchers.remove(this);
            try {
                channel.close();
            } catch (IOException e) {
                // Closed it is.
            }
            synchronized (Watch.this) {
                Watch.this.notifyAll();
            }
        }

        void awaitEnd(Runnable then) {
            try {
                Channels.newInputStream(channel).read();
            } catch (IOException e) {
                // As its end.
            }
            if (!gone) {
                close();
                then.run();
            }
        }
    }

    // -- what is told ------------------------------------------------------------------------------------------------

    private void look() {
        for (; ; ) {
            for (NodeHandle child : node.looks().below()) {
                int rank = child.rank();
                if (asked.putIfAbsent(rank, true) == null) {
                    node.looks().ask(child, all -> {
                        if (all != null) {
                            said.put(rank, all);
                        }
                        asked.remove(rank);
                    });
                }
            }
            String now = now();
            for (Watcher watcher : watchers) {
                if (watcher.lines.size() < TICKS_QUEUED_MOST) {
                    watcher.lines.offer(now);
                }
            }
            synchronized (this) {
                try {
                    wait(LOOK_EVERY_ms);
                } catch (InterruptedException e) {
                    over = true;
                }
                if (over || watchers.isEmpty()) {
                    looking = false;
                    return;
                }
            }
        }
    }

    /** A node as its parent knows it, and as it told of itself. */
    private static final class Place {
        String name = "";
        String state = "up";
        String rest = "";
        Sent down = Sent.NOTHING;
    }

    private String now() {
        Map<List<Integer>, Place> places = new TreeMap<>(Watch::inOrder);
        take(places, node.looks().own(), Path.ROOT);
        for (NodeHandle child : node.looks().below()) {
            List<?> all = said.get(child.rank());
            if (all != null) {
                for (Object one : all) {
                    take(places, one, child.path);
                }
            }
        }
        StringBuilder out = new StringBuilder(256 + 192 * places.size());
        out.append("{\"t\":").append(seconds()).append(",\"nodes\":[");
        String comma = "";
        for (var each : places.entrySet()) {
            Place place = each.getValue();
            out.append(comma).append("{\"place\":").append(Text.json(text(each.getKey()))).append(",\"name\":").append(Text.json(place.name))
                    .append(",\"state\":").append(Text.json(place.state)).append(",\"down\":").append(pair(place.down)).append(place.rest).append('}');
            comma = ",";
        }
        return out.append("]}").toString();
    }

    /** One node's own words; what is not at or below who said it, or is no such thing, is passed over (J15). */
    private static void take(Map<List<Integer>, Place> places, Object told, Path by) {
        try {
            TreeValue.Fields in = new TreeValue.Fields(told);
            Path path = Path.parse(in.text());
            if (!by.holds(path)) {
                return;
            }
            Place place = places.computeIfAbsent(ranks(path), k -> new Place());
            place.name = in.text();
            int tasks = in.small();
            long faults = in.number();
            Sent up = new Sent(in.number(), in.number());
            Sent aside = new Sent(in.number(), in.number());
            place.rest = ",\"up\":" + pair(up) + ",\"aside\":" + pair(aside) + ",\"handlers\":" + tasks + ",\"faults\":" + faults
                    + ",\"figures\":" + figures(in.value());
            int rank = 0;
            for (TreeValue.Fields all = in.list(); all.more(); rank++) {
                TreeValue.Fields child = all.list();
                Place below = places.computeIfAbsent(ranks(path.child(rank)), k -> new Place());
                below.name = child.text();
                below.state = child.text();
                below.down = new Sent(child.number(), child.number());
            }
        } catch (Violation | IllegalArgumentException e) {
            // A node's own memory may hold anything; the others are shown all the same.
        }
    }

    private static String figures(Object told) {
        StringBuilder out = new StringBuilder("{");
        if (told instanceof Map<?, ?> map) {
            map.forEach((name, value) -> {
                if (value instanceof Long || value instanceof Double number && Double.isFinite(number)) {
                    out.append(out.length() > 1 ? "," : "").append(Text.json(String.valueOf(name))).append(':').append(value);
                }
            });
        }
        return out.append('}').toString();
    }

    private static List<Integer> ranks(Path path) {
        List<Integer> ranks = new ArrayList<>();
        for (int level = 0; level < path.depth(); level++) {
            ranks.add(path.at(level));
        }
        return ranks;
    }

    private static int inOrder(List<Integer> a, List<Integer> b) {
        for (int i = 0; i < Math.min(a.size(), b.size()); i++) {
            int order = a.get(i).compareTo(b.get(i));
            if (order != 0) {
                return order;
            }
        }
        return Integer.compare(a.size(), b.size());
    }

    private static String text(List<Integer> ranks) {
        return String.join(".", ranks.stream().map(String::valueOf).toList());
    }

    private static String pair(Sent sent) {
        return "[" + sent.messages() + "," + sent.bytes() + "]";
    }

    /** A subtree is lost. */
    void lost(Birth.Lost lost) {
        tell("{\"t\":" + seconds() + ",\"lost\":" + Text.json(lost.path()) + ",\"name\":" + Text.json(lost.name()) + ",\"why\":"
                + Text.json(lost.why()) + "}");
    }

    private void tell(String line) {
        watchers.forEach(watcher -> watcher.lines.offer(line));
    }

    /** One more look at all nodes before they end: the figures that remain. */
    void ending() {
        if (watchers.isEmpty()) {
            return;
        }
        List<NodeHandle> below = node.looks().below();
        CountDownLatch missing = new CountDownLatch(below.size());
        for (NodeHandle child : below) {
            node.looks().ask(child, all -> {
                if (all != null) {
                    said.put(child.rank(), all);
                }
                missing.countDown();
            });
        }
        try {
            missing.await(LAST_MOST_ms, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        tell(now());
    }

    /** The last event; who watches has a moment to read it. */
    void end(int status, String failed) {
        tell("{\"t\":" + seconds() + ",\"end\":" + Text.json(failed == null ? "done" : "failed: " + failed) + ",\"status\":" + status + "}");
        watchers.forEach(watcher -> watcher.lines.offer(""));
        Deadline deadline = Deadline.in_ms(LAST_MOST_ms);
        synchronized (this) {
            over = true;
            notifyAll();
            try {
                while (!watchers.isEmpty() && !deadline.passed()) {
                    TimeUnit.MILLISECONDS.timedWait(this, Math.max(1, deadline.left_ms()));
                }
                if (door != null) {
                    door.close();
                    Files.deleteIfExists(file);
                }
            } catch (IOException e) {
                // A watcher finds a socket that nobody answers at, and removes it.
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        watchers.forEach(Watcher::close);
    }

    private String seconds() {
        return String.format(Locale.ROOT, "%.3f", (System.nanoTime() - begun_ns) / 1e9);
    }
}
