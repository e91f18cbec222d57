package silf.jojo.core;

import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import silf.jojo.JojoException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FileRoot;

/**
 * Files of the client for nodes below it (lane 1): in declared directories only, opened by descriptor from the directory
 * down, so that neither {@code ..} nor a link leads out. One node's requests are served in their order. The tag of a message
 * says what to do; its contents are a list.
 */
final class FileService {
    /** CALL [name, mode]: the handle. Modes: "r", "w" (made or emptied), "a" (made or appended to). */
    static final int OPEN = 1;
    /** CALL [handle, count]: bytes, none at the end. */
    static final int READ = 2;
    /** SEND [handle, bytes]. What fails is told by the next FLUSH or CLOSE. */
    static final int WRITE = 3;
    /** CALL [handle]. */
    static final int FLUSH = 4;
    /** CALL [handle]. */
    static final int CLOSE = 5;

    /** Files that one node may have open: a program with more has forgotten to close them. */
    private static final int OPEN_MOST = 1024;
    private static final int READ_MOST = 1 << 20;
    private static final int NAMES_MOST = 64;

    private static final class Open {
        final SeekableByteChannel channel;
        IOException failed;

        Open(SeekableByteChannel channel) {
            this.channel = channel;
        }
    }

    /** What one node has open, and what it has asked for and not been answered. */
    private final class Client {
        final silf.jojo.core.Path path;
        final int epoch;
        final Map<Long, Open> files = new HashMap<>();
        final ArrayDeque<Arrived> queue = new ArrayDeque<>();
        boolean working;
        long next;

        Client(silf.jojo.core.Path path, int epoch) {
            this.path = path;
            this.epoch = epoch;
        }

        void work() {
            for (; ; ) {
                Arrived message;
                synchronized (this) {
                    message = queue.poll();
                    if (message == null) {
                        working = false;
                        return;
                    }
                }
                serve(this, message);
            }
        }
    }

    private final LocalNode here;
    private final Map<silf.jojo.core.Path, Client> clients = new HashMap<>();

    FileService(LocalNode here) {
        this.here = here;
    }

    /** Called by a link reader. */
    void take(Arrived message) {
        Client client;
        Client gone = null;
        synchronized (clients) {
            client = clients.get(message.lane.from);
            if (client == null || client.epoch != message.lane.epochFrom) {
                gone = client;
                client = new Client(message.lane.from, message.lane.epochFrom);
                clients.put(message.lane.from, client);
            }
        }
        if (gone != null) {
            close(gone);
        }
        Client of = client;
        synchronized (of) {
            of.queue.add(message);
            if (of.working) {
                return;
            }
            of.working = true;
        }
        here.handlers().submit(of::work);
    }

    /** Of a node that was started again, or of the program. */
    private static void close(Client client) {
        synchronized (client) {
            for (Open open : client.files.values()) {
                try {
                    open.channel.close();
                } catch (IOException e) {
                    // Its writer is gone, and was told nothing of its last bytes.
                }
            }
            client.files.clear();
        }
    }

    /** A subtree is no more: what it has open is closed. */
    void lose(silf.jojo.core.Path gone) {
        List<Client> lost = new ArrayList<>();
        synchronized (clients) {
            clients.values().removeIf(client -> gone.holds(client.path) && lost.add(client));
        }
        // A channel may be writing to a disk: not in a link's reader.
        if (!lost.isEmpty()) {
            here.handlers().submit(() -> lost.forEach(FileService::close));
        }
    }

    void closeAll() {
        List<Client> all;
        synchronized (clients) {
            all = new ArrayList<>(clients.values());
            clients.clear();
        }
        all.forEach(FileService::close);
    }

    private void serve(Client client, Arrived message) {
        Object answer;
        int type = Frame.REPLY;
        try {
            here.post().handedOn(message);
            Object body = Decoder.decode(message.body(), here.classes(), here.neighbours().nameOf(client.path));
            answer = act(client, message.tag, body instanceof List<?> list ? list : List.of());
        } catch (IOException | JojoException | RuntimeException e) {
            answer = Failures.write(
                    e instanceof JojoException ? e : new JojoException(e.getMessage()), here.birth.spec().name());
            type = Frame.FAIL;
        }
        if (message.type == Frame.CALL) {
            try {
                here.post().answer(message, type, answer);
            } catch (JojoException e) {
                // The node is gone.
            }
        }
    }

