package silf.jojo.core;

import java.util.Properties;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.launch.ProcessLauncher;
import silf.jojo.program.Counting;
import silf.jojo.testkit.Check;

/** Master and workers, some of which die. */
public final class WorkTest {
    private static void run(int jobs, int kills, FaultPolicy policy) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("jobs", Integer.toString(jobs));
        properties.setProperty("kills", Integer.toString(kills));
        NodeSpec[] workers = new NodeSpec[4];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = NodeSpec.of("pad0" + i, "pad0" + i, Counting.Squares.class.getName()).withFaults(policy);
        }
        new Program(
                        NodeSpec.of("client", "client", Counting.class.getName(), workers), properties,
                        new ProcessLauncher((node, line) -> System.err.println("{" + node.name() + "} " + line)),
                        WorkTest.class.getClassLoader(), System.out, System.err)
                .run();
        long sum = 0;
        for (int i = 0; i < jobs; i++) {
            Check.equal(1, Counting.results.get(i), "results of job " + i);
            sum += (long) i * i;
        }
        Check.equal(sum, Counting.sum, "the sum");
    }

    public void every_job_has_one_result() throws Exception {
        run(2_000, 0, FaultPolicy.FAIL);
    }

    public void every_job_has_one_result_when_workers_die_and_are_gone_on_without() throws Exception {
        run(2_000, 2, FaultPolicy.GO_ON);
    }

    public void every_job_has_one_result_when_workers_die_and_come_back() throws Exception {
        run(4_000, 3, FaultPolicy.RESTART);
    }
}
