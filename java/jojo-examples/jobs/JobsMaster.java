import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;

/**
 * Pi in numbered jobs, each with a seed of its own, so that the answer does not depend on who did which. Jobs of workers
 * that are lost are given to others; each result counts once.
 */
public class JobsMaster extends Code {
    /** Who has a job: the child of ours by which it went, and the worker. */
    private record Holder(String by, String worker) {}

    private final Deque<Integer> waiting = new ArrayDeque<>();
    private final Map<Integer, Holder> given = new HashMap<>();
    private int jobs;
    private long trials;
    private int done;
    private long inside;

    @Override
    public void init(Map arg) {
        jobs = Integer.parseInt((String) arg.get("jobs"));
        trials = Long.parseLong((String) arg.get("trials"));
        for (int job = 0; job < jobs; job++) {
            waiting.add(job);
        }
    }

    @Override
    public synchronized void start() throws JojoException {
        await(() -> done == jobs);
        System.out.println("PI = " + 4.0 * inside / (trials * jobs) + " of " + done + " jobs");
    }

    @Override
    public synchronized Object handle(Message message) throws JojoException {
        if (message.tag == JobsWorker.LOST) {
            again((Holder holder) -> holder.worker().equals(message.contents));
            return null;
        }
        JobsWorker.Asked asked = message.as(JobsWorker.Asked.class);
        if (given.remove(asked.job()) != null) {
            done++;
            inside += asked.inside();
            System.out.println("done: " + done);
            notifyAll();
        }
        await(() -> !waiting.isEmpty() || done == jobs);
        if (done == jobs) {
            return new JobsWorker.Job(JobsWorker.NO_JOB, 0);
        }
        int job = waiting.remove();
        given.put(job, new Holder(asked.by(), asked.worker()));
        return new JobsWorker.Job(job, trials);
    }

    @Override
    public synchronized void nodeLost(Node node) {
        System.out.println("lost: " + node.name());
        again((Holder holder) -> holder.by().equals(node.name()));
    }

    private void again(java.util.function.Predicate<Holder> whose) {
        for (Iterator<Map.Entry<Integer, Holder>> it = given.entrySet().iterator(); it.hasNext(); ) {
            Map.Entry<Integer, Holder> entry = it.next();
            if (whose.test(entry.getValue())) {
                waiting.add(entry.getKey());
                it.remove();
            }
        }
        notifyAll();
    }

    private void await(java.util.function.BooleanSupplier so) throws JojoException {
        while (!so.getAsBoolean()) {
            try {
                wait();
            } catch (InterruptedException e) {
                throw new JojoException("interrupted");
            }
        }
    }
}
