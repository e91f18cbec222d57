package silf.jojo.core;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import silf.jojo.JojoException;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FaultPolicy;

/**
 * The children of a node: starting them, what is done when one is lost (spec/jojo J16, J18), and who of them is ready or
 * done. Not in it: messages, what the node itself runs.
 */
final class Family {
    /** Parents start so many at a time: sshd drops connections that are more (MaxStartups 10). */
    private static final int STARTS_AT_A_TIME = 8;
    /** Between a place's first epochs below two incarnations of this node. Odd: all differ; large: it counts on with each start of its own. */
    private static final int EPOCH_STEP = 37;
    /** Twice what a command may take to be known to have ended. */
    private static final int EXPLAINED_MOST_ms = 2_000;
    /** Siblings in one frame: names are at most 253 bytes where they are hosts'. */
    private static final int FAMILY_MOST = 200;

    /** How this node launches; its opening ends with START. */
    interface Start {
        Wire start(NodeSpec spec, byte[] birth, Deadline deadline) throws JojoException, IOException;
    }

    private final LocalNode here;
    private final Start start;
    private final Semaphore starting = new Semaphore(STARTS_AT_A_TIME);
    private final SplittableRandom random;
    // Guarded by this.
    private final List<Child> children = new ArrayList<>();
    private final Deque<NodeSpec> spares = new ArrayDeque<>();
    private boolean going;
    private boolean ending;
    private long faults;
    private int unexplained;
    private volatile Child[] byRank = {};
    /** Null until there is something to do later: a leaf never has any. */
    private ScheduledThreadPoolExecutor later;

    Family(LocalNode here, Start start) {
        this.here = here;
        this.start = start;
        this.random = new SplittableRandom(here.birth.seed());
        for (NodeSpec spec : here.birth.spec().children()) {
            if (spec.spare()) {
                spares.add(spec);
            } else {
                add(spec);
            }
        }
    }

    private synchronized Child add(NodeSpec spec) {
        Path path = here.path.child(children.size());
        int epoch = EPOCH_STEP * here.birth.epoch() % Frame.EPOCHS;
        Child child = new Child(spec, new NodeHandle(here, path, spec.name(), epoch, false));
        children.add(child);
        byRank = children.toArray(Child[]::new);
        return child;
    }

    /** By rank; null where there is none. */
    Child child(int rank) {
        Child[] now = byRank;
        return rank < now.length ? now[rank] : null;
    }

    Node[] nodes() {
        Child[] now = byRank;
        Node[] nodes = new Node[now.length];
        for (int i = 0; i < nodes.length; i++) {
            nodes[i] = now[i].handle;
        }
        return nodes;
    }

    Child[] all() {
        return byRank;
    }

    /** The link to a child that is up, or coming. */
    synchronized Link link(int rank) {
        Child child = child(rank);
        return child == null || child.state == Child.State.AGAIN || child.state == Child.State.GONE ? null : child.link;
    }

    private synchronized ScheduledThreadPoolExecutor later() {
        if (later == null) {
            // What is asked for after the end is not done.
            later = new ScheduledThreadPoolExecutor(
                    1, work -> new LinkThread("family", work), new ThreadPoolExecutor.DiscardPolicy());
            if (ending) {
                later.shutdown();
            }
        }
        return later;
    }

    // -- coming up ---------------------------------------------------------------------------------------------------

    void startAll() {
        for (Child child : all()) {
            launch(child);
        }
    }

    /** A new place behind the others, while the program runs. */
    Node join(NodeSpec spec) throws JojoException {
        String unfit = spec.unfit();
        int depth = here.path.depth() + 1 + spec.depth();
        if (unfit == null && depth > Path.DEPTH_MOST) {
            unfit = "the tree would be " + depth + " levels deep, " + Path.DEPTH_MOST + " are the most";
        }
        if (unfit != null) {
            throw new JojoException(spec.name() + " cannot join: " + unfit);
        }
        here.take(Names.of(spec));
        Child child;
        synchronized (this) {
            if (ending || children.size() > Path.RANK_MOST) {
                throw new JojoException(
                        (ending ? "the program is ending: " : "there are " + children.size() + " nodes below this one: ")
                                + spec.name() + " cannot join");
            }
            child = add(spec);
        }
        here.familyChanged();
        launch(child);
        return child.handle;
    }

