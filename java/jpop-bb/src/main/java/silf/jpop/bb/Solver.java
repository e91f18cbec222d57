package silf.jpop.bb;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import silf.jojo.JojoException;
import silf.jpop.Damaged;
import silf.jpop.Driver;
import silf.jpop.Events;
import silf.jpop.NodeStat;
import silf.jpop.Numbers;
import silf.jpop.Said;
import silf.jpop.Trees;

/**
 * Branch and bound as a node of Jojo, the same at every place of the tree: one thread takes out of the queue what comes, works,
 * and carries out what {@link Core} says. Properties: {@code jpop.problem} a {@link Source}, {@code
 * jpop.checkpoint} a file, {@code jpop.checkpoint.ms}, {@code jpop.events} a file, {@code jpop.tick.ms}.
 *
 * <p>The queue has no limit of its own: a child says one thing for each that it is asked or given, one for each better solution,
 * and two with each tick.
 */
public final class Solver extends Driver {
    /** Subproblems between two looks at the clock. */
    private static final int BATCH = 16;
    /** Words heard before anything is said. */
    private static final int HEARD_MOST = 64;

    private final TreeMap<Integer, List<NodeStat>> below = new TreeMap<>();
    private Core<Object> core;
    private Search<Object> search;
    private String prefix = "";
    private long begun_ns;
    private long workOfLost;
    /** For who watches: of the thread that works, and read by others. */
    private volatile long shownWork;

    private volatile Best shownBest;
    private volatile int shownLeft;

    // -- the client --------------------------------------------------------------------------------------------------

    @SuppressWarnings("unchecked")
    @Override
    protected void begin() throws JojoException {
        Problem<Object> problem;
        Trees.Job<Problem<Object>, ?> job = Trees.job(settings);
        if (job != null) {
            problem = job.given;
        } else {
            Source source = settings.made("jpop.problem", Source.class, Thread.currentThread().getContextClassLoader(),
                    "the class that reads the problem, such as silf.jpop.bb.problems.Knapsack$From");
            problem = (Problem<Object>) source.problem(settings);
        }
        search = new Search<>(problem);
        begun_ns = System.nanoTime();
        events = new Events(settings.text("jpop.events"), "bb", problem.toString(), problem.maximises());
        byte[] kept = kept("bb", problem);
        if (kept == null) {
            core = Core.root(search, List.of(search.root()), null);
        } else {
            Numbers in = new Numbers(kept);
            Best best = Coded.best(in);
            List<Open<Object>> left = Coded.opens(in);
            in.end();
            core = Core.root(search, left, best);
        }
    }

