package silf.jojo.core;

import java.util.SplittableRandom;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import silf.jojo.JojoException;
import silf.jojo.NodeLostException;

/** Calls of one node that wait for answers, and what answers mean. Not in it: sending. */
final class Calls {
    /** Begins anywhere, so that an answer to an earlier incarnation's call is nobody's. */
    private static final AtomicLong NEXT = new AtomicLong(new SplittableRandom().nextLong() >>> 1);

    interface Canceller {
        void cancel(PendingCall call);
    }

    private final Map<Long, PendingCall> pending = new ConcurrentHashMap<>();
    private final Handlers handlers;
    private final UserClasses classes;
    private final Canceller canceller;

    Calls(Handlers handlers, UserClasses classes, Canceller canceller) {
        this.handlers = handlers;
        this.classes = classes;
        this.canceller = canceller;
    }

    /** Unused so far, and not 0. */
    static long number() {
        long number = NEXT.incrementAndGet();
        return number == 0 ? NEXT.incrementAndGet() : number;
    }

    Handlers handlers() {
        return handlers;
    }

    PendingCall begin(Path to, String name, int lane) {
        PendingCall call = new PendingCall(this, number(), to, name, lane);
        pending.put(call.number, call);
        return call;
    }

    /** It could not even be sent. */
    void unsent(PendingCall call) {
        pending.remove(call.number);
    }

    /** A REPLY or FAIL; one that nobody waits for (any more) is dropped, as is one from somebody else than was called. */
    void answer(Arrived message) {
        PendingCall call = pending.get(message.call);
        if (call != null && call.to.equals(message.lane.from) && pending.remove(message.call, call)) {
            call.answered(message);
        }
    }

    /** The answer is too large for this JVM. */
    void refuse(long number, Path from, JojoException why) {
        PendingCall call = pending.get(number);
        if (call != null && call.to.equals(from) && pending.remove(number, call)) {
            call.failed(why);
        }
    }

    void noWay(long number) {
        PendingCall call = pending.remove(number);
        if (call != null) {
            call.failed(new NodeLostException(call.name, "there was no way to it"));
        }
    }

    /** Ends all calls to places that {@code gone} says are no more. */
    void lose(Predicate<Path> gone, NodeLostException why) {
        for (PendingCall call : pending.values()) {
            if (gone.test(call.to) && pending.remove(call.number, call)) {
                call.failed(why.again());
            }
        }
    }

    boolean giveUp(PendingCall call, JojoException why) {
        if (!pending.remove(call.number, call)) {
            return false;
        }
        call.failed(why);
        canceller.cancel(call);
        return true;
    }

    Object decode(Arrived message, String name) throws JojoException {
        Object value = message.value(classes, "node " + name);
        if (message.type == Frame.FAIL) {
            throw Failures.read(value, name, classes);
        }
        return value;
    }

    int size() {
        return pending.size();
    }
}
