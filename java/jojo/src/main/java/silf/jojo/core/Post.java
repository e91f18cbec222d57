package silf.jojo.core;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import silf.jojo.JojoException;
import silf.jojo.NodeLostException;

/**
 * The messages of one node: its lanes in both directions, and what comes for it. Called by link readers, so nothing here
 * waits but {@link #answer}. Not in it: which link leads where, what handlers do.
 */
final class Post implements Inlane.Owner {
    static final int MESSAGES = 0;
    static final int FILES = 1;
    static final int OUTPUT = 2;
    static final int TREE = 3;

    /** What is done with messages, by lane; called by a link reader, must not wait, must call {@link #handedOn}. */
    interface Taker {
        void take(Arrived message);
    }

    private record To(Path path, int epoch, int lane) {}

    private record From(Path path, int epoch, int lane) {}

    private final Path here;
    private final int epoch;
    /** Where frames of a lane go, by its number and destination. */
    interface Routes {
        Route to(Path path, int lane);
    }

    private final Routes routes;
    private final Calls calls;
    private final Taker[] takers = new Taker[Frame.LANES];
    private final Map<To, Lane> lanes = new ConcurrentHashMap<>();
    private final Map<From, Inlane> inlanes = new ConcurrentHashMap<>();
    private final Gone gone;
    private final Senders senders;
    private final Budget budget;
    /** Frames of this node itself that were dropped, for whoever looks after a fault. */
    final java.util.concurrent.atomic.LongAdder dropped = new java.util.concurrent.atomic.LongAdder();

    Post(Path here, int epoch, Routes routes, Senders senders, Handlers handlers, UserClasses classes, Budget budget) {
        this.here = here;
        this.epoch = epoch;
        this.routes = routes;
        this.gone = new Gone(here);
        this.senders = senders;
        this.budget = budget;
        this.calls = new Calls(handlers, classes, call -> {
            Route route = routes.to(call.to, call.lane);
            Lane lane = route == null ? null : known(call.to, call.lane);
            if (lane != null) {
                route.send(Frame.routed(Frame.CANCEL, lane.field(), call.to, here, call.number));
            }
        });
    }

    void taker(int lane, Taker taker) {
        takers[lane] = taker;
    }

    Calls calls() {
        return calls;
    }

    private Lane known(Path to, int number) {
        for (Lane lane : lanes.values()) {
            if (lane.to.equals(to) && Frame.laneNumber(lane.field()) == number) {
                return lane;
            }
        }
        return null;
    }

    /** The lane to a place, in its state at {@code epochTo}. */
    Lane lane(Path to, String name, int epochTo, int number) throws NodeLostException {
        To key = new To(to, epochTo, number);
        Lane lane = lanes.get(key);
        if (lane == null) {
            synchronized (lanes) { // against reroute
                Route route = routes.to(to, number);
                if (route == null || gone.is(to, epochTo)) {
                    throw new NodeLostException(name, route == null ? "there is no way to it" : "it has ended");
                }
                Lane made = new Lane(to, name, epochTo, here, epoch, number, route);
                lane = lanes.putIfAbsent(key, made);
                lane = lane == null ? made : lane;
            }
        }
        return lane;
    }

    /** All lanes to a place, but for what goes by the tree always, take another route; then SWITCH is due on the old one. */
    void reroute(Path to, Route next) {
        synchronized (lanes) {
            for (Lane lane : lanes.values()) {
                if (lane.to.equals(to) && Frame.laneNumber(lane.field()) != TREE) {
                    lane.reroute(next);
                }
            }
        }
    }

    /** Answers a call on the lane that it came by. */
    void answer(Arrived call, int type, Object value) throws JojoException {
        Lane lane = lane(call.lane.from, call.lane.from.toString(), call.lane.epochFrom, call.lane.number);
        lane.send(type, call.call, 0, value);
    }

    /** The message is in good hands: its sender may send as much again. */
    void handedOn(Arrived message) {
        message.lane.handedOn(message);
    }

    /**
     * Takes a routed frame for this node. One that breaks a rule is dropped, and its link stays: whoever brought it may only
     * have passed it on.
     *
     * @param at behind the paths
     */
    void deliver(byte[] frame, Path from, int at) {
        try {
            take(frame, from, at);
        } catch (Violation e) {
            dropped.increment();
            noWay(frame, from, at);
        }
    }

