package silf.jojo.core;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** What newer JVMs have, asked for by reflection: the core is compiled for Java 17. */
final class Threads {
    /** From 24 on a virtual thread that waits for a monitor lets its carrier go (JEP 491). */
    static final boolean VIRTUAL_ARE_GOOD = Runtime.version().feature() >= 24;

    private static final MethodHandle IS_VIRTUAL = find(Thread.class, "isVirtual", boolean.class);

    private Threads() {}

    private static MethodHandle find(Class<?> in, String name, Class<?> answer) {
        try {
            return MethodHandles.publicLookup().findVirtual(in, name, MethodType.methodType(answer));
        } catch (NoSuchMethodException | IllegalAccessException e) {
            return null;
        }
    }

    static boolean isVirtual(Thread thread) {
        if (IS_VIRTUAL == null) {
            return false;
        }
        try {
            return (boolean) IS_VIRTUAL.invokeExact(thread);
        } catch (Throwable e) {
            throw new IllegalStateException("Thread.isVirtual failed", e);
        }
    }

    /** One virtual thread for each task, or null where the JVM has none or they pin. */
    static ExecutorService virtual() {
        if (!VIRTUAL_ARE_GOOD) {
            return null;
        }
        try {
            return (ExecutorService)
                    MethodHandles.publicLookup()
                            .findStatic(
                                    Executors.class,
                                    "newVirtualThreadPerTaskExecutor",
                                    MethodType.methodType(ExecutorService.class))
                            .invoke();
        } catch (Throwable e) {
            return null;
        }
    }
}
