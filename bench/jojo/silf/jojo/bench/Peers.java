package silf.jojo.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.rmi.Remote;
import java.rmi.RemoteException;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.UnicastRemoteObject;
import java.util.List;
import silf.jojo.testkit.SshDaemon;

/** What others take for the same: RMI over TCP of this machine, and mitogen over the same sshd. */
final class Peers {
    /** As many as a small call has in a frame. */
    static final int BARE_BYTES = 48;
    private static final int RMI_THREADS = 16;
    private static final int RMI_CALLS = 1_000;

    private Peers() {}

    /** Bytes to the last of so many ssh, each started by the one before, and back. */
    static void bare(String series, SshDaemon sshd, int hops, int rounds, int warm) throws Exception {
        String far = "cat";
        for (int hop = 1; hop < hops; hop++) {
            far = String.join(" ", sshd.command()) + " -T far " + far; // words without blanks: each shell passes them on
        }
        Process process = new ProcessBuilder(Trees.with(sshd.command(), "-T", "far", far)).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            byte[] bytes = new byte[BARE_BYTES];
            for (int i = -Main.rounds(warm); i < Main.rounds(rounds); i++) {
                long begun = System.nanoTime();
                process.getOutputStream().write(bytes);
                process.getOutputStream().flush();
                if (process.getInputStream().readNBytes(bytes, 0, bytes.length) < bytes.length) {
                    throw new IllegalStateException("the bare peer has gone");
                }
                if (i >= 0) {
                    Main.seconds(series, System.nanoTime() - begun);
                }
            }
        } finally {
            process.destroy();
        }
    }

    /** RMI's view of an echo. */
    public interface Echo extends Remote {
        Object call(Object value) throws RemoteException;
    }

    /** The far side, in a JVM of its own: prints its port, and ends with its input. */
    public static final class RmiServer {
        public static void main(String[] args) throws Exception {
            Echo echo = value -> value;
            Registry registry = LocateRegistry.createRegistry(0);
            registry.bind("echo", UnicastRemoteObject.exportObject(echo, 0));
            String ref = registry.toString(); // the only place that tells the port that was free
            System.out.println(ref.replaceAll("(?s).*endpoint:\\[[^\\]]*:(\\d+)\\].*", "$1"));
            System.in.read();
            System.exit(0);
        }
    }

    private interface RmiWork {
        void at(Echo echo) throws Exception;
    }

    static void rmi(int calls, int warm) throws Exception {
        rmi(echo -> {
            for (int i = 0; i < warm; i++) {
                echo.call(42L);
            }
            for (int i = 0; i < Main.rounds(calls); i++) {
                long begun = System.nanoTime();
                echo.call(42L);
                Main.seconds("RMI call over TCP", System.nanoTime() - begun);
            }
        });
    }

    /** It has no calls that are not waited for: as many threads as do it good. */
    static void rmiRates() throws Exception {
        rmi(echo -> {
            for (int i = -3; i < Main.rounds(30); i++) {
                Thread[] threads = new Thread[RMI_THREADS];
                long begun = System.nanoTime();
                for (int t = 0; t < threads.length; t++) {
                    threads[t] = new Thread(() -> {
                        try {
                            for (int call = 0; call < RMI_CALLS; call++) {
                                echo.call(42L);
                            }
                        } catch (RemoteException e) {
                            Main.missing("RMI calls", e.toString());
                        }
                    });
                    threads[t].start();
                }
                for (Thread thread : threads) {
                    thread.join();
                }
                if (i >= 0) {
                    Main.sample("RMI calls over TCP, " + RMI_THREADS + " threads", "per_second",
                            RMI_THREADS * RMI_CALLS * 1e9 / (System.nanoTime() - begun));
                }
            }
        });
    }

    private static void rmi(RmiWork work) throws Exception {
        Process server = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Djava.rmi.server.hostname=127.0.0.1",
                "-cp", System.getProperty("java.class.path"), RmiServer.class.getName()).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            int port = Integer.parseInt(new BufferedReader(new InputStreamReader(server.getInputStream())).readLine());
            Echo echo = (Echo) LocateRegistry.getRegistry("127.0.0.1", port).lookup("echo");
            work.at(echo);
        } finally {
            server.destroy();
        }
    }

    static void mitogenReady(SshDaemon sshd, int rounds) throws Exception {
        mitogen("ready", sshd, rounds);
    }

    static void mitogenRates(SshDaemon sshd) throws Exception {
        mitogen("rates", sshd, Main.rounds(30));
    }

    static void mitogenCalls(SshDaemon sshd) throws Exception {
        mitogen("calls", sshd, Main.rounds(5000));
    }

    /** The script prints sample lines itself. */
    private static void mitogen(String what, SshDaemon sshd, int rounds) throws Exception {
        Path script = Path.of("bench/jojo/mitogen_peer.py");
        Path ssh = Files.createTempFile("jojo-bench", "ssh");
        Files.writeString(ssh, "#!/bin/sh\nexec " + String.join(" ", sshd.command()) + " \"$@\"\n");
        ssh.toFile().setExecutable(true);
        Process process = new ProcessBuilder(List.of("/usr/bin/python3", script.toString(), what, ssh.toString(), Integer.toString(rounds)))
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        process.getOutputStream().close();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            lines.lines().forEach(line -> {
                System.out.println(line);
                System.out.flush();
            });
        }
        if (process.waitFor() != 0) {
            Main.missing("mitogen", "bench/jojo/mitogen_peer.py ended with status " + process.exitValue() + " (Debian package python3-mitogen)");
        }
        Files.delete(ssh);
    }
}
