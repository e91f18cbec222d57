package silf.jojo.core;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.Serializable;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.util.List;
import java.util.Map;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;
import silf.jojo.config.NodeSpec;

/**
 * One node in this JVM: its links, its {@link Code}, and the order in which a program comes up, runs and ends (spec/jojo
 * J15 to J18). Link readers call it and never wait here. Not in it: how children are launched, what messages are made of.
 */
final class LocalNode implements Link.Owner, Glue.Seat {
    /** The property of a program that keeps siblings from looking for direct links, when it is "false". */
    static final String DIRECT = "jojo.direct";
    /** Beyond what handlers may take, for the nodes below to say that they are over. */
    private static final int BELOW_MOST_ms = 3_000;

    /** The node whose handler or start runs in a thread; for RemoteFileReader and the like. */
    private static final ThreadLocal<LocalNode> CURRENT = new InheritableThreadLocal<>();
    private static volatile LocalNode only;

    /** What a node has from outside. */
    interface Outside {
        /** Something a person should see. */
        void note(String text);

        /** What ends the program, at the client only. */
        default void report(Birth.Report report) {}

        /** A subtree below is lost, for who watches. Must not wait. */
        default void heard(Birth.Lost lost) {}

        /** This node and all below it have begun. */
        default void ready() {}

        /** All is done, and the nodes below are there yet. */
        default void ending() {}

        /** The parent is gone; this JVM has seconds (J17). */
        default void orphaned() {}
    }

    final Birth birth;
    final Path path;
    private final Link up;
    private final Family family;
    private final Handlers handlers;
    private final Post post;
    private final Inbox inbox;
    private final ClassStore store;
    private final UserClasses classes;
    private final Outside outside;
    private final Loopback loopback;
    private final Neighbours neighbours;
    private final LinkThread ticker;
    private final TreeCalls tree;
    /** Null but at the client. */
    private final Names names;
    private final Looks looks;
    private final Siblings direct;
    private final Intake intake;
    private volatile Code code;
    private volatile Thread starter;
    private volatile Runnable lastWords = () -> {};

    /** Guarded by this. */
    private final Course course = new Course();

    /**
     * The way to the parent.
     *
     * @param redial with {@code hello}, for a link that can be resumed; else null
     */
    record Up(Wire wire, FrameReader reader, Link.Redial redial, Hello hello) {}

    /** @param up null at the client */
    LocalNode(Birth birth, Up up, UserClasses classes, ClassStore store, Family.Start start,
            boolean virtually, Outside outside) {
        this.birth = birth;
        this.path = Path.parse(birth.path());
        this.classes = classes;
        this.store = store;
        this.outside = outside;
        this.handlers = new Handlers(birth.spec().name(), classes.loader(), virtually);
        this.post = new Post(path, birth.epoch(), this::route, new Senders(path, this::placesBelow), handlers, classes, Budget.ofThisJvm());
        this.inbox = new Inbox(this, post, handlers);
        this.loopback = new Loopback(frame -> post.deliver(frame, path, Frame.HEADER + 2 * path.size()));
        this.neighbours = new Neighbours(this);
        this.up = up == null ? null : new Link(up.wire(), up.reader(), this, up.redial(), up.hello());
        this.family = new Family(this, start);
        this.tree = new TreeCalls(this);
        this.names = up == null ? new Names(birth.spec()) : null;
        this.looks = new Looks(this);
        this.direct = new Siblings(this);
        this.intake = new Intake(this, post, family, neighbours, direct);
        post.onSwitch(direct::switched);
        post.taker(Post.MESSAGES, inbox::take);
        post.taker(Post.TREE, tree::take);
        this.ticker = new LinkThread(birth.spec().name() + " clock", this::tick);
        only = this;
    }

    /** Run when handlers have ended, before this node's own end is told. */
    void beforeGoodbye(Runnable words) {
        lastWords = words;
    }

    Post post() {
        return post;
    }

    ClassStore store() {
        return store;
    }

    UserClasses classes() {
        return classes;
    }

