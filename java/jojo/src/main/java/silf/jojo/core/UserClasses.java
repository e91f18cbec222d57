package silf.jojo.core;

/**
 * The classes of the user's program, as one node sees them: which they are, and which of the JDK's may stand in messages
 * (spec/jojo J11).
 */
final class UserClasses {
    private static final ClassLoader PLATFORM = ClassLoader.getPlatformClassLoader();

    /** JDK packages all of whose serializable classes are values or collections. */
    private static final java.util.Set<String> PACKAGES = java.util.Set.of(
            "java.math", "java.time", "java.time.chrono", "java.time.zone", "java.util.concurrent.atomic");

    /** Of java.lang and java.util, where others are not. */
    private static final java.util.Set<String> CLASSES = java.util.Set.of(
            "java.lang.Boolean", "java.lang.Byte", "java.lang.Character", "java.lang.Double", "java.lang.Enum",
            "java.lang.Float", "java.lang.Integer", "java.lang.Long", "java.lang.Number", "java.lang.Object",
            "java.lang.Record", "java.lang.Short", "java.lang.StackTraceElement", "java.lang.String",
            "java.lang.StringBuffer", "java.lang.StringBuilder", "java.lang.invoke.SerializedLambda",
            "java.net.URI", "java.util.AbstractList", "java.util.AbstractMap", "java.util.AbstractSet",
            "java.util.AbstractCollection", "java.util.ArrayDeque", "java.util.ArrayList", "java.util.Arrays$ArrayList",
            "java.util.BitSet", "java.util.CollSer", "java.util.Collections$EmptyList",
            "java.util.Collections$EmptyMap", "java.util.Collections$EmptySet", "java.util.Collections$SingletonList",
            "java.util.Collections$SingletonMap", "java.util.Collections$SingletonSet",
            "java.util.Collections$ReverseComparator", "java.util.Collections$SynchronizedCollection",
            "java.util.Collections$SynchronizedList", "java.util.Collections$SynchronizedMap",
            "java.util.Collections$SynchronizedSet", "java.util.Collections$UnmodifiableCollection",
            "java.util.Collections$UnmodifiableList", "java.util.Collections$UnmodifiableMap",
            "java.util.Collections$UnmodifiableRandomAccessList", "java.util.Collections$UnmodifiableSet",
            "java.util.Currency", "java.util.Date", "java.util.EnumMap", "java.util.EnumSet$SerializationProxy",
            "java.util.RegularEnumSet", "java.util.JumboEnumSet", "java.util.EnumSet",
            // Never in a stream themselves, but what CollSer is resolved to.
            "java.util.ImmutableCollections$List12", "java.util.ImmutableCollections$ListN",
            "java.util.ImmutableCollections$Set12", "java.util.ImmutableCollections$SetN",
            "java.util.ImmutableCollections$Map1", "java.util.ImmutableCollections$MapN",
            "java.util.HashMap", "java.util.HashSet", "java.util.Hashtable", "java.util.IdentityHashMap",
            "java.util.LinkedHashMap", "java.util.LinkedHashSet", "java.util.LinkedList", "java.util.Locale",
            "java.util.Map$Entry", "java.util.PriorityQueue", "java.util.Properties", "java.util.Random",
            "java.util.Stack", "java.util.TreeMap", "java.util.TreeSet", "java.util.UUID", "java.util.Vector",
            "java.util.concurrent.ConcurrentHashMap", "java.util.concurrent.ConcurrentHashMap$Segment",
            "java.util.concurrent.ConcurrentLinkedDeque", "java.util.concurrent.ConcurrentLinkedQueue",
            "java.util.concurrent.ConcurrentSkipListMap", "java.util.concurrent.CopyOnWriteArrayList",
            "java.util.concurrent.TimeUnit", "java.util.concurrent.locks.AbstractOwnableSynchronizer",
            "java.util.concurrent.locks.AbstractQueuedSynchronizer", "java.util.concurrent.locks.ReentrantLock",
            "java.util.concurrent.locks.ReentrantLock$NonfairSync", "java.util.concurrent.locks.ReentrantLock$Sync");

    private final ClassLoader loader;

    UserClasses(ClassLoader loader) {
        this.loader = loader;
    }

    ClassLoader loader() {
        return loader;
    }

    /** Without running its initializer. */
    Class<?> find(String name) throws ClassNotFoundException {
        return Class.forName(name, false, loader);
    }

    /** Whether a class was defined by the user's loader, or one between it and the platform's. */
    boolean isUsers(Class<?> type) {
        ClassLoader of = type.getClassLoader();
        if (of == null || of == PLATFORM) {
            return false;
        }
        for (ClassLoader l = loader; l != null && l != PLATFORM; l = l.getParent()) {
            if (l == of) {
                return true;
            }
        }
        // Proxies and the like of our own core, where it has a loader apart.
        return of == UserClasses.class.getClassLoader();
    }

    /** Whether objects of a class, not an array, may be read. */
    boolean mayStand(Class<?> type) {
        if (type.isPrimitive() || isUsers(type)) {
            return true;
        }
        return PACKAGES.contains(type.getPackageName())
                || CLASSES.contains(type.getName())
                || Throwable.class.isAssignableFrom(type) && type.getName().startsWith("java.");
    }

    /** By the name alone, before a class is looked up: a JDK class that is not on the list is not even loaded. */
    boolean mayBeLookedUp(String name) {
        if (!name.startsWith("java.") && !name.startsWith("javax.") && !name.startsWith("jdk.")
                && !name.startsWith("sun.") && !name.startsWith("com.sun.")) {
            return true;
        }
        int dot = name.lastIndexOf('.');
        return PACKAGES.contains(name.substring(0, dot)) || CLASSES.contains(name)
                || name.endsWith("Exception") || name.endsWith("Error") || name.equals("java.lang.Throwable");
    }
}
