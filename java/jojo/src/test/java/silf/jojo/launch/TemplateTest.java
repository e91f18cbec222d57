package silf.jojo.launch;

import java.util.List;
import java.util.Map;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.testkit.Check;

/** Commands that start nodes. */
public final class TemplateTest {
    private static void check(String protocol, String rsh, String... expected) {
        Invocation how = new Invocation(protocol, "java", List.of(), Words.of(rsh), 5000, Map.of());
        List<String> command = Template.of(NodeSpec.of("n", "pad00", "A").withInvocation(how), "S $x");
        Check.equal(List.of(expected), command, protocol + " " + rsh);
    }

    public void protocols_and_templates_become_commands() {
        String quoted = "exec sh -c 'S $x'";
        check("local", "", "sh", "-c", "S $x");
        check("ssh", "", "ssh", "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "pad00", quoted);
        check("ssh", "/opt/bin/ssh -o 'ProxyJump a b'", "/opt/bin/ssh", "-o", "ProxyJump a b", "-T", "-x", "-o", "BatchMode=yes",
                "-o", "ConnectTimeout=5", "pad00", quoted);
        check("ssh", "gsissh -p 2222", "gsissh", "-p", "2222", "pad00", quoted);
        check("ssh", "docker exec -i {host} sh -c {script}", "docker", "exec", "-i", "pad00", "sh", "-c", "S $x");
        check("ssh", "srun -w {host} sh -c {script}", "srun", "-w", "pad00", "sh", "-c", "S $x");
        check("ssh", "sudo ssh root@{host} {command}", "sudo", "ssh", "root@pad00", quoted);
        check("rsh", "", "rsh", "pad00", quoted);
        check("gram", "", "kumiko", "exec", "-T", "pad00", "--", "sh", "-c", "S $x");
        check("gram", "/opt/kumiko exec", "/opt/kumiko", "exec", "-T", "pad00", "--", "sh", "-c", "S $x");
    }

    public void words_are_cut_as_a_shell_cuts_them() {
        Check.equal(List.of("a", "b c", "d'e", "", "fg"), Words.of(" a 'b c'  \"d'e\" '' f'g'\t"), "words");
        Check.thrown(IllegalArgumentException.class, () -> Words.of("a 'b"), "an open quote");
    }

    public void the_script_passes_through_single_quotes_of_any_shell() {
        List<String> scripts = List.of(
                Script.of("0123456789abcdef", 5000, "$HOME/jdk/bin/java", List.of("-Xmx64m", "-Da=b c"), true),
                Script.of("0123456789abcdef", 5000, "java", List.of(), false),
                Script.again("0123456789abcdef", 1234));
        for (String script : scripts) {
            for (String foul : List.of("'", "\\", "!", "\n")) {
                Check.that(!script.contains(foul), "the script has " + foul);
            }
        }
    }
}