    /** A place is given up on purpose. */
    void leave(Node node) throws JojoException {
        Child child = node instanceof NodeHandle handle ? child(handle.rank()) : null;
        if (child == null || child.handle != node) {
            throw new JojoException(node.name() + " is not directly below this node");
        }
        Link link;
        boolean told;
        synchronized (this) {
            told = child.state == Child.State.LOST;
            child.state = Child.State.GONE;
            link = child.link;
        }
        if (link != null) {
            link.goodbye(Link.GIVEN_UP, "left");
        }
        if (!told) {
            gone(child, "it left");
        }
    }

    private void launch(Child child) {
        Thread thread = new Thread(() -> {
            boolean held = false;
            try {
                starting.acquire();
                held = true;
                bringUp(child);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } catch (JojoException | IOException | RuntimeException e) {
                failed(child, false, e.getMessage() == null ? e.toString() : e.getMessage());
            } finally {
                if (held) {
                    starting.release();
                }
            }
        }, "jojo start " + child);
        thread.setDaemon(true);
        thread.start();
    }

    private void bringUp(Child child) throws JojoException, IOException {
        NodeSpec spec;
        int epoch;
        synchronized (this) {
            if (ending || child.state == Child.State.GONE) {
                return;
            }
            spec = child.launched();
            epoch = child.epoch;
        }
        Deadline deadline = Deadline.in_ms(spec.invocation().launchMost_ms());
        List<Birth.Sibling> siblings = new ArrayList<>();
        for (Child each : all()) {
            siblings.add(each == child
                    ? new Birth.Sibling(child.handle.rank(), child.place.name(), epoch, true)
                    : sibling(each));
        }
        Birth birth = new Birth(
                child.path.toString(), epoch, random.nextLong(), spec, here.birth.spec().name(), here.birth.epoch(), siblings,
                here.birth.properties());
        Wire wire = start.start(spec, birth.bytes(), deadline);
        Link link = Resumption.toChild(wire, spec, here.birth.properties(), here);
        synchronized (this) {
            if (ending || child.state == Child.State.GONE) {
                wire.close();
                return;
            }
            link.peer = child;
            child.link = link;
            child.greeted = false;
            child.done = false;
            child.going = false;
            child.classes = new ClassServer(here.store(), link);
        }
        if (!cached()) {
            // What it will need is on its way before it has said a word.
            child.classes.push(codesOf(spec, new ArrayList<>()));
        }
        link.open();
        later().schedule(() -> {
            if (!child.greeted && child.link == link) {
                link.close("said nothing within " + spec.invocation().launchMost_ms() + " ms");
            }
        }, deadline.left_ms(), TimeUnit.MILLISECONDS);
    }

    private static List<String> codesOf(NodeSpec spec, List<String> into) {
        String name = spec.code().replace('.', '/') + ".class";
        if (!into.contains(name)) {
            into.add(name);
        }
        for (NodeSpec child : spec.children()) {
            codesOf(child, into);
        }
        return into;
    }

    /** Whether nodes keep blobs: then they are told what to hold once they have said what they have. */
    private boolean cached() {
        return BlobCache.isAsked(here.birth.properties());
    }

    void greeted(Child child, Hello hello) {
        if (cached()) {
            child.classes.holds(hello.held());
            child.classes.push(codesOf(child.launched(), new ArrayList<>()));
        }
        child.link.session(hello);
        child.greeted = true;
        child.link.watch(Link.silentWhileStarting_ns(child.launched()));
    }

    void ready(Child child) {
        boolean again;
        synchronized (this) {
            if (child.state != Child.State.COMING) {
                return;
            }
            // Before all can be seen to be ready: the program may start in another thread at that moment.
            child.handle.up(child.place.name(), child.epoch);
            child.state = Child.State.READY;
            again = going;
            child.going = going;
        }
        if (again) {
            family(List.of(all())).forEach(frame -> send(child, frame));
            go(child);
            sendAll(Birth.familyFrame(List.of(sibling(child))), child);
        }
        here.joined(child.handle, again);
        here.progress();
    }

