import java.io.Serializable;
import java.util.Random;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** Asks for a job, does it, and brings the result with its next request. */
public class JobsWorker extends Code {
    static final int ASKED = 1;
    static final int LOST = 2;
    static final int NO_JOB = -1;

    /** A request: by which child of the master, of which worker, with the result of the job before. */
    public record Asked(String by, String worker, int job, long inside) implements Serializable {}

    public record Job(int number, long trials) implements Serializable {}

    @Override
    public void start() throws JojoException {
        String name = self().name();
        Asked asked = new Asked(name, name, NO_JOB, 0);
        while (true) {
            Job job = (Job) parent.call(new Message(ASKED, asked));
            if (job.number() == NO_JOB) {
                return;
            }
            asked = new Asked(name, name, job.number(), inside(job));
        }
    }

    private static long inside(Job job) {
        Random random = new Random(job.number());
        long inside = 0;
        for (long i = 0; i < job.trials(); i++) {
            double x = random.nextDouble();
            double y = random.nextDouble();
            if (x * x + y * y < 1.0) {
                inside++;
            }
        }
        return inside;
    }
}
