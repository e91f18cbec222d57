package silf.jojo.work;

import java.io.Serializable;
import java.util.ArrayDeque;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/**
 * A worker of the {@link Master} above it: asks for jobs ahead, so that the way to the master costs no time, and does them one
 * after the other.
 *
 * @param <J> what it is given
 * @param <R> what it makes of it
 */
public abstract class Worker<J extends Serializable, R extends Serializable> extends Code {
    /** Hides the way to a master in the same cluster. */
    private static final int CREDIT = 4;

    private final ArrayDeque<Master.Job> jobs = new ArrayDeque<>();
    private boolean over;

    /** Does one job. What it throws is told to the master. */
    protected abstract R work(J job) throws Exception;

    /**
     * How many jobs it has at a time, the one in work among them: at least the round trip to the master divided by a
     * job's time, plus one.
     */
    protected int credit() {
        return CREDIT;
    }

    @Override
    public void start() throws JojoException {
        parent.tell(new Master.Ready(rank, self().epoch(), credit()));
        for (Master.Job job; (job = take()) != null; ) {
            parent.tell(done(job));
        }
    }

    private synchronized Master.Job take() throws JojoException {
        while (jobs.isEmpty()) {
            if (over) {
                return null;
            }
            try {
                wait();
            } catch (InterruptedException e) {
                throw new JojoException("interrupted while there was no job", e);
            }
        }
        return jobs.poll();
    }

    @SuppressWarnings("unchecked")
    private Master.Result done(Master.Job job) {
        try {
            return new Master.Result(rank, self().epoch(), job.number(), work((J) job.job()), null);
        } catch (Exception e) {
            return new Master.Result(rank, self().epoch(), job.number(), null, e.toString());
        }
    }

    @Override
    public final Object handle(Message mes) throws JojoException {
        synchronized (this) {
            if (mes.contents instanceof Master.Job job) {
                jobs.add(job);
                notifyAll();
                return null;
            }
            if (mes.contents instanceof Master.Over) {
                over = true;
                notifyAll();
                return null;
            }
        }
        return other(mes);
    }

    /** A message that is not of this module. */
    protected Object other(Message mes) throws JojoException {
        return super.handle(mes);
    }
}
