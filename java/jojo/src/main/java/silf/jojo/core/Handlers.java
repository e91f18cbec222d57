package silf.jojo.core;

import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads for handlers: each task has one from when it begins to its end. Virtual ones where they are good ({@link Threads});
 * else a pool that grows while tasks wait and none begins, so that handlers that block do not hold up others, and that
 * does not grow for a flood of short ones. Tasks above a cap wait, unpaid, so that senders do.
 */
final class Handlers {
    /** Handlers at a time: more would not be concurrency but a queue, and each costs a stack. */
    static final int HANDLERS_MOST = 10_000;
    /** Threads that are there whatever tasks do. */
    private static final int USUAL = 2 * Runtime.getRuntime().availableProcessors();
    /** No task has begun for so long: those that have are taken to block, and there must be more threads. */
    private static final long STALL_ns = 500_000;
    /** A handler up to here is quick: its link's reader may run it. */
    private static final long QUICK_ns = 1_000_000;
    /** After one that was not, readers run none for a while: at first for so long, for twice as long with each more. */
    private static final long PAUSE_LEAST_ns = 1_000_000;

    private static final long PAUSE_MOST_ns = 100_000_000;
    /** A thread that was of no use for so long ends. */
    private static final long IDLE_ns = 20_000_000_000L;

    private final ConcurrentLinkedQueue<Runnable> queue = new ConcurrentLinkedQueue<>();
    private final AtomicInteger queued = new AtomicInteger();
    private final AtomicInteger running = new AtomicInteger();
    private final AtomicLong begun = new AtomicLong();
    /** From when on handlers are taken to be quick. */
    private volatile long quickFrom_ns = System.nanoTime();
    private volatile long pause_ns = PAUSE_LEAST_ns;

    private final String name;
    private final ClassLoader loader;
    private final ExecutorService virtual;
    private volatile boolean closed;
    /** Somebody waits for all tasks to end. */
    private volatile boolean awaited;

    // The pool.
    private final ConcurrentLinkedDeque<Worker> idle = new ConcurrentLinkedDeque<>();
    private final AtomicInteger workers = new AtomicInteger();
    private final AtomicBoolean waking = new AtomicBoolean();
    private final LinkThread watch;
    private volatile boolean watching;

    /** @param virtually whether to use virtual threads, where the JVM has good ones */
    Handlers(String name, ClassLoader loader, boolean virtually) {
        this.name = name;
        this.loader = loader;
        this.virtual = virtually ? Threads.virtual() : null;
        this.watch = new LinkThread(name + " handlers", this::watch);
        if (virtual == null) {
            watch.start();
        }
    }

    /** Never waits. */
    void submit(Runnable task) {
        if (virtual != null) {
            if (running.incrementAndGet() <= HANDLERS_MOST) {
                startVirtual(task);
            } else {
                running.decrementAndGet();
                queue.add(task);
                queued.incrementAndGet();
                if (running.get() == 0) {
                    nextVirtual();
                }
            }
            return;
        }
        queue.add(task);
        queued.incrementAndGet();
        wake();
    }

    /**
     * As {@link #submit}; but if the current thread is a link's reader that has nothing else to do, none waits before this
     * one, and handlers have been quick lately, that reader runs it. Others need not be woken.
     */
    void submitFromReader(Runnable task) {
        boolean first = (virtual == null ? queued : running).get() == 0;
        if (!first || System.nanoTime() - quickFrom_ns < 0 || !LinkReader.handles(() -> runHere(task))) {
            submit(task);
        }
    }

    private void runHere(Runnable task) {
        running.incrementAndGet();
        long begun_ns = System.nanoTime();
        Thread.currentThread().setContextClassLoader(loader);
        try {
            task.run();
        } catch (Throwable e) {
            e.printStackTrace(); // as in a thread of the pool
        } finally {
            ended();
            Thread.interrupted();
            if (virtual != null) {
                nextVirtual();
            }
            long now = System.nanoTime();
            long pause = pause_ns;
            if (now - begun_ns > QUICK_ns || LinkReader.isReplaced()) {
                quickFrom_ns = now + pause;
                pause_ns = Math.min(2 * pause, PAUSE_MOST_ns);
            } else if (pause > PAUSE_LEAST_ns) {
                pause_ns = Math.max(pause - pause / 4, PAUSE_LEAST_ns);
            }
        }
    }

