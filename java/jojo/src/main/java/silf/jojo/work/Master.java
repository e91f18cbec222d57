package silf.jojo.work;

import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;

/**
 * A master whose workers ({@link Worker}) are the nodes directly below it. Each worker takes as it can, several jobs ahead; a
 * job that was with a lost worker is given to another, and each job's result is taken once. {@code start} returns when there
 * is no further job and all results are in.
 *
 * @param <J> what a worker is given
 * @param <R> what it makes of it
 */
public abstract class Master<J extends Serializable, R extends Serializable> extends Code {
    /** A job that was lost with so many workers is taken for what kills them. */
    private static final int TRIES_MOST = 5;

    /** A worker is there, and how many jobs it takes ahead. */
    record Ready(int rank, int epoch, int credit) implements Serializable {}

    record Job(long number, Serializable job) implements Serializable {}

    /** @param failure null, or why there is no result */
    record Result(int rank, int epoch, long number, Serializable result, String failure) implements Serializable {}

    record Over() implements Serializable {}

    private static final class Given<J> {
        final long number;
        final J job;
        int worker;
        int epoch;
        int tries;

        Given(long number, J job) {
            this.number = number;
            this.job = job;
        }
    }

    /** A worker, from its READY on, and how many jobs it would take now. A rank may have had another before. */
    private static final class Free {
        final int epoch;
        int jobs;

        Free(int epoch, int jobs) {
            this.epoch = epoch;
            this.jobs = jobs;
        }
    }

    // All guarded by this.
    private final Map<Long, Given<J>> out = new HashMap<>();
    private final ArrayDeque<Given<J>> again = new ArrayDeque<>();
    /** By rank. */
    private final Map<Integer, Free> free = new HashMap<>();
    private long number;
    private boolean exhausted;
    private boolean over;
    private JojoException failed;

    /** The next job, or null when there is none any more. One call at a time. */
    protected abstract J next() throws JojoException;

    /** A job's result, once. One call at a time. */
    protected abstract void result(J job, R result) throws JojoException;

    /**
     * A worker's method threw, or the job was lost with several workers. Unless overridden this ends the program.
     *
     * @param why the worker's exception as text
     */
    protected void failed(J job, String why) throws JojoException {
        throw new JojoException("a job failed: " + why);
    }

    @Override
    public void start() throws JojoException {
        synchronized (this) {
            give();
            while (!over && failed == null) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    throw new JojoException("interrupted while workers work", e);
                }
            }
            if (failed != null) {
                throw failed;
            }
        }
    }

    @Override
    public final Object handle(Message mes) throws JojoException {
        synchronized (this) {
            try {
                if (mes.contents instanceof Ready ready) {
                    ready(ready);
                } else if (mes.contents instanceof Result done) {
                    take(done);
                } else {
                    return other(mes);
                }
                give();
            } catch (JojoException | RuntimeException e) {
                failed = e instanceof JojoException own ? own : new JojoException("the master failed: " + e, e);
                notifyAll();
            }
        }
        return null;
    }

    /** A message that is not of this module. */
    protected Object other(Message mes) throws JojoException {
        return super.handle(mes);
    }

    /** Handlers run at the same time: this may come behind the worker's loss, and then it is of no use. */
    private void ready(Ready ready) {
        if (isUp(ready.rank(), ready.epoch())) {
            free.put(ready.rank(), new Free(ready.epoch(), Math.max(1, ready.credit())));
        }
    }

    private boolean isUp(int rank, int epoch) {
        Node node = descendants[rank];
        return node.alive() && node.epoch() == epoch; // in this order: the epoch of one that is up is its own
    }

    @SuppressWarnings("unchecked")
    private void take(Result done) throws JojoException {
        Free worker = free.get(done.rank());
        if (worker != null && worker.epoch == done.epoch()) {
            worker.jobs++;
        }
        Given<J> given = out.remove(done.number());
        if (given == null) {
            return; // done before, by another
        }
        again.remove(given);
        if (done.failure() != null) {
            failed(given.job, done.failure());
        } else {
            result(given.job, (R) done.result());
        }
    }

    /** Gives what there is to whoever is free; what was lost goes first. */
    private void give() throws JojoException {
        for (Iterator<Map.Entry<Integer, Free>> i = free.entrySet().iterator(); i.hasNext(); ) {
            Map.Entry<Integer, Free> entry = i.next();
            Free worker = entry.getValue();
            while (worker.jobs > 0) {
                Given<J> given = another();
                if (given == null) {
                    break;
                }
                given.worker = entry.getKey();
                given.epoch = worker.epoch;
                given.tries++;
                try {
                    descendants[given.worker].tell(new Job(given.number, given.job));
                    worker.jobs--;
                } catch (NodeLostException e) {
                    // It is lost; what it had is taken back when that is told.
                    i.remove();
                    again.addFirst(given);
                    break;
                }
            }
        }
        if (exhausted && out.isEmpty() && !over) {
            over = true;
            notifyAll();
        }
        if (over) {
            for (int rank : free.keySet()) {
                try {
                    descendants[rank].tell(new Over());
                } catch (NodeLostException e) {
                    // It need not be told.
                }
            }
            free.clear();
        }
    }

    private Given<J> another() throws JojoException {
        Given<J> given = again.poll();
        if (given != null || exhausted) {
            return given;
        }
        J job = next();
        if (job == null) {
            exhausted = true;
            return null;
        }
        given = new Given<>(number++, job);
        out.put(given.number, given);
        return given;
    }

    /** Takes back what the lost had. Who overrides this calls it. */
    @Override
    public void nodeLost(Node node) throws JojoException {
        synchronized (this) {
            // Another may be in its place by now, and at work: handlers run at the same time.
            free.computeIfPresent(node.rank(), (rank, worker) -> isUp(rank, worker.epoch) ? worker : null);
            try {
                for (Given<J> given : new ArrayDeque<>(out.values())) {
                    if (given.worker == node.rank() && !isUp(given.worker, given.epoch) && !again.contains(given)) {
                        if (given.tries >= TRIES_MOST) {
                            out.remove(given.number);
                            failed(given.job, "it was lost with " + given.tries + " workers");
                        } else {
                            again.add(given);
                        }
                    }
                }
                give();
            } catch (JojoException e) {
                failed = e;
                notifyAll();
            }
        }
    }
}
