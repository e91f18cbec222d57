package silf.jpop.ga;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import silf.jojo.JojoException;
import silf.jojo.Node;
import silf.jpop.Driver;
import silf.jpop.Events;
import silf.jpop.NodeStat;
import silf.jpop.Numbers;
import silf.jpop.Said;
import silf.jpop.Trees;

/**
 * Islands as a node of Jojo, the same at every place of the tree: a node without living children is an island, the others pass
 * individuals on, among their children first, and to their own parent as seldom as the way there is long. Handlers put what comes
 * in a queue that one thread empties. Properties: {@code jpop.evolution} a {@link Source}, {@code jpop.checkpoint} a file, {@code
 * jpop.checkpoint.ms}, {@code jpop.events} a file, {@code jpop.tick.ms}.
 */
public final class Archipelago extends Driver {
    /** Who is sent away at a time. */
    private static final int EMIGRANTS = 2;
    /** Between two that leave by one link pass at least so many of its round trips. */
    private static final int ROUND_TRIPS = 4;
    /** Individuals wait for no more than so many others at an island that is busy. */
    private static final int WAITING_MOST = 64;
    /** As many nodes as a tree of Jojo's deepest kind has on a thousand hosts. */
    private static final int ISLANDS_MOST = 1 << 16;
    private static final int PLACE_MOST_bytes = 128;
    private static final int STATE_MOST_bytes = 64 << 20;

    private static final class Child {
        final long life;
        Talk.Told told;

        Child(long life) {
            this.life = life;
        }
    }

    private final TreeMap<Integer, Child> children = new TreeMap<>();
    private final TreeMap<String, byte[]> states = new TreeMap<>();
    private boolean over;
    private Evolution<Object> how;
    private Island<Object> island;
    private Island.Member<Object> best;
    private String place = "";
    private long life;
    private long leaveAfter_ns;
    private long roundTrip_ns;
    private long nextGeneration;
    private boolean away;
    private int ring;
    private long workOfLost;
    private long own;
    private long faults;
    /** For who watches: of the thread that works, and read by others. */
    private volatile long shownWork;

    private volatile double shownBest = Double.NaN;

    @Override
    protected boolean isTooMuch(Said said) {
        return said instanceof Talk.Come && inbox.size() >= WAITING_MOST;
    }

    /** The best is the client's: others only know what they were told. */
    @Override
    protected Map<String, Number> figures() {
        double best = shownBest;
        return parent != null || Double.isNaN(best) ? Map.of("work", shownWork) : Map.of("work", shownWork, "best", best);
    }

    // -- the client --------------------------------------------------------------------------------------------------

    @SuppressWarnings("unchecked")
    @Override
    protected void begin() throws JojoException {
        Trees.Job<Evolution<Object>, ?> job = Trees.job(settings);
        if (job != null) {
            how = job.given;
        } else {
            Source source = settings.made("jpop.evolution", Source.class, Thread.currentThread().getContextClassLoader(),
                    "the class that says what is bred, such as silf.jpop.ga.problems.Real$From");
            how = (Evolution<Object>) source.evolution(settings);
        }
        events = new Events(settings.text("jpop.events"), "ga", how.individuals().getClass().getName(), false);
        byte[] kept = kept("ga", how);
        if (kept != null) {
            Numbers in = new Numbers(kept);
            List<Island.Member<Object>> one = Island.members(in, how);
            best = one.isEmpty() ? null : one.get(0);
            for (int count = in.count(ISLANDS_MOST, 2, "islands"); count > 0; count--) {
                String where = in.text(PLACE_MOST_bytes);
                states.put(where, in.take(in.count(STATE_MOST_bytes, 1, "bytes of an island")));
            }
            in.end();
        }
    }