    private Birth.Sibling sibling(Child child) {
        return new Birth.Sibling(child.handle.rank(), child.handle.name(), child.handle.epoch(), child.handle.alive());
    }

    /** FAMILY frames that say how these are. */
    private List<byte[]> family(List<Child> of) {
        List<byte[]> frames = new ArrayList<>();
        for (int from = 0; from < of.size(); from += FAMILY_MOST) {
            frames.add(Birth.familyFrame(
                    of.subList(from, Math.min(of.size(), from + FAMILY_MOST)).stream().map(this::sibling).toList()));
        }
        return frames;
    }

    /** To one that has been launched. */
    private void send(Child child, byte[] frame) {
        Link link = link(child.handle.rank());
        if (link != null) {
            link.send(frame);
        }
    }

    /** To all but one. */
    void sendAll(byte[] frame, Child except) {
        for (Child child : all()) {
            if (child != except) {
                send(child, frame);
            }
        }
    }

    void go() {
        List<Child> ready = new ArrayList<>();
        synchronized (this) {
            going = true;
            for (Child child : children) {
                if (child.state == Child.State.READY && !child.going) {
                    child.going = true;
                    ready.add(child);
                }
            }
        }
        // Before GO, in one piece: news of each to each would be a square.
        List<byte[]> news = family(ready);
        for (Child child : ready) {
            news.forEach(frame -> send(child, frame));
            go(child);
        }
    }

    /** Until here its silence was that of one who starts (J16). */
    private void go(Child child) {
        Link link = link(child.handle.rank());
        if (link != null) {
            link.watch(Link.SILENT_ns);
            link.send(Frame.of(Frame.GO, 0, 0, 0));
        }
    }

    // -- loss --------------------------------------------------------------------------------------------------------

    /** A link to a child has ended: who waits for it is told, before anybody looks into why. */
    void lost(Child child, Link link, String why) {
        boolean wasUp;
        synchronized (this) {
            if (child.link != link) {
                return; // of an earlier incarnation
            }
            wasUp = child.state == Child.State.READY && !ending;
            if (wasUp) {
                child.state = Child.State.LOST;
                faults++;
            }
            child.link = null;
            child.lost = link;
            child.wasUp = wasUp;
            unexplained++;
            child.done = false;
        }
        if (wasUp) {
            gone(child, why);
        }
        here.progress();
    }

    /** What is known about its end by now: the policy says what follows. */
    void explained(Child child, Link link, String why) {
        boolean wasUp;
        synchronized (this) {
            if (child.lost != link) {
                return;
            }
            child.lost = null;
            wasUp = child.wasUp;
        }
        failed(child, wasUp, why);
        synchronized (this) {
            unexplained--;
            notifyAll();
        }
    }

    /** Waits a moment for what is being looked into: a policy that ends the program says why, and better than who waited for the lost. */
    synchronized void awaitExplained() throws InterruptedException {
        for (Deadline most = Deadline.in_ms(EXPLAINED_MOST_ms); unexplained > 0 && !most.passed(); ) {
            wait(Math.max(1, most.left_ms()));
        }
    }

