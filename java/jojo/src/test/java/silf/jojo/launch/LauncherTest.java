package silf.jojo.launch;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.core.Deadline;
import silf.jojo.core.Wire;
import silf.jojo.launch.LaunchException.Why;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;
import silf.jojo.testkit.Run;
import silf.jojo.testkit.SshDaemon;

/** Real starts: by the local shell and by a real sshd, and each way in which they fail. */
public final class LauncherTest {
    private static final long MOST_MS = 60_000;

    private final String mark = UUID.randomUUID().toString();
    private final ConcurrentLinkedQueue<String> words = new ConcurrentLinkedQueue<>();
    private final ProcessLauncher launcher = new ProcessLauncher((node, line) -> words.add(node.name() + ": " + line));

    private NodeSpec node(String protocol, String java, String options, List<String> command) {
        List<String> marked = new java.util.ArrayList<>(Words.of(options));
        marked.add("-Djojo.mark=" + mark);
        Invocation how = new Invocation(protocol, java, marked, command, MOST_MS, Map.of());
        return NodeSpec.of("pad00", "pad00.invalid", "A").withInvocation(how);
    }

    private Wire up(NodeSpec node) throws Exception {
        return launcher.launch(node, Opening.frames(), Deadline.in_ms(MOST_MS));
    }

    private LaunchException refused(NodeSpec node, long most_ms) {
        LaunchException refused = Check.thrown(LaunchException.class,
                () -> launcher.launch(node, Opening.frames(), Deadline.in_ms(most_ms)), node.toString());
        Check.that(refused.getMessage().startsWith("pad00"), refused.getMessage());
        return refused;
    }

    private void check(Why why, NodeSpec node) throws Exception {
        LaunchException refused = refused(node, MOST_MS);
        Check.equal(why, refused.why(), refused.getMessage());
        Check.that(refused.getMessage().lines().findFirst().orElse("").endsWith("[" + why.code() + "]"), refused.getMessage());
        Check.that(Processes.goneWithin_ms(mark, MOST_MS) >= 0, "a JVM is left of " + node);
    }

    /** It answers; what it says besides arrives as words; closing ends it. */
    private void works(NodeSpec node) throws Exception {
        try (Wire wire = up(node)) {
            echoes(wire);
            Check.until("its words", () -> words.contains("pad00: this goes to people") && words.contains("pad00: so does this"));
        }
        Check.that(Processes.goneWithin_ms(mark, 5000) >= 0, "the JVM outlives its wire");
    }

    private static void echoes(Wire wire) throws Exception {
        wire.out().write(new byte[] {0, 10, 13, -1, 4});
        wire.out().flush();
        Check.equal(List.of(0, 10, 13, 255, 4), List.of(wire.in().read(), wire.in().read(), wire.in().read(), wire.in().read(), wire.in().read()), "echo");
    }

    public void a_local_node_speaks_and_its_output_is_kept_apart() throws Exception {
        works(node("local", "java", "", List.of()));
    }

    public void a_node_over_ssh_speaks_and_its_output_is_kept_apart() throws Exception {
        try (SshDaemon sshd = daemon()) {
            works(node("ssh", "java", "", sshd.command()));
        }
    }

    public void what_login_scripts_say_is_told_and_does_no_harm() throws Exception {
        works(template("printf 'Welcome!\\njojo- no-java\\0JOJO/'; {script}"));
        Check.that(words.contains("pad00: Welcome!"), words.toString());
    }

    public void every_login_shell_here_takes_the_command() throws Exception {
        for (String shell : List.of("/bin/dash", "/bin/bash", "/bin/tcsh", "/usr/bin/fish", "/usr/bin/zsh", "/bin/ksh")) {
            if (Files.isExecutable(Path.of(shell))) {
                works(node("ssh", "java", "'-Dblank=a b'", List.of(shell, "-c", "{command}")));
            }
        }
    }

    public void nothing_is_left_in_the_place_of_the_first_stage_even_while_it_runs() throws Exception {
        Path place = Files.createTempDirectory("jojo-test");
        try (Wire wire = up(template("TMPDIR=" + place + "; {script}"))) {
            echoes(wire);
            try (var files = Files.list(place)) {
                Check.equal(List.of(), files.toList(), "files of a running node");
            }
        } finally {
            Files.delete(place);
        }
    }

    /** The signal comes when the file has been made and nobody knows its name but mktemp. */
    public void a_start_that_is_ended_by_a_signal_leaves_no_file() throws Exception {
        Path place = Files.createTempDirectory("jojo-test");
        Path tools = Files.createTempDirectory("jojo-tools");
        Path fake = Files.writeString(tools.resolve("mktemp"), "#!/bin/sh\nf=$(PATH=${PATH#*:} mktemp \"$@\"); echo $f; kill -TERM $PPID\n");
        Files.setPosixFilePermissions(fake, java.nio.file.attribute.PosixFilePermissions.fromString("rwx------"));
        try {
            check(Why.ENDED, template("TMPDIR=" + place + " PATH=" + tools + ":$PATH; export PATH; {script}"));
            try (var files = Files.list(place)) {
                Check.equal(List.of(), files.toList(), "files of a start that was ended");
            }
        } finally {
            Files.delete(fake);
            Files.delete(tools);
            Files.delete(place);
        }
    }