    private Serializable act(Client client, int tag, List<?> what) throws IOException, JojoException {
        synchronized (client) {
            if (tag == OPEN && what.size() == 2 && what.get(0) instanceof String name && what.get(1) instanceof String mode) {
                if (client.files.size() >= OPEN_MOST) {
                    throw new JojoException("more than " + OPEN_MOST + " files open");
                }
                long handle = client.next++;
                client.files.put(handle, new Open(open(rootsOf(client.path), name, mode)));
                return handle;
            }
            Open file = !what.isEmpty() && what.get(0) instanceof Long handle ? client.files.get(handle) : null;
            if (file == null) {
                throw new JojoException("no such open file");
            }
            switch (tag) {
                case READ -> {
                    int count = what.size() == 2 && what.get(1) instanceof Integer n ? Math.min(n, READ_MOST) : 0;
                    ByteBuffer bytes = ByteBuffer.allocate(Math.max(count, 1));
                    int got = file.channel.read(bytes);
                    return java.util.Arrays.copyOf(bytes.array(), Math.max(got, 0));
                }
                case WRITE -> write(file, what.size() == 2 && what.get(1) instanceof byte[] bytes ? bytes : new byte[0]);
                case FLUSH -> check(file);
                case CLOSE -> {
                    client.files.remove((Long) what.get(0));
                    file.channel.close();
                    check(file);
                }
                default -> throw new JojoException("a request of kind " + tag + " for files");
            }
            return null;
        }
    }

    private static void write(Open file, byte[] bytes) {
        try {
            for (ByteBuffer rest = ByteBuffer.wrap(bytes); rest.hasRemaining() && file.failed == null; ) {
                file.channel.write(rest);
            }
        } catch (IOException | RuntimeException e) {
            file.failed = e instanceof IOException io ? io : new IOException("it was not opened for writing");
        }
    }

    private static void check(Open file) throws IOException {
        if (file.failed != null) {
            IOException failed = file.failed;
            file.failed = null;
            throw failed;
        }
    }

    /** Those of the node and of all above it; the nearest first. */
    private List<FileRoot> rootsOf(silf.jojo.core.Path path) {
        List<FileRoot> roots = new ArrayList<>(here.birth.spec().files());
        NodeSpec spec = here.birth.spec();
        for (int level = 0; level < path.depth() && spec != null; level++) {
            spec = here.neighbours().place(spec, level, path.at(level));
            if (spec != null) {
                roots.addAll(0, spec.files());
            }
        }
        return roots;
    }

    /** Opens {@code root/name/name}, step by step from the root's descriptor. */
    static SeekableByteChannel open(List<FileRoot> roots, String name, String mode) throws IOException, JojoException {
        String[] parts = name.split("/", -1);
        FileRoot root = roots.stream().filter(r -> r.name().equals(parts[0])).findFirst().orElse(null);
        if (root == null || parts.length < 2) {
            throw new JojoException(name + ": it must begin with the name of a directory that the configuration declares"
                    + (roots.isEmpty() ? " (it declares none)" : ": " + String.join(", ", roots.stream().map(FileRoot::name).toList())));
        }
        boolean write = !mode.equals("r");
        if (write && !root.write()) {
            throw new JojoException(name + ": " + root.name() + " is declared for reading only");
        }
        if (parts.length > NAMES_MOST) {
            throw new JojoException(name + ": deeper than " + NAMES_MOST + " directories");
        }
        for (int i = 1; i < parts.length; i++) {
            if (parts[i].isEmpty() || parts[i].equals(".") || parts[i].equals("..") || parts[i].indexOf('\0') >= 0) {
                throw new JojoException(name + ": " + (parts[i].isEmpty() ? "an empty part" : parts[i]) + " may not stand in a name");
            }
        }
        Set<OpenOption> options = switch (mode) {
            case "r" -> Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
            case "w" -> Set.of(
                    StandardOpenOption.WRITE, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING,
                    LinkOption.NOFOLLOW_LINKS);
            case "a" -> Set.of(
                    StandardOpenOption.WRITE, StandardOpenOption.CREATE, StandardOpenOption.APPEND, LinkOption.NOFOLLOW_LINKS);
            default -> throw new JojoException("a mode \"" + mode + "\"");
        };
        try {
            return below(Path.of(root.path()), parts, options);
        } catch (IOException e) {
            throw new IOException(name + ": " + reason(e), e);
        }
    }

    private static SeekableByteChannel below(Path root, String[] parts, Set<OpenOption> options) throws IOException {
        DirectoryStream<Path> at = Files.newDirectoryStream(root);
        try {
            for (int i = 1; i < parts.length - 1; i++) {
                DirectoryStream<Path> next = secure(at).newDirectoryStream(Path.of(parts[i]), LinkOption.NOFOLLOW_LINKS);
                at.close();
                at = next;
            }
            return secure(at).newByteChannel(Path.of(parts[parts.length - 1]), options);
        } finally {
            at.close();
        }
    }

    private static SecureDirectoryStream<Path> secure(DirectoryStream<Path> directory) throws IOException {
        if (directory instanceof SecureDirectoryStream<Path> secure) {
            return secure;
        }
        throw new IOException("this system cannot open files by descriptor");
    }

    private static String reason(IOException e) {
        if (e instanceof java.nio.file.NoSuchFileException) {
            return "there is no such file or directory";
        }
        if (e instanceof java.nio.file.AccessDeniedException) {
            return "the client may not";
        }
        return e instanceof java.nio.file.FileSystemException fs && fs.getReason() != null ? fs.getReason() : e.toString();
    }
}
