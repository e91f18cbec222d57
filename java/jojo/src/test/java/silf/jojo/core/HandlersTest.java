package silf.jojo.core;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import silf.jojo.testkit.Check;

/** Threads for handlers. */
public final class HandlersTest {
    private static void ends(CountDownLatch latch, String what) throws InterruptedException {
        Check.that(latch.await(10, TimeUnit.SECONDS), what);
    }

    /** What is submitted while the end comes runs: the last words of nodes that are lost with their program are such. */
    public void a_task_that_comes_just_before_the_end_runs() throws Exception {
        for (int i = 0; i < 500; i++) {
            Handlers handlers = new Handlers("test", getClass().getClassLoader(), false);
            CountDownLatch first = new CountDownLatch(1);
            handlers.submit(first::countDown);
            ends(first, "a task");
            if (i % 2 == 0) {
                Thread.sleep(1); // its thread waits for more
            }
            CountDownLatch last = new CountDownLatch(1);
            handlers.submit(last::countDown);
            handlers.close();
            ends(last, "the last task, in round " + i);
        }
    }

    public void a_task_that_comes_behind_the_end_runs_as_well() throws Exception {
        Handlers handlers = new Handlers("test", getClass().getClassLoader(), false);
        handlers.close();
        CountDownLatch late = new CountDownLatch(1);
        handlers.submit(late::countDown);
        ends(late, "a task behind the end");
    }
}
