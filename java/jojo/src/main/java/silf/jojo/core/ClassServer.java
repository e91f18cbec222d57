package silf.jojo.core;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Classes for one child: what it wants, with what that refers to, each once and before the child can know that it needs it
 * (spec/jojo J8). Runs in platform threads, which children's class loading waits for.
 */
final class ClassServer {
    /** What goes along with one answer: half a second at 1 MB/s. More comes with the next want. */
    private static final int AHEAD_MOST = 512 << 10;

    private static final ExecutorService THREADS = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work, "jojo classes");
        thread.setDaemon(true);
        return thread;
    });

    private final ClassStore store;
    private final Link link;
    // Guarded by this.
    private final ArrayDeque<Runnable> work = new ArrayDeque<>();
    private boolean working;
    // Of the one thread at work.
    private final Set<String> sent = new HashSet<>();
    /** Hashes of what the child has from earlier runs. */
    private final Set<Long> held = new HashSet<>();

    ClassServer(ClassStore store, Link link) {
        this.store = store;
        this.link = link;
    }

    private void submit(Runnable task) {
        synchronized (this) {
            work.add(task);
            if (working) {
                return;
            }
            working = true;
        }
        THREADS.execute(this::run);
    }

    private void run() {
        for (; ; ) {
            Runnable task;
            synchronized (this) {
                task = work.poll();
                if (task == null) {
                    working = false;
                    return;
                }
            }
            task.run();
        }
    }

    /** Sends these and what they refer to, unasked; what is not here already is not looked for above. */
    void push(List<String> names) {
        submit(() -> send(names));
    }

    /** What the child has from earlier runs. */
    void holds(long[] hashes) {
        submit(() -> {
            for (long hash : hashes) {
                held.add(hash);
            }
        });
    }

    /** The child asks; {@code bytes}: it does not have what it said it held. */
    void want(String name, boolean bytes) {
        if (bytes) {
            submit(() -> held.remove(store.hash(name)));
        }
        store.want(name, new ClassStore.Waiter(
                blob -> submit(() -> {
                    sent.remove(name); // asked for is asked for
                    send(List.of(name));
                }),
                why -> submit(() -> {
                    Blobs.Writer writer = new Blobs.Writer(link::send);
                    writer.unavailable(name, why);
                    writer.flush();
                })));
    }

    /** Breadth first, then written backwards: what is nearest to the wanted comes last, the wanted at the very end. */
    private void send(List<String> names) {
        Map<String, Blob> along = new LinkedHashMap<>();
        ArrayDeque<String> next = new ArrayDeque<>(names);
        int room = AHEAD_MOST;
        while (!next.isEmpty() && (room > 0 || along.size() < names.size())) {
            String name = next.poll();
            if (along.containsKey(name) || sent.contains(name)) {
                continue;
            }
            boolean asked = names.contains(name);
            Blob blob = asked ? store.ahead(name) : room > 0 ? store.ahead(name) : null;
            if (blob == null || blob.absent() && !asked) {
                continue;
            }
            along.put(name, blob);
            if (!blob.absent()) {
                room -= isHeld(blob) ? name.length() : blob.bytes().length;
                if (name.endsWith(".class")) {
                    next.addAll(References.of(blob.bytes()));
                }
            }
        }
        List<Blob> order = new ArrayList<>(along.values());
        Blobs.Writer writer = new Blobs.Writer(link::send);
        for (int i = order.size() - 1; i >= 0; i--) {
            Blob blob = order.get(i);
            if (!blob.absent()) {
                sent.add(blob.name()); // absent ones go to who asks, and a child can ask for any number
            }
            if (isHeld(blob)) {
                writer.held(blob);
            } else {
                writer.add(blob);
            }
            try {
                link.awaitRoom();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        writer.flush();
    }

    private boolean isHeld(Blob blob) {
        return !blob.absent() && blob.hash() != 0 && held.contains(blob.hash());
    }
}
