package silf.jojo.core;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** The route from a node to itself: frames are delivered by whoever offers them, one after the other. */
final class Loopback implements Route {
    private final ConcurrentLinkedQueue<byte[]> arrived = new ConcurrentLinkedQueue<>();
    private final AtomicInteger owed = new AtomicInteger();
    private final Consumer<byte[]> deliver;

    Loopback(Consumer<byte[]> deliver) {
        this.deliver = deliver;
    }

    @Override
    public boolean offer(byte[] frame) {
        arrived.add(frame);
        return owed.getAndIncrement() == 0;
    }

    @Override
    public void work() {
        for (int seen = owed.get(); seen != 0; seen = owed.addAndGet(-seen)) {
            for (byte[] frame; (frame = arrived.poll()) != null; ) {
                deliver.accept(frame);
            }
        }
    }

    @Override
    public void awaitRoom() {}
}
