package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.InvalidClassException;
import java.io.ObjectInputFilter;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.OutputStream;
import java.lang.reflect.Proxy;
import java.util.Map;

/** Java serialization under a filter (spec/jojo J11), with the user's classes. */
final class JavaStream {
    /** Deeper graphs overflow small stacks. */
    private static final int DEPTH_MOST = 512;
    /** A message of a gigabyte has fewer. */
    private static final long REFERENCES_MOST = 16_000_000;
    /** Collections allot this much to themselves before they have an element. */
    private static final int ARRAY_FREE = 1024;

    private static final Map<String, Class<?>> PRIMITIVES = Map.of(
            "boolean", boolean.class, "byte", byte.class, "char", char.class, "short", short.class, "int", int.class,
            "long", long.class, "float", float.class, "double", double.class, "void", void.class);

    private JavaStream() {}

    static void write(Object value, OutputStream to) throws IOException {
        try (ObjectOutputStream stream = new ObjectOutputStream(to)) {
            stream.writeObject(value);
        }
    }

    /** @param size bytes that the stream has */
    static Object read(InputStream from, long size, UserClasses classes) throws IOException, ClassNotFoundException {
        try (Reader reader = new Reader(from, size, classes)) {
            try {
                return reader.readObject();
            } catch (InvalidClassException e) {
                throw reader.refused == null ? e : new IOException(reader.refused + " may not stand in a message", e);
            }
        }
    }

    private static final class Reader extends ObjectInputStream {
        private final UserClasses classes;
        private String refused;

        Reader(InputStream from, long size, UserClasses classes) throws IOException {
            super(from);
            this.classes = classes;
            ObjectInputFilter process = getObjectInputFilter(); // jdk.serialFilter: what an operator denies stays denied
            setObjectInputFilter(info -> {
                if (process != null && process.checkInput(info) == ObjectInputFilter.Status.REJECTED) {
                    return ObjectInputFilter.Status.REJECTED;
                }
                refused = refusal(info, size, classes);
                return refused == null ? ObjectInputFilter.Status.ALLOWED : ObjectInputFilter.Status.REJECTED;
            });
        }

        /** Null, or why not. */
        private static String refusal(ObjectInputFilter.FilterInfo info, long size, UserClasses classes) {
            if (info.depth() > DEPTH_MOST) {
                return "objects nested deeper than " + DEPTH_MOST;
            }
            if (info.references() > REFERENCES_MOST) {
                return "more than " + REFERENCES_MOST + " objects";
            }
            if (info.arrayLength() > Math.max(ARRAY_FREE, 2 * size)) {
                return "an array of " + info.arrayLength() + " elements in " + size + " bytes";
            }
            Class<?> type = info.serialClass();
            while (type != null && type.isArray()) {
                type = type.getComponentType();
            }
            return type == null || classes.mayStand(type) ? null : "the class " + type.getName();
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass described) throws IOException, ClassNotFoundException {
            String name = described.getName();
            Class<?> primitive = PRIMITIVES.get(name);
            if (primitive != null) {
                return primitive;
            }
            String element = name;
            if (name.startsWith("[")) {
                int type = name.lastIndexOf('[') + 1;
                element = name.startsWith("L", type) ? name.substring(type + 1, name.length() - 1) : "java.lang.Object";
            }
            if (!classes.mayBeLookedUp(element)) {
                throw new InvalidClassException(name, "may not stand in a message");
            }
            return classes.find(name);
        }

        @Override
        @SuppressWarnings("deprecation") // getProxyClass: a stream wants the class, not an instance
        protected Class<?> resolveProxyClass(String[] interfaces) throws IOException, ClassNotFoundException {
            Class<?>[] types = new Class<?>[interfaces.length];
            for (int i = 0; i < types.length; i++) {
                if (!classes.mayBeLookedUp(interfaces[i])) {
                    throw new InvalidClassException(interfaces[i], "may not stand in a message");
                }
                types[i] = classes.find(interfaces[i]);
            }
            return Proxy.getProxyClass(classes.loader(), types);
        }
    }
}
