package silf.jojo.work;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import silf.jojo.Context;
import silf.jojo.Future;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jojo.testkit.Check;

/** A master by itself, and what it is told of its workers in every order in which handlers can run. */
public final class MasterTest {
    private static final long MOST_S = 60;

    /** A worker's place: keeps what it is sent. */
    private static final class Place extends Node {
        final List<Serializable> sent = new ArrayList<>();
        int epoch;
        boolean alive = true;
        /** It dies as it is sent one of these. */
        Class<?> diesOf;
        JojoException refuses;

        @Override
        public String name() {
            return "pad00";
        }

        @Override
        public int rank() {
            return 0;
        }

        @Override
        public boolean alive() {
            return alive;
        }

        @Override
        public int epoch() {
            return epoch;
        }

        @Override
        public void send(Message msg) throws JojoException {
            if (refuses != null) {
                throw refuses;
            }
            if (msg.contents.getClass() == diesOf) {
                alive = false;
            }
            if (!alive) {
                throw new NodeLostException("pad00", "it has ended");
            }
            sent.add(msg.contents);
        }

        Master.Job job(int at) {
            return (Master.Job) sent.get(at);
        }

        @Override
        public Future callFuture(Message msg) {
            throw new AssertionError("a call");
        }

        @Override
        public void callWithContext(Message msg, Context context) {
            throw new AssertionError("a call");
        }
    }

    /** Gives out 0, 1, ... */
    private static final class Numbers extends Master<Integer, Integer> {
        final List<Integer> results = new ArrayList<>();
        private final int most;
        private int next;

        Numbers(Place place, int most) {
            descendants = new Node[] {place};
            this.most = most;
        }

        @Override
        protected Integer next() {
            return next < most ? next++ : null;
        }

        @Override
        protected void result(Integer job, Integer result) {
            results.add(job);
        }
    }

    private final Place place = new Place();

    private static FutureTask<Void> started(Numbers master) {
        FutureTask<Void> start = new FutureTask<>(() -> {
            master.start();
            return null;
        });
        Thread thread = new Thread(start, "start");
        thread.setDaemon(true);
        thread.start();
        return start;
    }

    private static void ready(Numbers master, int epoch) throws JojoException {
        master.handle(Message.of(new Master.Ready(0, epoch, 1)));
    }

    private static void done(Numbers master, int epoch, long number) throws JojoException {
        master.handle(Message.of(new Master.Result(0, epoch, number, 0, null)));
    }

    public void a_worker_that_dies_as_it_is_told_of_the_end_fails_nothing() throws Exception {
        Numbers master = new Numbers(place, 1);
        FutureTask<Void> start = started(master);
        ready(master, 0);
        place.diesOf = Master.Over.class;
        done(master, 0, place.job(0).number());
        master.nodeLost(place);
        start.get(MOST_S, TimeUnit.SECONDS);
        Check.equal(List.of(0), master.results, "results");
    }

    /** The loss of the one before is told when the next is at work already. */
    public void a_worker_that_is_back_before_its_loss_was_told_is_given_jobs() throws Exception {
        Numbers master = new Numbers(place, 3);
        FutureTask<Void> start = started(master);
        ready(master, 0);
        Check.equal(0, place.job(0).job(), "the first's job");
        place.epoch = 1;
        ready(master, 1);
        Check.equal(1, place.job(1).job(), "the second's job");
        master.nodeLost(place);
        Check.equal(2, place.sent.size(), "jobs: the second has what it takes");
        done(master, 1, place.job(1).number());
        Check.equal(0, place.job(2).job(), "what the first had");
        done(master, 1, place.job(2).number());
        done(master, 1, place.job(3).number());
        start.get(MOST_S, TimeUnit.SECONDS);
        Check.equal(List.of(1, 0, 2), master.results, "results");
        Check.that(place.sent.get(4) instanceof Master.Over, "the last word: " + place.sent);
    }

    public void what_a_worker_said_before_it_was_lost_counts_for_nothing_afterwards() throws Exception {
        Numbers master = new Numbers(place, 1);
        FutureTask<Void> start = started(master);
        place.alive = false;
        master.nodeLost(place);
        place.epoch = 1;
        place.alive = true;
        ready(master, 0);
        Check.equal(List.of(), place.sent, "jobs for one that is no more");
        ready(master, 1);
        done(master, 1, place.job(0).number());
        start.get(MOST_S, TimeUnit.SECONDS);
    }

    public void a_job_that_cannot_be_sent_ends_the_program_and_says_why() throws Exception {
        Numbers master = new Numbers(place, 1);
        place.refuses = new JojoException("java.lang.Object is not Serializable");
        ready(master, 0);
        JojoException e = Check.thrown(JojoException.class, () -> {
            master.start();
            return null;
        }, "start");
        Check.that(e.getMessage().contains("not Serializable"), e.getMessage());
    }
}
