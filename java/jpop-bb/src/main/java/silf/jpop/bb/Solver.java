package silf.jpop.bb;

import java.io.ByteArrayOutputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jpop.Checkpoint;
import silf.jpop.Damaged;
import silf.jpop.Events;
import silf.jpop.NodeStat;
import silf.jpop.Numbers;
import silf.jpop.Settings;
import silf.jpop.Trees;

/**
 * Branch and bound as a node of Jojo, the same at every place of the tree: handlers put what comes in a queue, and one thread
 * takes it out, works, and carries out what {@link Core} says. Properties: {@code jpop.problem} a {@link Source}, {@code
 * jpop.checkpoint} a file, {@code jpop.checkpoint.ms}, {@code jpop.events} a file, {@code jpop.tick.ms}.
 *
 * <p>The queue has no limit of its own: a child says one thing for each that it is asked or given, one for each better solution,
 * and two with each tick.
 */
public final class Solver extends Code {
    private static final int TICK_ms = 1_000;
    private static final int CHECKPOINT_ms = 10_000;
    private static final int DAY_ms = 86_400_000;
    /** Subproblems between two looks at the clock. */
    private static final int BATCH = 16;
    /** What a message has besides its arrays, roughly. */
    private static final int MESSAGE_bytes = 32;

    private record Lost(int rank, String name) implements Talk {}

    private final LinkedBlockingQueue<Talk> inbox = new LinkedBlockingQueue<>();
    private final TreeMap<Integer, List<NodeStat>> below = new TreeMap<>();
    /** Whether nobody takes anything out of the inbox any more. Guarded by it. */
    private boolean closed;
    private Settings settings;
    private Core<Object> core;
    private Search<Object> search;
    private Checkpoint checkpoint;
    private Events events;
    private String prefix = "";
    private long begun_ns;
    private long tick_ns;
    private long checkpoint_ns;
    private long workOfLost;
    private long messages;
    private long bytes;

    @Override
    protected boolean ordered() {
        return true;
    }

    @Override
    public void init(@SuppressWarnings("rawtypes") Map arg) throws JojoException {
        settings = new Settings(arg);
        tick_ns = TimeUnit.MILLISECONDS.toNanos(settings.number("jpop.tick.ms", TICK_ms, 1, DAY_ms));
        checkpoint_ns = TimeUnit.MILLISECONDS.toNanos(settings.number("jpop.checkpoint.ms", CHECKPOINT_ms, 1, DAY_ms));
    }

    @Override
    public Object handle(Message mes) throws JojoException {
        Talk talk = mes.as(Talk.class);
        boolean late;
        synchronized (inbox) {
            late = closed;
            if (!late) {
                inbox.add(talk);
            }
        }
        if (late && talk instanceof Talk.Hello hello) {
            tell(hello.rank(), new Talk.Over());
        }
        return null;
    }

    @Override
    public void nodeLost(Node node) {
        for (Node child : descendants) {
            if (child == node) {
                inbox.add(new Lost(node.rank(), node.name()));
            }
        }
    }

    @Override
    public void start() throws JojoException {
        try {
            if (parent == null) {
                begin();
            } else {
                join();
            }
            if (core != null) {
                drive();
            }
            synchronized (inbox) {
                closed = true;
            }
            // Children whose first word came behind the last look.
            for (Talk talk; (talk = inbox.poll()) != null; ) {
                if (talk instanceof Talk.Hello hello) {
                    tell(hello.rank(), new Talk.Over());
                }
            }
            if (parent == null) {
                end();
            }
        } catch (InterruptedException e) {
            throw new JojoException("interrupted", e);
        } catch (JojoException | RuntimeException e) {
            if (events != null) {
                events.end("null", "failed: " + e.getMessage());
            }
            throw e;
        }
    }

    // -- the client --------------------------------------------------------------------------------------------------