    /** Waits until no task runs or is to run; answers how many there are when it is too late. */
    int awaitIdle(Deadline deadline) throws InterruptedException {
        synchronized (this) {
            awaited = true;
            while (busy() > 0 && !deadline.passed()) {
                wait(Math.max(1, deadline.left_ms()));
            }
        }
        return busy();
    }

    /** Tasks that run or wait. */
    int busy() {
        return running.get() + queued.get();
    }

    private void ended() {
        if (running.decrementAndGet() == 0 && awaited) {
            synchronized (this) {
                notifyAll();
            }
        }
    }

    // -- virtual -----------------------------------------------------------------------------------------------------

    private void startVirtual(Runnable task) {
        virtual.execute(() -> {
            Thread.currentThread().setContextClassLoader(loader);
            try {
                task.run();
            } finally {
                ended();
                nextVirtual();
            }
        });
    }

    private void nextVirtual() {
        if (queued.get() == 0) {
            return;
        }
        Runnable task = queue.poll();
        if (task != null) {
            running.incrementAndGet();
            queued.decrementAndGet();
            startVirtual(task);
        }
    }

    // -- the pool ----------------------------------------------------------------------------------------------------

    /** One thread at a time is being woken; once it has a task it wakes the next, if there is more. */
    private void wake() {
        if (!waking.compareAndSet(false, true)) {
            return;
        }
        Worker worker = idle.pollFirst();
        if (worker != null) {
            worker.called = true;
            LockSupport.unpark(worker);
        } else if (workers.get() < USUAL) {
            more();
        } else {
            waking.set(false);
            if (!watching) {
                watching = true;
                LockSupport.unpark(watch);
            }
        }
    }

    private void more() {
        workers.incrementAndGet();
        new Worker(name + " handler").start();
    }

    private void watch() {
        long seen = begun.get();
        while (!closed) {
            if (queued.get() == 0) {
                watching = false;
                if (queued.get() == 0) {
                    LockSupport.park(this);
                }
                watching = true;
            }
            LockSupport.parkNanos(STALL_ns);
            long now = begun.get();
            int waiting = queued.get();
            if (now == seen && waiting > 0) {
                // Twice as many each time, up to what waits.
                int add = Math.min(Math.min(waiting, Math.max(1, workers.get())), HANDLERS_MOST - workers.get());
                for (int i = 0; i < add; i++) {
                    more();
                }
            }
            seen = now;
        }
    }

    private final class Worker extends Thread {
        volatile boolean called = true;

        Worker(String name) {
            super(name);
            setDaemon(true);
            setContextClassLoader(loader);
        }

        @Override
        public void run() {
            for (; ; ) {
                Runnable task = queue.poll();
                if (task != null) {
                    running.incrementAndGet();
                    queued.decrementAndGet();
                    begun.incrementAndGet();
                    if (called) {
                        called = false;
                        waking.set(false);
                        if (queued.get() > 0) {
                            wake();
                        }
                    }
                    try {
                        task.run();
                    } catch (Throwable e) {
                        e.printStackTrace(); // tasks see to their own; a thread of the pool goes on all the same
                    } finally {
                        ended();
                        Thread.interrupted();
                    }
                    continue;
                }
                if (called) {
                    called = false;
                    waking.set(false);
                }
                idle.addFirst(this);
                if (queued.get() > 0) {
                    // A task came between the look and the rest: whoever is first in line takes it.
                    wake();
                }
                long until = System.nanoTime() + IDLE_ns;
                while (!called) {
                    boolean over = closed || System.nanoTime() >= until;
                    // Who is not in line any more has just been called, and has a task.
                    if (over && idle.remove(this)) {
                        workers.decrementAndGet();
                        return;
                    }
                    LockSupport.parkNanos(this, Math.max(1, until - System.nanoTime()));
                }
            }
        }
    }

    void close() {
        closed = true;
        LockSupport.unpark(watch);
        for (Worker worker : idle) {
            LockSupport.unpark(worker);
        }
        if (virtual != null) {
            virtual.shutdown();
        }
    }
}
