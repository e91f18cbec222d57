package silf.jpop.bb;

import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicInteger;

/** Another problem, with something that happens at some of its branchings. Only where all nodes are in one JVM. */
public record Slow<S>(Problem<S> inner, int number) implements Problem<S> {
    private static final long serialVersionUID = 1;

    /** What is done, by the problem's number. */
    static final java.util.Map<Integer, java.util.function.IntConsumer> AT = new java.util.concurrent.ConcurrentHashMap<>();
    static final java.util.Map<Integer, AtomicInteger> COUNT = new java.util.concurrent.ConcurrentHashMap<>();
    private static final AtomicInteger NUMBERS = new AtomicInteger();

    /** @param at called with the count of branchings so far, at each of them */
    public static <S> Slow<S> of(Problem<S> inner, java.util.function.IntConsumer at) {
        Slow<S> slow = new Slow<>(inner, NUMBERS.incrementAndGet());
        AT.put(slow.number, at);
        COUNT.put(slow.number, new AtomicInteger());
        return slow;
    }

    @Override
    public boolean maximises() {
        return inner.maximises();
    }

    @Override
    public S root() {
        return inner.root();
    }

    @Override
    public List<S> branch(S state) {
        AT.get(number).accept(COUNT.get(number).incrementAndGet());
        return inner.branch(state);
    }

    @Override
    public long bound(S state) {
        return inner.bound(state);
    }

    @Override
    public OptionalLong value(S state) {
        return inner.value(state);
    }

    @Override
    public String show(S state) {
        return inner.show(state);
    }
}
