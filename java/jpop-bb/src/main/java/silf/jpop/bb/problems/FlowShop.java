package silf.jpop.bb.problems;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalLong;
import silf.jojo.JojoException;
import silf.jpop.Settings;
import silf.jpop.Words;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Source;

/**
 * The permutation flow shop: one order of jobs for all machines in a row, such that the last one is finished soonest. Jobs are put
 * in from the front; the bound is that of one machine at a time (what it has still to do, and the shortest way out behind it).
 *
 * @param times by machine, then job
 */
public record FlowShop(int[][] times) implements Problem<FlowShop.Begun> {
    private static final long serialVersionUID = 1;
    /** Taillard's largest. */
    static final int JOBS_MOST = 500;
    static final int MACHINES_MOST = 100;
    static final int TIME_MOST = 1_000_000_000;

    /** The first jobs in their order, and when each machine has done them. */
    public record Begun(int[] jobs, long[] done) {
        @Override
        public String toString() {
            return "jobs " + java.util.Arrays.toString(jobs);
        }
    }

    /** {@code jpop.instance}: one instance in the form of Taillard's files (a line of words before each block of numbers). */
    public static final class From implements Source {
        @Override
        public Problem<?> problem(Settings settings) throws JojoException {
            return read(Words.of(settings.needed("jpop.instance", "a file in Taillard's form")));
        }
    }

    public static FlowShop read(Words words) throws JojoException {
        heading(words, "number");
        int jobs = (int) words.number("the number of jobs", 1, JOBS_MOST);
        int machines = (int) words.number("the number of machines", 1, MACHINES_MOST);
        words.number("the seed", Long.MIN_VALUE, Long.MAX_VALUE);
        long upper = words.number("the upper bound", 0, Long.MAX_VALUE);
        long lower = words.number("the lower bound", 0, Long.MAX_VALUE);
        if (lower > upper) {
            throw words.wrong("the lower bound " + lower + " is above the upper bound " + upper);
        }
        heading(words, "processing");
        int[][] times = new int[machines][jobs];
        for (int m = 0; m < machines; m++) {
            for (int j = 0; j < jobs; j++) {
                times[m][j] = (int) words.number("the time of job " + j + " on machine " + m, 0, TIME_MOST);
            }
        }
        words.end();
        return new FlowShop(times);
    }

    private static void heading(Words words, String first) throws JojoException {
        String word = words.word("a heading that begins with \"" + first + "\"");
        if (!word.equals(first)) {
            throw words.wrong(word + " where a heading should begin with \"" + first + "\"");
        }
        words.line();
    }

    private int jobs() {
        return times[0].length;
    }

    @Override
    public Begun root() {
        return new Begun(new int[0], new long[times.length]);
    }

    private boolean[] open(Begun begun) {
        boolean[] open = new boolean[jobs()];
        java.util.Arrays.fill(open, true);
        for (int job : begun.jobs) {
            open[job] = false;
        }
        return open;
    }

    @Override
    public List<Begun> branch(Begun begun) {
        boolean[] open = open(begun);
        record Ranked(Begun begun, long bound) {}
        List<Ranked> below = new ArrayList<>();
        for (int job = 0; job < open.length; job++) {
            if (open[job]) {
                int[] jobs = java.util.Arrays.copyOf(begun.jobs, begun.jobs.length + 1);
                jobs[begun.jobs.length] = job;
                long[] done = new long[times.length];
                long before = 0;
                for (int m = 0; m < done.length; m++) {
                    before = Math.max(before, begun.done[m]) + times[m][job];
                    done[m] = before;
                }
                Begun next = new Begun(jobs, done);
                below.add(new Ranked(next, bound(next)));
            }
        }
        below.sort(Comparator.comparingLong(Ranked::bound)); // stable: equal ones by job
        return below.stream().map(Ranked::begun).toList();
    }

    @Override
    public long bound(Begun begun) {
        boolean[] open = open(begun);
        int machines = times.length;
        if (begun.jobs.length == open.length) {
            return begun.done[machines - 1];
        }
        long[] sum = new long[machines];
        long[] out = new long[machines];
        java.util.Arrays.fill(out, Long.MAX_VALUE);
        for (int job = 0; job < open.length; job++) {
            if (open[job]) {
                long tail = 0;
                for (int m = machines - 1; m >= 0; m--) {
                    out[m] = Math.min(out[m], tail);
                    sum[m] += times[m][job];
                    tail += times[m][job];
                }
            }
        }
        long bound = 0;
        long begin = 0;
        for (int m = 0; m < machines; m++) {
            begin = Math.max(begin, begun.done[m]);
            bound = Math.max(bound, begin + sum[m] + out[m]);
        }
        return bound;
    }

    @Override
    public OptionalLong value(Begun begun) {
        return begun.jobs.length == jobs() ? OptionalLong.of(begun.done[times.length - 1]) : OptionalLong.empty();
    }

    @Override
    public String toString() {
        return "flow shop of " + jobs() + " jobs on " + times.length + " machines";
    }
}