    @SuppressWarnings("unchecked")
    private void begin() throws JojoException {
        Problem<Object> problem;
        if (Trees.job(settings) instanceof BranchAndBound.Job<?> job) {
            problem = (Problem<Object>) job.problem;
        } else {
            Source source = settings.made("jpop.problem", Source.class, Thread.currentThread().getContextClassLoader(),
                    "the class that reads the problem, such as silf.jpop.bb.problems.Knapsack$From");
            problem = (Problem<Object>) source.problem(settings);
        }
        search = new Search<>(problem);
        begun_ns = System.nanoTime();
        events = new Events(settings.text("jpop.events"), "bb", problem.toString(), problem.maximises());
        String file = settings.text("jpop.checkpoint");
        checkpoint = file == null ? null : new Checkpoint(Path.of(file), "bb", problem);
        byte[] kept = checkpoint == null ? null : checkpoint.read();
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

    @SuppressWarnings("unchecked")
    private void end() throws JojoException {
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
        if (Trees.job(settings) instanceof BranchAndBound.Job<?> job) {
            ((BranchAndBound.Job<Object>) job).result = result;
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

    /** Says that it is there, and waits to hear what for. */
    @SuppressWarnings("unchecked")
    private void join() throws JojoException, InterruptedException {
        long life = new java.security.SecureRandom().nextLong();
        up(new Talk.Hello(rank, life));
        List<Talk> early = new ArrayList<>();
        for (; ; ) {
            Talk talk = inbox.take();
            if (talk instanceof Talk.Welcome welcome && welcome.life() == life) {
                search = new Search<>((Problem<Object>) welcome.problem());
                core = Core.below(search, rank, welcome);
                prefix = welcome.prefix();
                early.forEach(inbox::add);
                return;
            } else if (talk instanceof Talk.Over) {
                early.forEach(inbox::add);
                return;
            } else if (talk instanceof Talk.Up || talk instanceof Lost) {
                early.add(talk);
            }
        }
    }

    private void drive() throws JojoException, InterruptedException {
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
            Talk talk = core.works() ? inbox.poll() : inbox.poll(nextTick - now, TimeUnit.NANOSECONDS);
            if (talk != null) {
                take(talk);
            }
            if (Thread.interrupted()) {
                throw new InterruptedException(); // the program ends, or this node is cut off
            }
            for (int i = 0; i < BATCH && core.works() && (i == 0 || inbox.isEmpty() && !core.isAwaited()); i++) {
                core.work();
            }
            say();
        }
    }

    private void take(Talk talk) throws Damaged {
        if (talk instanceof Talk.Hello hello) {
            if (descendants[hello.rank()].alive()) { // else the news of its end was first, and it would be waited for
                gone(hello.rank());
                core.hello(hello);
            }
        } else if (talk instanceof Talk.Report report) {
            core.report(report);
        } else if (talk instanceof Talk.Found found) {
            core.found(found);
        } else if (talk instanceof Talk.Told told) {
            if (!core.isLate(told)) {
                below.put(told.rank(), told.stats());
            }
        } else if (talk instanceof Talk.Grant grant) {
            core.grant(grant);
        } else if (talk instanceof Talk.Ask ask) {
            core.ask(ask);
        } else if (talk instanceof Talk.Better better) {
            core.better(better);
        } else if (talk instanceof Talk.Over) {
            core.over();
        } else if (talk instanceof Lost lost) {
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
            if (out.what() instanceof Talk.Report report && report.hungry() && parent != null) {
                told();
            }
            up(out.what());
        }
    }

    /** How far this node and those below it are, to whoever watches. */
    private void told() throws JojoException {
        if (parent != null) {
            up(new Talk.Told(rank, core.life(), new ArrayList<>(stats())));
        } else {
            events.now(shown(core.best()), core.left().size(), "", stats());
        }
    }

    private List<NodeStat> stats() {
        List<NodeStat> all = new ArrayList<>();
        long own = core.expanded() + (parent == null ? 0 : workOfLost);
        all.add(new NodeStat(prefix, self().name(), !core.hasChildren(), own, messages, bytes, core.faults()));
        below.values().forEach(all::addAll);
        return all;
    }

    private void up(Talk what) throws JojoException {
        messages++;
        bytes += MESSAGE_bytes;
        if (what instanceof Talk.Report report) {
            bytes += report.left().length + report.given().length + report.best().length;
        }
        parent.tell(what);
    }

    /** Who is lost hears nothing, and what it had is taken back when that is told. */
    private void tell(int child, Talk what) throws JojoException {
        Node[] children = descendants;
        try {
            children[child].tell(what);
        } catch (NodeLostException e) {
            // Told by nodeLost.
        }
    }
}
