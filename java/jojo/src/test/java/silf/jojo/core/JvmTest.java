package silf.jojo.core;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.program.Body;
import silf.jojo.program.Greedy;
import silf.jojo.program.Peer;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;

/** What only a node in a JVM of its own has: a heap that is full, a status that it ends with, a start that takes its time. */
public final class JvmTest {
    private final Over over;

    public JvmTest(Over.Apart apart) {
        this.over = apart.over;
    }

    private static NodeSpec peer(Invocation how) {
        return NodeSpec.of("pad00", "pad00", Peer.class.getName()).withInvocation(how);
    }

    private int run(Body.Test test, NodeSpec... children) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("body", Body.name(test));
        return new Program(
                        NodeSpec.of("client", "client", Body.class.getName(), children), properties, over.launcher(),
                        JvmTest.class.getClassLoader(), System.out, System.err)
                .run();
    }

    /** The call ends at once; the program ends with what was found out about the node. */
    public void the_end_of_a_node_is_what_ends_the_program_and_not_the_call_that_waited_for_it() throws Exception {
        JojoException e = Check.thrown(JojoException.class, () -> run(client -> {
            client.child(0).call(new Message(Peer.DIE, null));
        }, peer(over.invocation())), "the program");
        Check.that(e.getMessage().contains("node pad00 is lost") && e.getMessage().contains("status 3"), e.getMessage());
    }

    public void a_node_that_takes_longer_to_start_than_it_may_is_given_up_and_named() throws Exception {
        Invocation slow = new Invocation(
                "ssh", "java", List.of(), List.of("sh", "-c", "exec sleep 600 #{script}"), 500, Map.of());
        JojoException e = Check.thrown(
                JojoException.class, () -> run(client -> {}, peer(slow)), "the program");
        Check.that(e.getMessage().contains("pad00") && e.getMessage().contains("[node_silent]"), e.getMessage());
    }

    /** The client is the small one. */
    public void an_answer_that_does_not_fit_into_the_clients_heap_is_an_exception_and_no_end() throws Exception {
        Path conf = Files.writeString(Files.createTempFile("jojo-test", ".toml"),
                "[root]\nhost = \"client\"\ncode = \"" + Greedy.class.getName() + "\"\n[[node]]\nhost = \"local\"\ncode = \""
                        + Greedy.class.getName() + "\"\n");
        try {
            Process client = Processes.guarded(new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx24m",
                    "-cp", System.getProperty("java.class.path"), silf.jojo.Jojo.class.getName(), conf.toString())
                    .redirectErrorStream(true).start());
            String said = new String(client.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            Check.equal(0, client.waitFor(), said);
            Check.that(said.contains("too large here") && said.contains("and then: 7"), said);
        } finally {
            Files.delete(conf);
        }
    }

    public void a_message_that_does_not_fit_into_the_heap_is_refused_with_its_size() throws Exception {
        run(client -> {
            JojoException e = Check.thrown(
                    JojoException.class, () -> ContractTest.echo(client.child(0), new byte[40 << 20]), "40 MB for 24");
            Check.that(e.getMessage().contains("too large"), e.getMessage());
            Check.equal(7, ContractTest.echo(client.child(0), 7), "an echo after that");
        }, peer(over.invocation("-Xmx24m")));
    }
}
