package silf.jojo.testkit;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs tests: each public method without parameters that the classes named have, on a new object, in a thread of its own with a
 * deadline. A class whose constructor takes an enum is run with each of its constants. Prints what `cargo test` prints, so that one reader counts both. No library, so that tests of a core without
 * dependencies need none either.
 *
 * <p>Arguments: class names, or folders of classes of which all called ...Test are run; {@code --only WORD} leaves out
 * methods whose name lacks that word.
 */
public final class Run {
    /** Whether what takes long is run in full: the system property {@code testkit.all}. */
    public static final boolean ALL = Boolean.getBoolean("testkit.all");

    /** Longer than anything takes on a loaded machine; reached only when something hangs. */
    private static final long TEST_MOST_MS = 600_000;

    /** Thrown by a test that cannot run here. */
    public static final class Missing extends RuntimeException {
        private static final long serialVersionUID = 1;

        public Missing(String what) {
            super(what);
        }
    }

    private Run() {}

    public static void main(String[] args) throws Exception {
        List<String> names = new ArrayList<>();
        String only = "";
        for (int i = 0; i < args.length; i++) {
            if (args[i].equals("--only")) {
                only = args[++i];
            } else if (Files.isDirectory(Path.of(args[i]))) {
                names.addAll(below(Path.of(args[i])));
            } else {
                names.add(args[i]);
            }
        }
        int passed = 0;
        List<String> failed = new ArrayList<>();
        for (String name : names) {
            Class<?> of = Class.forName(name);
            List<Method> tests = new ArrayList<>();
            for (Method method : of.getMethods()) {
                boolean test = method.getDeclaringClass() != Object.class && !Modifier.isStatic(method.getModifiers())
                        && method.getParameterCount() == 0 && method.getName().contains(only);
                if (test) {
                    tests.add(method);
                }
            }
            tests.sort(Comparator.comparing(Method::getName));
            Constructor<?> made = of.getConstructors()[0];
            Object[] with = made.getParameterCount() == 0 ? new Object[] {null} : made.getParameterTypes()[0].getEnumConstants();
            for (int i = 0; i < with.length * tests.size(); i++) {
                Object one = with[i / tests.size()];
                Method test = tests.get(i % tests.size());
                String title = of.getSimpleName() + (one == null ? "" : "." + one.toString().toLowerCase(Locale.ROOT)) + "::" + test.getName();
                Throwable cause = run(test, one == null ? made::newInstance : () -> made.newInstance(one));
                Scratch.clear();
                if (cause instanceof Missing) {
                    System.err.println("SKIP " + title + ": missing " + cause.getMessage());
                    cause = null;
                }
                System.out.println("test " + title + " ... " + (cause == null ? "ok" : "FAILED"));
                if (cause == null) {
                    passed++;
                } else {
                    failed.add(title);
                    // On the same stream, so that it stays behind its test; begun as cargo's reasons are.
                    StringWriter trace = new StringWriter();
                    cause.printStackTrace(new PrintWriter(trace, true));
                    System.out.print("thread '" + title + "' panicked at " + trace);
                }
            }
        }
        System.out.println("test result: " + (failed.isEmpty() ? "ok" : "FAILED") + ". " + passed + " passed; "
                + failed.size() + " failed; 0 ignored");
        System.exit(failed.isEmpty() ? 0 : 1); // threads of failed tests do not hold us
    }

    private static List<String> below(Path folder) throws IOException {
        try (var files = Files.walk(folder)) {
            return files.filter(f -> f.toString().endsWith("Test.class") && f.toString().indexOf('$') < 0)
                    .map(f -> folder.relativize(f).toString().replace('/', '.').replaceFirst("\\.class$", ""))
                    .sorted().toList();
        }
    }

    /** Null, or why it failed. */
    private static Throwable run(Method test, Callable<?> made) throws InterruptedException {
        FutureTask<Throwable> outcome = new FutureTask<>(() -> {
            try {
                test.invoke(made.call());
                return null;
            } catch (InvocationTargetException e) {
                return e.getCause();
            }
        });
        Thread thread = new Thread(outcome, test.getName());
        thread.setDaemon(true);
        thread.start();
        try {
            return outcome.get(TEST_MOST_MS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            return e.getCause();
        } catch (TimeoutException e) {
            AssertionError late = new AssertionError("not within " + TEST_MOST_MS + " ms; it was here:");
            late.setStackTrace(thread.getStackTrace());
            return late;
        }
    }
}