    Family family() {
        return family;
    }

    Handlers handlers() {
        return handlers;
    }

    Inbox inbox() {
        return inbox;
    }

    /** The node that the current thread works for; in a JVM of one node that one. */
    static LocalNode current() {
        LocalNode node = CURRENT.get();
        return node != null ? node : only;
    }

    void enter() {
        if (CURRENT.get() != this) {
            CURRENT.set(this);
        }
    }

    // -- the program -------------------------------------------------------------------------------------------------

    /**
     * Runs the node until the program, or this node's part in it, is over. In a platform thread.
     *
     * @return null when it ended in order, else why it did not
     */
    String run() throws InterruptedException {
        ticker.start();
        if (up != null) {
            up.open();
            up.watch(Link.silentWhileStarting_ns(birth.spec()));
        }
        family.startAll();
        starter = new Thread(this::program, "jojo start of " + birth.spec().name());
        starter.setDaemon(true);
        starter.setContextClassLoader(classes.loader());
        starter.start();
        synchronized (this) {
            while (course.runs()) {
                wait();
            }
        }
        if (lost() == null) {
            finish();
        }
        String why = lost();
        close(why);
        return why;
    }

    private void program() {
        enter();
        try {
            Code made = make();
            code = made;
            Glue.get().bind(made, this);
            familyChanged();
            made.init(birth.properties());
            inbox.open(made, Glue.get().ordered(made));
            synchronized (this) {
                course.initialised();
            }
            progress();
            synchronized (this) {
                while (!course.isGoing() && course.runs()) {
                    wait();
                }
                if (!course.isGoing()) {
                    return;
                }
            }
            made.start();
            synchronized (this) {
                course.started();
            }
            progress();
        } catch (Throwable e) {
            try {
                family.awaitExplained();
            } catch (InterruptedException i) {
                // The program ends.
            }
            synchronized (this) {
                if (!course.runs()) {
                    return; // it was interrupted, or its neighbours went first
                }
            }
            report(new Birth.Report(birth.spec().name(), ErrorCode.in("node " + birth.spec().name() + ": " + e, "node_failed"), trace(e), 1));
        }
    }