    private void take(byte[] frame, Path from, int at) throws Violation {
        int type = Frame.type(frame);
        int field = Frame.lane(frame);
        int number = Frame.laneNumber(field);
        int epochFrom = Frame.epochFrom(field);
        if (type == Frame.NOWAY) {
            calls.noWay(Frame.number(frame, at));
            return;
        }
        if (Frame.epochTo(field) != epoch || gone.is(from, epochFrom)) {
            dropped.increment();
            noWay(frame, from, at);
            return;
        }
        switch (type) {
            case Frame.CREDIT -> {
                Lane lane = lanes.get(new To(from, epochFrom, number));
                long limit = Frame.number(frame, at);
                if (lane != null) {
                    lane.credit(limit);
                }
            }
            case Frame.CANCEL -> cancel.cancel(from, Frame.number(frame, at));
            case Frame.SWITCH -> switched.switched(from, Frame.number(frame, at));
            default -> message(frame, type, from, epochFrom, number, at);
        }
    }

    interface Switched {
        void switched(Path from, long token);
    }

    private volatile Switched switched = (from, token) -> {};

    void onSwitch(Switched switched) {
        this.switched = switched;
    }

    private volatile Consumer<Path> onLoss = lost -> {};

    /** Told of each subtree that is lost, last. */
    void onLoss(Consumer<Path> then) {
        onLoss = then;
    }

    /** Places that are remembered as gone: for tests. */
    int gone() {
        return gone.size();
    }

    interface Cancel {
        void cancel(Path from, long call);
    }

    private volatile Cancel cancel = (from, call) -> {};

    void onCancel(Cancel cancel) {
        this.cancel = cancel;
    }

    private void message(byte[] frame, int type, Path from, int epochFrom, int number, int at) throws Violation {
        From key = new From(from, epochFrom, number);
        Inlane lane = inlanes.get(key);
        if (lane == null) {
            if (!senders.begin(from)) {
                throw new Violation("messages from " + from + ", or from so many");
            }
            lane = new Inlane(from, epochFrom, number, here, epoch, this);
            inlanes.put(key, lane);
        }
        Arrived message = lane.take(frame, at, this::refuse);
        if (message == null) {
            return;
        }
        if (type == Frame.REPLY || type == Frame.FAIL) {
            handedOn(message);
            calls.answer(message);
        } else if (takers[number] == null) {
            handedOn(message);
            dropped.increment();
        } else {
            takers[number].take(message);
        }
    }

    /** A message that this JVM could not hold. */
    private void refuse(Arrived message) {
        JojoException why = new JojoException("a message of " + message.announced() + " bytes is too large here: "
                + budget.most_bytes() + " are the most with this heap (-Xmx)");
        if (message.type == Frame.CALL) {
            calls.handlers().submit(() -> {
                try {
                    answer(message, Frame.FAIL, Failures.write(why, here.toString()));
                } catch (JojoException e) {
                    // The caller is gone.
                }
            });
        } else if (message.type == Frame.REPLY || message.type == Frame.FAIL) {
            calls.refuse(message.call, message.lane.from, why);
        } else {
            System.err.println("jojo: node " + here + ": " + why.getMessage() + " (from node " + message.lane.from + ")");
        }
    }

    /** Says to the caller that a frame did not come to whom it was for; only a call's first frame is worth an answer. */
    void noWay(byte[] frame, Path from, int at) {
        if (Frame.type(frame) != Frame.CALL || (Frame.flags(frame) & Frame.FIRST) == 0 || frame.length - at < 8) {
            return;
        }
        int field = Frame.lane(frame);
        Route route = routes.to(from, Frame.laneNumber(field));
        if (route != null) {
            int back = Frame.laneField(Frame.laneNumber(field), Frame.epochFrom(field), epoch);
            route.send(Frame.routed(Frame.NOWAY, back, from, here, Frame.i64(frame, at)));
        }
    }

    /** A place and all below it are no more: who waits for it is told, and what it began is dropped. */
    void lose(Path lost, int epoch, NodeLostException why) {
        gone.add(lost, epoch);
        for (Map.Entry<To, Lane> entry : lanes.entrySet()) {
            if (lost.holds(entry.getKey().path()) && lanes.remove(entry.getKey(), entry.getValue())) {
                entry.getValue().lose(why);
            }
        }
        for (Map.Entry<From, Inlane> entry : inlanes.entrySet()) {
            From key = entry.getKey();
            if (lost.holds(key.path()) && inlanes.remove(key, entry.getValue())) {
                gone.add(key.path(), key.epoch());
                senders.ended(key.path());
                entry.getValue().lose();
            }
        }
        calls.lose(lost::holds, why);
        onLoss.accept(lost);
    }

    /** Ends all waits. */
    void close(NodeLostException why) {
        lose(Path.ROOT, -1, why);
    }

    @Override
    public int lanes() {
        return inlanes.size();
    }

    @Override
    public void credit(Inlane lane, byte[] frame) {
        Route route = routes.to(lane.from, lane.number);
        if (route != null) {
            route.send(frame);
        }
    }

    @Override
    public Budget budget() {
        return budget;
    }
}