    private void keep() throws JojoException {
        if (checkpoint != null) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.writeBytes(coded(best));
            TreeMap<String, byte[]> all = new TreeMap<>(states);
            if (island != null) {
                all.put(place, island.state());
            }
            Numbers.put(out, all.size());
            all.forEach((where, state) -> {
                Numbers.putText(out, where);
                Numbers.put(out, state.length);
                out.writeBytes(state);
            });
            checkpoint.write(out.toByteArray());
        }
    }

    private byte[] coded(Island.Member<Object> member) {
        return Island.coded(member == null ? List.of() : List.of(member), how.individuals());
    }

    @Override
    protected void end() throws JojoException {
        keep();
        long generations = workOfLost;
        for (NodeStat stat : stats()) {
            generations += stat.work();
        }
        Outcome<Object> outcome = new Outcome<>(best.individual(), best.cost(), generations, faults);
        events.now(shown(), 0, statistics(), stats());
        events.end(shown(), "done");
        Trees.Job<?, Outcome<Object>> job = Trees.job(settings);
        if (job != null) {
            job.made = outcome;
        } else {
            System.out.println("best: " + best.cost() + "; " + how.individuals().show(best.individual()));
            System.out.println("generations: " + generations + (faults == 0 ? "" : ", nodes lost: " + faults));
        }
    }

    private String shown() {
        return best == null || Double.isInfinite(best.cost()) ? "null" : Double.toString(best.cost());
    }

    // -- every node --------------------------------------------------------------------------------------------------

    @Override
    @SuppressWarnings("unchecked")
    protected boolean isWelcome(Said said, long life) {
        if (!(said instanceof Talk.Welcome welcome) || welcome.life() != life) {
            return false;
        }
        this.life = life;
        how = (Evolution<Object>) welcome.how();
        place = welcome.place();
        states.putAll(welcome.states());
        return true;
    }

    /** An island of its own, while nobody lives below, nor is about to say so. */
    private boolean isIsland() {
        return children.isEmpty() && Arrays.stream(descendants).noneMatch(Node::alive);
    }

    @Override
    protected void drive() throws JojoException, InterruptedException {
        long nextTick = System.nanoTime();
        long nextKeep = System.nanoTime() + checkpoint_ns;
        while (!over) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            boolean working = isIsland() && !islandIsDone();
            long now = System.nanoTime();
            if (now - nextTick >= 0) {
                nextTick = now + tick_ns;
                told();
            }
            if (now - nextKeep >= 0) {
                nextKeep = now + checkpoint_ns;
                if (parent == null) {
                    keep();
                } else if (!states.isEmpty() || island != null) {
                    keepUp();
                }
            }
            Said said = working ? inbox.poll() : inbox.poll(nextTick - now, TimeUnit.NANOSECONDS);
            if (said != null) {
                take(said);
            } else if (working) {
                generation();
            }
            if (parent == null && !over && allDone()) {
                for (int child : children.keySet()) {
                    tell(child, new Said.Over());
                }
                return;
            }
        }
    }

    private boolean islandIsDone() throws JojoException {
        if (island == null) {
            byte[] state = states.remove(place);
            if (state == null && !states.isEmpty()) {
                state = states.pollFirstEntry().getValue(); // of one below that is lost
            }
            island = state == null ? Island.first(how, place) : Island.of(how, state);
            better(island.best());
        }
        return island.isDone();
    }

    private void generation() throws JojoException {
        island.step();
        own++;
        shownWork = own;
        better(island.best());
        if (island.isDone()) {
            told();
        } else if (parent != null && island.generation() >= nextGeneration) {
            nextGeneration = island.generation() + how.every();
            leave(island.emigrants(EMIGRANTS));
        }
    }

    /** Sends up, unless the last ones have not arrived, or went just now as the way goes. */
    private void leave(byte[] individuals) throws JojoException {
        long now = System.nanoTime();
        if (!away && now - leaveAfter_ns >= 0) {
            away = true;
            up(new Talk.Leave(rank, life, now, individuals), individuals.length);
        }
    }

    private void better(Island.Member<Object> other) {
        if (other != null && (best == null || other.cost() < best.cost())) {
            best = other;
            shownBest = best.cost();
        }
    }

    private boolean isLate(Said.Up up) {
        Child child = children.get(up.rank());
        return child == null || child.life != up.life();
    }

    private void take(Said said) throws JojoException {
        if (said instanceof Said.Hello hello) {
            if (!descendants[hello.rank()].alive()) {
                return; // the news of its end was first, and it would be waited for
            }
            gone(hello.rank());
            children.put(hello.rank(), new Child(hello.life()));
            island = null; // whoever comes works in its stead
            String below = place.isEmpty() ? "" + hello.rank() : place + "." + hello.rank();
            Map<String, byte[]> its = new HashMap<>();
            states.forEach((where, state) -> {
                if (where.equals(below) || where.startsWith(below + ".")) {
                    its.put(where, state);
                }
            });
            tell(hello.rank(), new Talk.Welcome(hello.life(), how, below, its));
        } else if (said instanceof Lost lost) {
            if (gone(lost.rank())) {
                faults++;
            }
            if (events != null) {
                events.lost(lost.name());
            }
        } else if (said instanceof Talk.Come come) {
            if (island != null && !island.isDone()) {
                island.immigrants(come.individuals());
                better(island.best());
            } else {
                pass(come.individuals(), -1);
            }
        } else if (said instanceof Talk.Landed landed && landed.life() == life) {
            long took = System.nanoTime() - landed.mark();
            roundTrip_ns = roundTrip_ns == 0 ? took : (3 * roundTrip_ns + took) / 4;
            leaveAfter_ns = System.nanoTime() + ROUND_TRIPS * roundTrip_ns;
            away = false;
        } else if (said instanceof Said.Over) {
            over = true;
            for (int child : children.keySet()) {
                tell(child, new Said.Over());
            }
        } else if (said instanceof Said.Up up && !isLate(up)) {
            fromBelow(up);
        }
    }

    private void fromBelow(Said.Up up) throws JojoException {
        if (up instanceof Talk.Leave leave) {
            tell(leave.rank(), new Talk.Landed(leave.life(), leave.mark()));
            pass(leave.individuals(), leave.rank());
            if (parent != null) {
                leave(leave.individuals());
            }
        } else if (up instanceof Talk.Keep keep) {
            states.putAll(keep.states());
        } else if (up instanceof Talk.Told told) {
            children.get(told.rank()).told = told;
            List<Island.Member<Object>> one = Island.members(new Numbers(told.best()), how);
            better(one.isEmpty() ? null : one.get(0));
            if (told.done()) {
                told();
            }
        }
    }

    /** To the next child in a ring, but for the one that they come from. */
    private void pass(byte[] individuals, int from) throws JojoException {
        List<Integer> others = new ArrayList<>(children.keySet());
        others.remove((Integer) from);
        if (!others.isEmpty()) {
            tell(others.get(Math.floorMod(ring++, others.size())), new Talk.Come(individuals));
        }
    }

    private boolean gone(int rank) {
        Child child = children.remove(rank);
        if (child != null && child.told != null) {
            workOfLost += child.told.stats().stream().mapToLong(NodeStat::work).sum();
        }
        return child != null;
    }

    private boolean allDone() throws JojoException {
        if (best != null && best.cost() <= how.target()) {
            return true;
        }
        if (isIsland()) {
            return islandIsDone();
        }
        for (Node node : descendants) {
            if (node.alive() && !children.containsKey(node.rank())) {
                return false; // it has not said Hello yet
            }
        }
        return !children.isEmpty() && children.values().stream().allMatch(child -> child.told != null && child.told.done());
    }

    // -- what is told ------------------------------------------------------------------------------------------------

    private void keepUp() throws JojoException {
        Map<String, byte[]> all = new HashMap<>(states);
        if (island != null) {
            all.put(place, island.state());
        }
        int size = all.values().stream().mapToInt(state -> state.length).sum();
        up(new Talk.Keep(rank, life, all), size);
    }

    private void told() throws JojoException {
        if (parent == null) {
            events.now(shown(), 0, statistics(), stats());
            return;
        }
        byte[] coded = coded(best);
        double[] sums = sums();
        double mean = sums[0] == 0 ? 0 : sums[1] / sums[0];
        up(new Talk.Told(rank, life, coded, mean, deviation(sums), (long) sums[0], allDone(), new ArrayList<>(stats())), coded.length);
    }

    /** Count, sum and sum of squares of costs, here and below. */
    private double[] sums() {
        double[] sums = new double[3];
        if (island != null) {
            add(sums, how.population(), island.mean(), island.deviation());
        }
        for (Child child : children.values()) {
            if (child.told != null) {
                add(sums, child.told.count(), child.told.mean(), child.told.deviation());
            }
        }
        return sums;
    }

    private static void add(double[] sums, long count, double mean, double deviation) {
        sums[0] += count;
        sums[1] += count * mean;
        sums[2] += count * (mean * mean + deviation * deviation);
    }

    private static double deviation(double[] sums) {
        double mean = sums[1] / Math.max(1, sums[0]);
        return Math.sqrt(Math.max(0, sums[2] / Math.max(1, sums[0]) - mean * mean));
    }

    private String statistics() {
        double[] sums = sums();
        double mean = sums[1] / Math.max(1, sums[0]);
        double deviation = deviation(sums);
        return Double.isFinite(mean) && Double.isFinite(deviation) ? ",\"mean\":" + mean + ",\"deviation\":" + deviation : "";
    }

    private List<NodeStat> stats() {
        List<NodeStat> all = new ArrayList<>();
        all.add(new NodeStat(place, self().name(), isIsland(), own + (parent == null ? 0 : workOfLost), messages, bytes, faults));
        for (Child child : children.values()) {
            if (child.told != null) {
                all.addAll(child.told.stats());
            }
        }
        return all;
    }
}