    private Code make() throws Throwable {
        String name = birth.spec().code();
        try {
            Object made = classes.find(name).getDeclaredConstructor().newInstance();
            if (made instanceof Code it) {
                return it;
            }
        } catch (ClassNotFoundException e) {
            throw new JojoException("the class " + name + " is not on the client's class path", e);
        } catch (NoSuchMethodException | IllegalAccessException | InstantiationException e) {
            throw new JojoException("the class " + name + " must be public, not abstract, not an inner class, and have a "
                    + "public constructor without arguments", e);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
        throw new JojoException("the class " + name + " is not a silf.jojo.Code");
    }

    static String trace(Throwable e) {
        StringWriter text = new StringWriter();
        e.printStackTrace(new PrintWriter(text, true));
        return text.toString().strip();
    }

    /** Something has changed; says READY, GO, DONE or END if that is what follows. */
    void progress() {
        List<Course.Step> steps;
        synchronized (this) {
            steps = course.next(family.allReady(), family.allDone());
            notifyAll();
        }
        for (Course.Step step : steps) {
            switch (step) {
                case READY -> ready();
                case DONE -> done();
                case NOT_DONE -> sendUp(doneFrame(0));
            }
        }
    }

    private void ready() {
        if (up == null) {
            go();
        } else {
            up.send(Frame.of(Frame.READY, 0, 0, 0));
            outside.ready();
        }
    }

    private void done() {
        if (up == null) {
            end(Course.HANDLERS_MOST_ms);
            return;
        }
        // What siblings were sent by other ways than this link is there before the end can be.
        direct.settled(() -> {
            boolean write;
            synchronized (this) {
                write = course.saidDone() && up.offer(doneFrame(1));
            }
            if (write) {
                up.work();
            }
        });
    }

    private static byte[] doneFrame(int is) {
        byte[] frame = Frame.of(Frame.DONE, 0, 0, 1);
        frame[Frame.HEADER] = (byte) is;
        return frame;
    }

    /** All are ready. */
    void go() {
        if (up != null) {
            up.watch(Link.SILENT_ns);
        }
        family.go();
        synchronized (this) {
            course.go();
            notifyAll();
        }
        progress();
    }

    /** The end of the program, at the client; elsewhere when END has come. */
    void end(int handlersMost_ms) {
        synchronized (this) {
            if (!course.end(handlersMost_ms)) {
                return;
            }
            notifyAll();
        }
        Thread thread = starter;
        if (thread != null) {
            thread.interrupt();
        }
    }

    /** J18, 6. */
    private void finish() throws InterruptedException {
        int grace_ms;
        synchronized (this) {
            grace_ms = course.grace_ms();
        }
        int left = handlers.awaitIdle(Deadline.in_ms(grace_ms));
        if (left > 0) {
            note(left + " handlers had not returned when the program ended");
        }
        outside.ending();
        family.end(grace_ms);
        Deadline below = Deadline.in_ms(grace_ms + BELOW_MOST_ms);
        synchronized (this) {
            while (!family.allGone() && !below.passed() && course.lost() == null) {
                wait(Math.max(1, below.left_ms()));
            }
        }
        if (up != null) {
            lastWords.run();
            up.goodbye(Link.OVER, "");
            up.drain(Deadline.in_ms(BELOW_MOST_ms));
        }
    }

    private void close(String lost) {
        synchronized (this) {
            course.over();
            notifyAll();
        }
        Thread thread = starter;
        if (thread != null) {
            thread.interrupt();
        }
        direct.close();
        family.close("the program has ended");
        NodeLostException why = new NodeLostException(birth.spec().name(), lost == null ? "the program has ended" : lost);
        post.close(why);
        store.close(why.getMessage());
        if (up != null) {
            up.close("over");
        }
        handlers.close();
    }

    private synchronized String lost() {
        return course.lost();
    }

    /** Something failed that must end the program. */
    void report(Birth.Report report) {
        if (up == null) {
            outside.report(report);
            end(Course.HANDLERS_MOST_FAILED_ms);
        } else {
            up.send(report.frame());
        }
    }

    void note(String text) {
        outside.note(text);
    }

    private void tick() {
        for (; ; ) {
            synchronized (this) {
                if (course.isOver()) {
                    return;
                }
                try {
                    wait(1000);
                } catch (InterruptedException e) {
                    return;
                }
            }
            long now = System.nanoTime();
            if (up != null) {
                up.tick(now);
            }
            family.tick(now);
            direct.tick(now);
        }
    }

    // -- frames ------------------------------------------------------------------------------------------------------

    private Route route(Path to, int lane) {
        Link straight = lane == Post.TREE || to.depth() != path.depth() ? null : direct.link(to);
        return straight != null ? straight : route(to);
    }

    /** Where frames for a place go by the tree; null if there is no way. */
    Route route(Path to) {
        if (to.depth() <= path.depth() || !path.holds(to)) {
            return to.equals(path) ? loopback : up;
        }
        return family.link(to.at(path.depth()));
    }

    /** What the configuration has at and below a child. */
    private int placesBelow(int rank) {
        Child child = family.child(rank);
        return child == null ? 0 : child.places;
    }

    void sendUp(byte[] frame) {
        if (up != null) {
            up.send(frame);
        }
    }

    @Override
    public void frame(Link link, byte[] frame) throws IOException {
        intake.frame(link, frame);
    }

    /** Whether it is the link to the parent. */
    boolean isUp(Link link) {
        return link == up;
    }

    private void gone(NodeHandle sibling, int epoch, String why) {
        direct.lose(sibling.path);
        post.lose(sibling.path, epoch, new NodeLostException(sibling.name(), why));
        sibling.down(why);
        left(sibling);
    }

    Siblings siblings() {
        return direct;
    }

    Looks looks() {
        return looks;
    }

    /** What went up; nothing at the client. */
    Sent sentUp() {
        return up == null ? Sent.NOTHING : up.sent();
    }

    /** A subtree below is lost. */
    void heard(Birth.Lost lost) {
        outside.heard(lost);
    }

    /** What the code shows to who watches; empty before it is there. */
    Map<String, ? extends Number> figures() {
        Code it = code;
        return it == null ? Map.of() : Glue.get().figures(it);
    }

    /** A first message goes to a place: a sibling is told directly from then on, where the network lets it. */
    void met(NodeHandle node) {
        if (up != null && node.path.isSibling(path) && !"false".equals(birth.properties().get(DIRECT))) {
            direct.want(node);
        }
    }

    @Override
    public void lost(Link link, Link.Loss loss) {
        if (link == up) {
            orphaned("the link to " + birth.parent() + " is lost: " + loss.text());
        } else if (link.peer instanceof Child child) {
            family.lost(child, link, loss.text());
        } else if (link.peer instanceof Siblings.Peer sibling && !sibling.lost) {
            // Not even the tree could mend it: the sibling is as good as gone, for this node.
            gone(sibling.node, sibling.epoch, "the direct link to it is lost: " + loss.text());
        }
    }

    @Override
    public void explained(Link link, Link.Loss loss) {
        if (link.peer instanceof Child child) {
            family.explained(child, link, loss.text());
        }
    }

    /** The way up is no more. */
    void orphaned(String why) {
        synchronized (this) {
            if (!course.lose(why)) {
                return;
            }
            notifyAll();
        }
        outside.orphaned();
        store.close(why);
        post.close(new NodeLostException(birth.parent(), why));
    }

    // -- the family --------------------------------------------------------------------------------------------------

    /** Whether {@code start} may run. */
    synchronized boolean isGoing() {
        return course.isGoing();
    }

    /** Shows the code its neighbours as they are now. */
    void familyChanged() {
        Code it = code;
        if (it != null) {
            Glue.get().family(it, neighbours.parent, neighbours.siblings(), family.nodes(), path.rank());
        }
    }

    void joined(NodeHandle node, boolean late) {
        familyChanged();
        if (late) {
            inbox.submit(() -> upcall("nodeJoined", () -> code.nodeJoined(node)));
        }
    }

    void left(NodeHandle node) {
        if (code != null) {
            inbox.submit(() -> upcall("nodeLost", () -> code.nodeLost(node)));
        }
    }

    private interface Upcall {
        void run() throws Exception;
    }

    private void upcall(String name, Upcall call) {
        enter();
        try {
            call.run();
        } catch (Throwable e) {
            note(name + " ended with " + trace(e));
        }
    }

    Neighbours neighbours() {
        return neighbours;
    }

    @Override
    public Node self() {
        return neighbours.self;
    }

    @Override
    public void broadcast(Message msg) throws JojoException {
        tree.broadcast(msg);
    }

    @Override
    public List<Object> gather(Message msg) throws JojoException {
        return tree.gather(msg);
    }

    @Override
    public Object reduce(Message msg, Serializable combine) throws JojoException {
        return tree.reduce(msg, combine);
    }

    @Override
    public Node find(String name) throws JojoException {
        return tree.find(name);
    }

    /** Names for nodes that are to join: from now on theirs, if nobody in the tree has one of them. */
    void take(List<String> fresh) throws JojoException {
        if (names != null) {
            names.take(fresh);
        } else {
            neighbours.client.call(Post.TREE, Names.ASK, fresh).touch();
        }
    }

    /** Of a node below. */
    void takeFor(Object fresh) throws JojoException {
        if (names == null) {
            throw new JojoException("names are asked of the client");
        }
        names.take(fresh);
    }

    @Override
    public Node join(NodeSpec spec) throws JojoException {
        return family.join(spec);
    }

    @Override
    public void leave(Node node) throws JojoException {
        family.leave(node);
    }

    Object handleHere(Message msg) throws Exception {
        return code.handle(msg);
    }

    Map<String, String> properties() {
        return birth.properties();
    }
}
