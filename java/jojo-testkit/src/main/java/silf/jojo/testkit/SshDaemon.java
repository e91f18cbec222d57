package silf.jojo.testkit;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import silf.jojo.config.NodeSpec.Invocation;

/**
 * A real sshd on a free port of loopback, with keys of its own and no rights beyond this account's. Ends with close, or
 * with this JVM.
 */
public final class SshDaemon implements Closeable {
    private static final long START_MOST_MS = 10_000;
    private static final List<String> PLACES = List.of("/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd");

    private final Path folder;
    private final Process process;
    private final Thread hook;
    public final int port;

    private SshDaemon(Path folder, Process process, int port) {
        this.folder = folder;
        this.process = process;
        this.port = port;
        this.hook = new Thread(this::end);
        Runtime.getRuntime().addShutdownHook(hook);
    }

    /** What is missing here for an sshd; null if nothing is. */
    public static String missing() {
        if (program() == null) {
            return "sshd (Debian package openssh-server)";
        }
        return Files.isExecutable(Path.of("/usr/bin/ssh")) ? null : "ssh (Debian package openssh-client)";
    }

    private static String program() {
        return PLACES.stream().filter(p -> Files.isExecutable(Path.of(p))).findFirst().orElse(null);
    }

    public static SshDaemon start() throws IOException, InterruptedException {
        Path folder = Files.createTempDirectory("jojo-sshd", PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        for (String key : List.of("host", "user")) {
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder.resolve(key).toString());
        }
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Path pid = folder.resolve("pid");
        Files.writeString(folder.resolve("sshd_config"), String.join("\n",
                "Port " + port,
                "ListenAddress 127.0.0.1",
                "HostKey " + folder.resolve("host"),
                "AuthorizedKeysFile " + folder.resolve("user.pub"),
                "PidFile " + pid,
                "PermitRootLogin yes",
                "PasswordAuthentication no",
                "StrictModes no",
                "UsePAM no",
                "MaxStartups 100",
                // A home of its own: what this account's shells do when they begin is not what is tested.
                "SetEnv HOME=" + folder + " PATH=" + Path.of(System.getProperty("java.home"), "bin") + ":"
                        + System.getenv("PATH")
                        // bash under sshd reads ~/.bashrc only at level 1: what this account has there is not what is tested.
                        + " SHLVL=1",
                ""));
        String key = Files.readString(folder.resolve("host.pub"));
        Files.writeString(folder.resolve("known_hosts"), "jojo-test " + key);
        Files.writeString(folder.resolve("ssh_config"), String.join("\n",
                "Host *",
                "HostName 127.0.0.1",
                "Port " + port,
                "HostKeyAlias jojo-test",
                "IdentityFile " + folder.resolve("user"),
                "IdentitiesOnly yes",
                "UserKnownHostsFile " + folder.resolve("known_hosts"),
                "GlobalKnownHostsFile /dev/null",
                "StrictHostKeyChecking yes",
                "LogLevel ERROR",
                ""));
        if (System.getProperty("user.name").equals("root")) {
            Files.createDirectories(Path.of("/run/sshd")); // where sshd as root keeps its unprivileged half
        }
        Path log = folder.resolve("log");
        Process process = new ProcessBuilder(program(), "-D", "-e", "-f", folder.resolve("sshd_config").toString())
                .redirectErrorStream(true).redirectOutput(log.toFile()).start();
        SshDaemon daemon = new SshDaemon(folder, process, port);
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(START_MOST_MS);
        while (!Files.exists(pid)) { // written once it listens
            if (!process.isAlive() || System.nanoTime() > until) {
                String said = Files.readString(log);
                daemon.close();
                throw new IOException("sshd did not start: " + said);
            }
            TimeUnit.MILLISECONDS.sleep(5);
        }
        return daemon;
    }

    /** An ssh command that is admitted, whatever the host is called. */
    public List<String> command() {
        return List.of("ssh", "-F", folder.resolve("ssh_config").toString());
    }

    /** As {@link #command}, by way of another port, such as a {@link DelayProxy}'s. */
    public List<String> command(int port) {
        return List.of("ssh", "-p", Integer.toString(port), "-F", folder.resolve("ssh_config").toString());
    }

    /** For a node that is started through this daemon. */
    public Invocation invocation() {
        return invocation(command());
    }

    public static Invocation invocation(List<String> ssh) {
        return new Invocation("ssh", Invocation.USUAL.javaPath(), List.of(), ssh, Invocation.USUAL.launchMost_ms(), Map.of());
    }

    public InetSocketAddress address() {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    }

    /** Takes no more connections; those that are there stay. */
    public void stop() {
        process.destroyForcibly();
    }

    @Override
    public void close() {
        end();
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException e) {
            // it is being run
        }
    }

    private void end() {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
        try (var files = Files.walk(folder)) {
            files.sorted(java.util.Comparator.reverseOrder()).forEach(f -> f.toFile().delete());
        } catch (IOException | java.io.UncheckedIOException e) {
            // it has gone already
        }
    }

    private static void run(String... command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command).inheritIO().start();
        if (process.waitFor() != 0) {
            throw new IOException(command[0] + " ended with status " + process.exitValue());
        }
    }
}
