package silf.jojo.core;

import java.util.Properties;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.program.Counting;
import silf.jojo.testkit.Check;

/** Master and workers, some of which die. */
public final class WorkTest {
    private final Over over;

    public WorkTest(Over over) {
        this.over = over;
    }

    private void run(int jobs, int kills, FaultPolicy policy) throws Exception {
        // Of nodes in this JVM; others halt their own.
        Counting.end = Transport::cut;
        Properties properties = new Properties();
        properties.setProperty("jobs", Integer.toString(jobs));
        properties.setProperty("kills", Integer.toString(kills));
        int spares = policy == FaultPolicy.SPARE ? kills : 0;
        NodeSpec[] workers = new NodeSpec[4 + spares];
        for (int i = 0; i < workers.length; i++) {
            NodeSpec worker = NodeSpec.of("pad0" + i, "pad0" + i, Counting.Squares.class.getName()).withFaults(policy);
            workers[i] = over.reached(i < 4 ? worker : worker.asSpare());
        }
        new Program(
                        NodeSpec.of("client", "client", Counting.class.getName(), workers), properties,
                        over.launcher(),
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

    public void every_job_has_one_result_when_spares_take_the_places_of_the_dead() throws Exception {
        run(2_000, 2, FaultPolicy.SPARE);
    }

    public void every_job_has_one_result_when_workers_die_and_come_back() throws Exception {
        run(4_000, 3, FaultPolicy.RESTART);
    }
}
