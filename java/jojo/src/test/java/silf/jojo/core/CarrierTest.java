package silf.jojo.core;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import silf.jojo.Future;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.program.Reads;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Run;

/** A node whose JVM has one thread for all virtual ones: an option that only a JVM of its own can be given. */
public final class CarrierTest {
    /** Answers late, so that loads overlap. */
    private static final class Slow extends URLClassLoader {
        Slow(Path folder) throws IOException {
            super(new URL[] {folder.toUri().toURL()}, CarrierTest.class.getClassLoader());
        }

        @Override
        public URL findResource(String name) {
            URL url = super.findResource(name);
            if (url != null) {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            return url;
        }
    }

    /** A virtual thread that loads a class holds its carrier; with one carrier, whoever brings the class must be another. */
    public void virtual_threads_that_load_classes_do_not_hold_up_the_bringing_of_classes() throws Exception {
        if (!Threads.VIRTUAL_ARE_GOOD) {
            throw new Run.Missing("Java 24 or newer");
        }
        NodeSpec.Invocation one = new NodeSpec.Invocation(
                "local", Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                List.of("-Djdk.virtualThreadScheduler.parallelism=1", "-Djdk.virtualThreadScheduler.maxPoolSize=1"), List.of(),
                60_000, Map.of());
        try (Slow loader = new Slow(ClassesTest.compiled(true))) {
            new ClassesTest(Over.PIPE).run(loader, client -> {
                List<Future> calls = new ArrayList<>();
                for (int i = 0; i < 20; i++) {
                    calls.add(client.child(0).callFuture(new Message(4, "Part" + 10 * i)));
                }
                for (Future call : calls) {
                    Check.equal(true, call.touch(), "a class loaded in a virtual thread");
                }
            }, NodeSpec.of("pad00", "pad00", Reads.class.getName()).withInvocation(one));
        }
    }
}
