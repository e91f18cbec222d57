package silf.jojo.program;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import silf.jojo.JojoException;
import silf.jojo.Node;
import silf.jojo.work.Master;
import silf.jojo.work.Worker;

/** A master that counts what comes back, and kills a worker now and then; and its worker, which squares. */
public final class Counting extends Master<Integer, Long> {
    /** Results by job, and how often each came. */
    public static volatile Map<Integer, Integer> results;

    public static volatile long sum;

    /** How a worker dies that is told to. */
    public static volatile Consumer<String> end = name -> Runtime.getRuntime().halt(9);

    private int jobs;
    private int kills;
    private int next;
    private int came;

    @Override
    public void init(@SuppressWarnings("rawtypes") Map arg) {
        jobs = Integer.parseInt((String) arg.get("jobs"));
        kills = Integer.parseInt((String) arg.get("kills"));
        results = new HashMap<>();
        sum = 0;
    }

    @Override
    protected Integer next() {
        return next < jobs ? next++ : null;
    }

    @Override
    protected void result(Integer job, Long result) throws JojoException {
        results.merge(job, 1, Integer::sum);
        sum += result;
        if (kills > 0 && ++came % (jobs / (kills + 1)) == 0) {
            kills--;
            Node victim = descendants[kills % descendants.length];
            if (victim.alive()) {
                victim.tell("die");
            }
        }
    }

    /** Squares. */
    public static final class Squares extends Worker<Integer, Long> {
        @Override
        protected Long work(Integer job) throws Exception {
            if (job < 0) {
                throw new IllegalArgumentException("negative");
            }
            Thread.sleep(1);
            return (long) job * job;
        }

        @Override
        protected int credit() {
            return 8;
        }

        @Override
        protected Object other(silf.jojo.Message mes) {
            end.accept(self().name());
            return null;
        }
    }
}