    private void keep() throws JojoException {
        if (checkpoint != null) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            Coded.put(out, core.best());
            out.writeBytes(Coded.opens(core.left()));
            checkpoint.write(out.toByteArray());
        }
    }

    @Override
    protected void end() throws JojoException {
        keep();
        Best best = core.best();
        Object state = null;
        if (best != null) {
            // Made again here: what travelled was only where it is.
            Open<Object> open = new Open<>(best.at(), -Problem.VALUE_MOST, null);
            state = search.state(open);
            Best again = search.solution(open);
            if (!best.equals(again)) {
                throw new JojoException(search.problem.getClass().getName() + ".value of subproblem " + best.at() + " was "
                        + search.value(best.cost()) + " at another node and is " + (again == null ? "none" : search.value(again.cost()))
                        + " here: it must give the same whenever it is asked");
            }
        }
        long work = workOfLost;
        for (NodeStat stat : stats()) {
            work += stat.work();
        }
        Result<Object> result = new Result<>(best != null, best == null ? 0 : search.value(best.cost()), state,
                best == null ? "" : best.at().toString(), work, core.faults(), System.nanoTime() - begun_ns);
        events.now(shown(best), 0, "", stats());
        events.end(shown(best), "proven");
        Trees.Job<?, Result<Object>> job = Trees.job(settings);
        if (job != null) {
            job.made = result;
        } else {
            System.out.println(best == null ? "there is no solution" : "best: " + result.value() + ", proven; "
                    + search.problem.show(state));
            System.out.println("states: " + work + (core.faults() == 0 ? "" : ", nodes lost: " + core.faults()));
        }
    }

    private String shown(Best best) {
        return best == null ? "null" : Long.toString(search.value(best.cost()));
    }

    // -- every node --------------------------------------------------------------------------------------------------

    @Override
    @SuppressWarnings("unchecked")
    protected boolean isWelcome(Said said, long life) throws JojoException {
        if (!(said instanceof Talk.Welcome welcome) || welcome.life() != life) {
            return false;
        }
        search = new Search<>((Problem<Object>) welcome.problem());
        core = Core.below(search, rank, welcome);
        prefix = welcome.prefix();
        return true;
    }

    /** The best is the client's: others only know what they were told. */
    @Override
    protected Map<String, Number> figures() {
        Map<String, Number> figures = new LinkedHashMap<>();
        figures.put("work", shownWork);
        Best best = shownBest;
        if (parent == null) {
            if (best != null) {
                figures.put("best", search.value(best.cost()));
            }
            figures.put("left", shownLeft);
        }
        return figures;
    }

    @Override
    protected void drive() throws JojoException, InterruptedException {
        long nextTick = System.nanoTime() + tick_ns;
        long nextCheckpoint = System.nanoTime() + checkpoint_ns;
        say();
        while (!core.isOver()) {
            long now = System.nanoTime();
            if (now - nextTick >= 0) {
                nextTick = now + tick_ns;
                core.tick();
                say();
                told();
            }
            if (parent == null && now - nextCheckpoint >= 0) {
                nextCheckpoint = now + checkpoint_ns;
                keep();
            }
            Said said = core.works() ? inbox.poll() : inbox.poll(nextTick - now, TimeUnit.NANOSECONDS);
            if (said != null) {
                for (int i = 0; said != null; said = ++i < HEARD_MOST ? inbox.poll() : null) {
                    take(said);
                }
                say(); // before the next subproblem, which may take long
            }
            if (Thread.interrupted()) {
                throw new InterruptedException(); // the program ends, or this node is cut off
            }
            for (int i = 0; i < BATCH && core.works() && (i == 0 || inbox.isEmpty() && !core.isAwaited()); i++) {
                core.work();
            }
            say();
            shownWork = core.expanded();
            shownBest = core.best();
        }
    }

    private void take(Said said) throws Damaged {
        if (said instanceof Said.Hello hello) {
            if (descendants[hello.rank()].alive()) { // else the news of its end was first, and it would be waited for
                gone(hello.rank());
                core.hello(hello);
            }
        } else if (said instanceof Talk.Report report) {
            core.report(report);
        } else if (said instanceof Talk.Found found) {
            core.found(found);
        } else if (said instanceof Talk.Told told) {
            if (!core.isLate(told)) {
                below.put(told.rank(), told.stats());
            }
        } else if (said instanceof Talk.Grant grant) {
            core.grant(grant);
        } else if (said instanceof Talk.Ask ask) {
            core.ask(ask);
        } else if (said instanceof Talk.Better better) {
            core.better(better);
        } else if (said instanceof Said.Over) {
            core.over();
        } else if (said instanceof Lost lost) {
            gone(lost.rank());
            core.lost(lost.rank());
            if (events != null) {
                events.lost(lost.name());
            }
        }
    }

    private void gone(int rank) {
        List<NodeStat> stats = below.remove(rank);
        if (stats != null) {
            workOfLost += stats.stream().mapToLong(NodeStat::work).sum();
        }
    }

    private void say() throws JojoException {
        for (Core.Out out : core.said()) {
            if (out.to() != Core.UP) {
                tell(out.to(), out.what());
                continue;
            }
            if (out.what() instanceof Talk.Report && core.saidEmpty()) {
                told(); // it may be the last word
            }
            int size_bytes = out.what() instanceof Talk.Report report
                    ? report.left().length + report.given().length + report.best().length
                    : 0;
            up(out.what(), size_bytes);
        }
    }

    /** How far this node and those below it are, to whoever watches. */
    private void told() throws JojoException {
        if (parent != null) {
            up(new Talk.Told(rank, core.life(), new ArrayList<>(stats())), 0);
        } else {
            shownLeft = core.left().size();
            events.now(shown(core.best()), shownLeft, "", stats());
        }
    }

    private List<NodeStat> stats() {
        List<NodeStat> all = new ArrayList<>();
        long own = core.expanded() + (parent == null ? 0 : workOfLost);
        all.add(new NodeStat(prefix, self().name(), !core.hasChildren(), own, messages, bytes, core.faults()));
        below.values().forEach(all::addAll);
        return all;
    }
}