    public void each_failure_of_a_node_is_named() throws Exception {
        check(Why.NO_JAVA, node("local", "no-such-java", "", List.of()));
        check(Why.NO_JAVA, node("local", "/etc/passwd", "", List.of()));
        check(Why.JVM_REFUSED, node("local", "java", "-Xbogus", List.of()));
        check(Why.DAMAGED, template("head -c 100 >/dev/null; {script}"));
        check(Why.NO_COMMAND, node("ssh", "java", "", List.of("/no/such/ssh")));
        check(Why.NO_COMMAND, node("ssh", "java", "", List.of("sh", "-c", "no-such-command #{script}")));
        check(Why.ENDED, template("exit 7 #{script}"));
        check(Why.TURNED_AWAY, template("echo kex_exchange_identification: read: Connection reset by peer >&2; exit 255 #{script}"));
    }

    public void an_old_java_is_named_with_its_version() throws Exception {
        String own = ProcessHandle.current().info().command().orElseThrow();
        for (String version : List.of("1.8", "11", "16")) {
            Path java = Files.createTempFile("jojo-test", "java");
            Files.writeString(java, "#!/bin/sh\nwhile [ $1 != " + Script.MAIN + " ]; do shift; done; shift\n"
                    + "exec " + own + " -cp " + System.getProperty("java.class.path") + " " + OldJava.class.getName() + " " + version + " \"$@\"\n");
            Check.that(java.toFile().setExecutable(true), "chmod");
            NodeSpec node = node("local", java.toString(), "", List.of());
            check(Why.OLD_JAVA, node);
            Check.that(refused(node, MOST_MS).getMessage().contains(version + ".0.1"), "the version is told");
            Files.delete(java);
        }
    }

    public void a_full_disk_a_read_only_one_and_one_without_exec_are_told_apart() throws Exception {
        if (new ProcessBuilder("unshare", "-rm", "true").start().waitFor() != 0) {
            throw new Run.Missing("mount namespaces");
        }
        String mount = "mount -t tmpfs -o ";
        check(Why.NO_SPACE, within(mount + "size=4k none /tmp; unset TMPDIR"));
        String all = "";
        for (String place : List.of("/tmp", "/var/tmp", "/dev/shm")) {
            all += mount + "ro none " + place + "; ";
        }
        check(Why.NO_PLACE, within(all + "HOME=/tmp; unset TMPDIR"));
        works(within(mount + "noexec none /tmp; unset TMPDIR"));
        works(within(mount + "ro none /tmp; unset TMPDIR"));
    }

    public void each_failure_of_ssh_is_named() throws Exception {
        try (SshDaemon sshd = daemon(); ServerSocket deaf = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            check(Why.UNKNOWN_HOST, node("ssh", "java", "", List.of("ssh", "-F", "none")));
            check(Why.NO_ROUTE, node("ssh", "java", "", sshd.command(1)));
            check(Why.HOST_KEY, with(sshd, "UserKnownHostsFile=/dev/null"));
            check(Why.NOT_ADMITTED, with(sshd, "PubkeyAuthentication=no"));
            check(Why.NO_JAVA, node("ssh", "no-such-java", "", sshd.command()));
            Thread closer = new Thread(() -> {
                while (!deaf.isClosed()) {
                    try {
                        deaf.accept().close();
                    } catch (java.io.IOException e) {
                        return;
                    }
                }
            });
            closer.start();
            check(Why.TURNED_AWAY, node("ssh", "java", "", sshd.command(deaf.getLocalPort())));
        }
    }

    public void a_node_that_says_nothing_is_given_up_in_time() throws Exception {
        LaunchException refused = refused(template("exec sleep 600 #{script}"), 300);
        Check.equal(Why.SILENT, refused.why(), refused.getMessage());
    }

    public void an_interrupted_start_leaves_nothing_running() throws Exception {
        Path pid = Files.createTempFile("jojo-test", "pid");
        NodeSpec node = template("echo $$ >" + pid + "; exec sleep 600 #{script}");
        Thread starts = new Thread(() -> Check.thrown(LaunchException.class, () -> up(node), "the start"));
        starts.start();
        Check.until("it runs", () -> Files.size(pid) > 0);
        long number = Long.parseLong(Files.readString(pid).strip());
        starts.interrupt();
        Check.until("it has ended", () -> ProcessHandle.of(number).isEmpty());
        Files.delete(pid);
    }

    public void what_the_first_stage_cannot_take_is_answered_by_a_goodbye() throws Exception {
        byte[] unknown = Opening.frame(9, new byte[4]);
        try (Wire wire = launcher.launch(node("local", "java", "", List.of()), unknown, Deadline.in_ms(MOST_MS))) {
            byte[] header = wire.in().readNBytes(12);
            Check.equal(3, (int) header[0], "type of the frame");
            Check.equal(4, (int) header[8], "code of the GOODBYE");
        }
    }

    public void the_first_stage_is_small() {
        int bytes = FirstStage.jar().length;
        Check.that(bytes <= 16 << 10, bytes + " bytes");
    }

    private NodeSpec template(String script) {
        return node("ssh", "java", "", List.of("sh", "-c", script));
    }

    private NodeSpec within(String before) {
        return node("ssh", System.getProperty("java.home") + "/bin/java", "", List.of("unshare", "-rm", "sh", "-c", before + "; {script}"));
    }

    private NodeSpec with(SshDaemon sshd, String option) {
        List<String> command = new java.util.ArrayList<>(List.of("ssh", "-o", option));
        command.addAll(sshd.command().subList(1, sshd.command().size()));
        return node("ssh", "java", "", command);
    }

    private static SshDaemon daemon() throws Exception {
        if (SshDaemon.missing() != null) {
            throw new Run.Missing(SshDaemon.missing());
        }
        return SshDaemon.start();
    }
}
