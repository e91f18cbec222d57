package silf.jojo.core;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * Classes and resources at one node (spec/jojo J8): what it has, whom it asks for what it has not, and who waits. Wants for
 * the same name are one want. Not in it: defining classes, serving children.
 */
final class ClassStore implements Blobs.Taker {
    /** Where a store gets what it does not have. */
    interface Above {
        /** Asks; the answer comes by {@link #blob} or {@link #unavailable}, in another thread or this one. */
        void want(String name, ClassStore store);

        /** The same for what was said to be held here and is not: the bytes themselves. */
        default void wantBytes(String name, ClassStore store) {
            want(name, store);
        }

        /** What is there without asking anybody; null if nothing is. May read files. */
        default Blob now(String name) {
            return null;
        }
    }

    /** The number in a WANT that is for bytes (J8). */
    static final int BYTES = 1;
    /** A library that looks for its plug-ins asks for hundreds. */
    private static final int ABSENT_MOST = 16_384;

    private final Above above;
    private final BlobCache cache;
    private final Map<String, Blob> known = new ConcurrentHashMap<>();
    private final AtomicInteger absent = new AtomicInteger();
    /** Whoever waits for a name gets a blob, or a text that says why there is none just now. Guarded by itself. */
    private final Map<String, List<Waiter>> waiting = new HashMap<>();
    private final Blobs.Reader reader = new Blobs.Reader(this);
    private volatile String closed;

    record Waiter(Consumer<Blob> blob, Consumer<String> unavailable) {}

    ClassStore(Above above) {
        this(above, null);
    }

    /** @param cache null where none is kept */
    ClassStore(Above above, BlobCache cache) {
        this.above = above;
        this.cache = cache;
    }

    /** Of what is here; else 0. */
    long hash(String name) {
        Blob blob = known.get(name);
        return blob == null ? 0 : blob.hash();
    }

    /** Null if it is not here. */
    Blob have(String name) {
        return known.get(name);
    }

    /** What is here, or is here for the taking, to be sent ahead; else null. */
    Blob ahead(String name) {
        Blob blob = known.get(name);
        if (blob == null) {
            blob = above.now(name);
            if (blob != null) {
                known.put(name, blob);
            }
        }
        return blob;
    }

    /** BLOBS from the parent; by the link's reader. */
    void frame(byte[] frame) throws Violation {
        reader.frame(frame);
    }

    @Override
    public void blob(Blob blob) {
        if (cache != null && !blob.absent() && blob.hash() != 0) {
            cache.put(blob);
        }
        here(blob);
    }

    @Override
    public void held(String name, long hash, int size) throws Violation {
        if (cache == null) {
            Blobs.Taker.super.held(name, hash, size);
            return;
        }
        cache.get(hash, size, bytes -> {
            if (bytes != null) {
                here(new Blob(name, bytes, hash));
            } else {
                above.wantBytes(name, this);
            }
        });
    }

    private void here(Blob blob) {
        // A child may ask for any number of names that are none; what is not remembered is asked for again.
        if (!blob.absent() || absent.incrementAndGet() <= ABSENT_MOST) {
            known.put(blob.name(), blob);
        }
        List<Waiter> waiters;
        synchronized (waiting) {
            waiters = waiting.remove(blob.name());
        }
        if (waiters != null) {
            waiters.forEach(waiter -> waiter.blob().accept(blob));
        }
    }

    @Override
    public void unavailable(String name, String why) {
        List<Waiter> waiters;
        synchronized (waiting) {
            waiters = waiting.remove(name);
        }
        if (waiters != null) {
            waiters.forEach(waiter -> waiter.unavailable().accept(why));
        }
    }

    /** Has a waiter told, now or later. Does not wait. */
    void want(String name, Waiter waiter) {
        Blob blob = known.get(name);
        boolean first = false;
        if (blob == null && closed == null) {
            synchronized (waiting) {
                blob = known.get(name);
                if (blob == null) {
                    List<Waiter> waiters = waiting.get(name);
                    first = waiters == null;
                    if (first) {
                        waiters = new ArrayList<>();
                        waiting.put(name, waiters);
                    }
                    waiters.add(waiter);
                }
            }
        }
        if (blob != null) {
            waiter.blob().accept(blob);
        } else if (closed != null) {
            unavailable(name, closed);
            waiter.unavailable().accept(closed);
        } else if (first) {
            above.want(name, this);
        }
    }

    /**
     * The blob, waited for. An interrupt does not end the wait, for a class that failed to load would be lost for good;
     * it is kept for later.
     *
     * @throws Unavailable if it cannot be had just now
     */
    Blob get(String name) {
        Blob have = known.get(name);
        if (have != null) {
            return have;
        }
        // A monitor, not a lock of java.util.concurrent: see Threads.
        Object[] answer = new Object[1];
        want(name, new Waiter(blob -> tell(answer, blob), why -> tell(answer, why)));
        boolean interrupted = false;
        synchronized (answer) {
            while (answer[0] == null) {
                try {
                    answer.wait();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (answer[0] instanceof Blob blob) {
            return blob;
        }
        throw new Unavailable(name + " could not be had from the client: " + answer[0]);
    }

    private static void tell(Object[] answer, Object what) {
        synchronized (answer) {
            answer[0] = what;
            answer.notifyAll();
        }
    }

    /** The way up is no more. */
    void close(String why) {
        closed = why;
        List<String> names;
        synchronized (waiting) {
            names = new ArrayList<>(waiting.keySet());
        }
        names.forEach(name -> unavailable(name, why));
    }
}