    private void failed(Child child, boolean wasUp, String why) {
        FaultPolicy policy = child.place.faults();
        Runnable next = null;
        String end = null;
        synchronized (this) {
            if (ending || child.state == Child.State.GONE) {
                child.state = Child.State.GONE;
                why = null;
            } else {
                switch (policy.kind()) {
                    case GO_ON -> child.state = Child.State.GONE;
                    case FAIL -> {
                        child.state = Child.State.GONE;
                        end = why;
                    }
                    case SPARE -> {
                        NodeSpec spare = spares.poll();
                        if (spare == null) {
                            child.state = Child.State.GONE;
                            end = why + "; no spare is left";
                        } else {
                            child.spec = spare;
                            child.state = Child.State.AGAIN;
                            next = () -> again(child);
                        }
                    }
                    case RESTART -> {
                        long now = System.nanoTime();
                        child.restarts.removeIf(at -> now - at > policy.within_ms() * 1_000_000);
                        if (child.restarts.size() >= policy.restartsMost()) {
                            child.state = Child.State.GONE;
                            end = why + "; it was started again " + child.restarts.size() + " times";
                        } else {
                            long pause = policy.pause_ms(child.restarts.size());
                            child.restarts.add(now);
                            child.state = Child.State.AGAIN;
                            next = () -> later().schedule(() -> again(child), pause, TimeUnit.MILLISECONDS);
                        }
                    }
                }
            }
        }
        if (why == null) {
            here.progress();
            return;
        }
        if (end == null) {
            here.note("node " + child + (wasUp ? " is lost: " : " did not come up: ") + why);
        }
        if (end != null) {
            here.report(new Birth.Report(child.place.name(),
                    wasUp ? ErrorCode.in("node " + child + " is lost: " + end, "node_lost") : "node " + child + " did not come up: " + end,
                    "", 1));
        }
        if (next != null) {
            next.run();
        }
        here.progress();
    }

    private void again(Child child) {
        synchronized (this) {
            if (ending || child.state != Child.State.AGAIN) {
                return;
            }
            child.state = Child.State.COMING;
            child.epoch = (child.epoch + 1) % Frame.EPOCHS;
        }
        launch(child);
    }

    private void gone(Child child, String why) {
        child.handle.down(why);
        Birth.Lost lost = new Birth.Lost(child.path.toString(), child.epoch, child.place.name(), why);
        here.post().lose(child.path, child.epoch, new NodeLostException(child.place.name(), why));
        byte[] frame = lost.frame();
        here.sendUp(frame);
        sendAll(frame, child);
        here.heard(lost);
        here.left(child.handle);
    }

    /** Children that were lost since this node began, for who watches. */
    synchronized long faults() {
        return faults;
    }

    /** Of each child, for who watches: name, state, and what was sent to it. */
    synchronized List<Object> looks() {
        List<Object> looks = new ArrayList<>();
        for (Child child : children) {
            Sent sent = child.link == null ? Sent.NOTHING : child.link.sent();
            looks.add(TreeValue.list(child.handle.name(), child.state.shown, sent.messages(), sent.bytes()));
        }
        return looks;
    }

    // -- progress ----------------------------------------------------------------------------------------------------

    /** All are up, or given up. */
    synchronized boolean allReady() {
        for (Child child : children) {
            if (child.state != Child.State.READY && child.state != Child.State.GONE) {
                return false;
            }
        }
        return true;
    }

    synchronized boolean allDone() {
        for (Child child : children) {
            if (child.state != Child.State.GONE && !(child.state == Child.State.READY && child.done)) {
                return false;
            }
        }
        return true;
    }

    synchronized void done(Child child, boolean is) {
        child.done = is;
    }

    /** Tells all to end; none is started any more. */
    void end(int handlersMost_ms) {
        synchronized (this) {
            ending = true;
        }
        byte[] frame = Frame.of(Frame.END, 0, 0, 4);
        Frame.put32(frame, Frame.HEADER, handlersMost_ms);
        sendAll(frame, null);
    }

    synchronized boolean allGone() {
        for (Child child : children) {
            if (child.link != null) {
                return false;
            }
        }
        return true;
    }

    /** Whoever is left is ended by its link. */
    void close(String why) {
        List<Link> links = new ArrayList<>();
        synchronized (this) {
            ending = true;
            for (Child child : children) {
                if (child.link != null) {
                    links.add(child.link);
                }
            }
        }
        links.forEach(link -> link.close(why));
        ScheduledThreadPoolExecutor clock;
        synchronized (this) {
            clock = later;
        }
        if (clock != null) {
            clock.shutdownNow();
        }
    }

    void tick(long now_ns) {
        for (Child child : all()) {
            Link link = child.link;
            if (link != null) {
                link.tick(now_ns);
            }
        }
    }
}
