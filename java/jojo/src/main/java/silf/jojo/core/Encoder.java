package silf.jojo.core;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import silf.jojo.JojoException;

/** Values to bytes (spec/jojo J10). One use each. Not in it: frames. */
final class Encoder {
    /** From here on a primitive array is written piece by piece, as it is sent, and not copied first. */
    private static final int LARGE = 32 << 10;

    /** Leaves the fast path: this graph is one for Java serialization. */
    private static final class Other extends RuntimeException {
        private static final long serialVersionUID = 1;
        static final Other ONE = new Other();

        private Other() {
            super(null, null, false, false);
        }
    }

    private final Bytes out;
    private Object first;
    private Set<Object> seen;

    private Encoder(Bytes out) {
        this.out = out;
    }

    /**
     * Encodes behind what {@code into} has.
     *
     * @return the value itself, if it is a primitive array whose elements are still to be written behind {@code into};
     *     else null
     * @throws JojoException if the value cannot be sent
     */
    static Object encode(Object value, Bytes into) throws JojoException {
        if (value != null && value.getClass().isArray()) {
            int tag = Tag.ofArray(value.getClass());
            if (tag >= 0) {
                int count = java.lang.reflect.Array.getLength(value);
                if ((long) count * Tag.size(tag) >= LARGE) {
                    into.u8(tag).i32(count);
                    return value;
                }
            }
        }
        int begin = into.size;
        try {
            new Encoder(into).value(value, 0);
        } catch (Other e) {
            into.size = begin;
            java(value, into);
        } catch (OutOfMemoryError e) {
            throw new JojoException("not enough memory to send " + value.getClass().getTypeName(), e);
        }
        return null;
    }

    /** All in one array. */
    static byte[] bytes(Object value) throws JojoException {
        Bytes into = new Bytes(256);
        Object array = encode(value, into);
        if (array != null) {
            int tag = Tag.ofArray(array.getClass());
            int count = java.lang.reflect.Array.getLength(array);
            int at = into.room((long) count * Tag.size(tag));
            Elements.put(tag, array, 0, count, into.array, at);
        }
        return into.toArray();
    }

    private static void java(Object value, Bytes into) throws JojoException {
        into.u8(Tag.JAVA);
        int begin = into.size;
        into.i32(0);
        try {
            JavaStream.write(value, into);
        } catch (StackOverflowError e) {
            throw new JojoException("the objects in " + value.getClass().getName() + " are nested too deep to be sent", e);
        } catch (java.io.NotSerializableException e) {
            throw new JojoException(notSerializable(value, e.getMessage()), e);
        } catch (IOException | RuntimeException e) {
            throw new JojoException("could not serialize " + value.getClass().getName() + ": " + e.getMessage(), e);
        }
        Frame.put32(into.array, begin, into.size - begin - 4);
    }

    private static String notSerializable(Object value, String which) {
        String text = "could not send " + value.getClass().getTypeName() + ": " + which + " is not Serializable";
        if (value.getClass().isAnonymousClass() || value.getClass().isLocalClass() || value.getClass().isMemberClass()
                || value.getClass().isHidden()) {
            text += "; a class inside another, unless it is static, and a lambda bring along the object around them";
        }
        return text;
    }

    private void value(Object value, int depth) {
        if (value == null) {
            out.u8(Tag.NULL);
        } else if (value instanceof String text) {
            text(text);
        } else if (value instanceof Number || value instanceof Boolean || value instanceof Character) {
            scalar(value);
        } else {
            once(value, depth);
            compound(value, depth);
        }
    }

    private void scalar(Object value) {
        if (value instanceof Integer v) {
            out.u8(Tag.INT).i32(v);
        } else if (value instanceof Long v) {
            out.u8(Tag.LONG).i64(v);
        } else if (value instanceof Double v) {
            out.u8(Tag.DOUBLE).i64(Double.doubleToRawLongBits(v));
        } else if (value instanceof Boolean v) {
            out.u8(v ? Tag.TRUE : Tag.FALSE);
        } else if (value instanceof Float v) {
            out.u8(Tag.FLOAT).i32(Float.floatToRawIntBits(v));
        } else if (value instanceof Byte v) {
            out.u8(Tag.BYTE).u8(v);
        } else if (value instanceof Short v) {
            out.u8(Tag.SHORT).u16(v);
        } else if (value instanceof Character v) {
            out.u8(Tag.CHAR).u16(v);
        } else {
            throw Other.ONE; // BigInteger, AtomicLong, ...
        }
    }

    private void text(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        // An encoder writes '?' for a lone surrogate; only then can a string with one come out as short as this.
        if (lone(text)) {
            out.u8(Tag.CHARS).i32(text.length());
            for (int i = 0; i < text.length(); i++) {
                out.u16(text.charAt(i));
            }
        } else {
            out.u8(Tag.STRING).i32(bytes.length).all(bytes);
        }
    }

    private static boolean lone(String text) {
        for (int i = 0, n = text.length(); i < n; i++) {
            char c = text.charAt(i);
            if (c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE) {
                if (Character.isLowSurrogate(c) || ++i == n || !Character.isLowSurrogate(text.charAt(i))) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Sees to it that what is in the graph twice, or holds itself, is left to Java serialization. */
    private void once(Object value, int depth) {
        if (depth > Tag.DEPTH_MOST) {
            throw Other.ONE;
        }
        if (value instanceof Enum) {
            return;
        }
        if (first == null) {
            first = value;
            return;
        }
        if (seen == null) {
            seen = Collections.newSetFromMap(new IdentityHashMap<>());
            seen.add(first);
        }
        if (!seen.add(value)) {
            throw Other.ONE;
        }
    }

    private void compound(Object value, int depth) {
        Class<?> type = value.getClass();
        if (type.isArray()) {
            array(value, type, depth);
        } else if (Tag.LISTS.contains(type)) {
            List<?> list = (List<?>) value;
            int count = list.size();
            out.u8(Tag.LIST).i32(count);
            elements(list, count, depth);
        } else if (Tag.MAPS.contains(type)) {
            Map<?, ?> map = (Map<?, ?>) value;
            int count = map.size();
            out.u8(Tag.MAP).i32(count);
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                count--;
                value(entry.getKey(), depth + 1);
                value(entry.getValue(), depth + 1);
            }
            if (count != 0) {
                throw new java.util.ConcurrentModificationException();
            }
        } else if (type.isRecord()) {
            record(value, type, depth);
        } else if (value instanceof Enum<?> constant && constant.getDeclaringClass() == type) {
            out.u8(Tag.ENUM).name(type.getName()).name(constant.name());
        } else {
            throw Other.ONE;
        }
    }

    private void elements(List<?> list, int count, int depth) {
        for (Object element : list) {
            count--;
            value(element, depth + 1);
        }
        if (count != 0) {
            throw new java.util.ConcurrentModificationException();
        }
    }

    private void array(Object value, Class<?> type, int depth) {
        int tag = Tag.ofArray(type);
        if (tag >= 0) {
            int count = java.lang.reflect.Array.getLength(value);
            out.u8(tag).i32(count);
            int at = out.room((long) count * Tag.size(tag));
            Elements.put(tag, value, 0, count, out.array, at);
        } else if (type == Object[].class || type == String[].class) {
            Object[] array = (Object[]) value;
            out.u8(type == Object[].class ? Tag.OBJECTS : Tag.STRINGS).i32(array.length);
            for (Object element : array) {
                value(element, depth + 1);
            }
        } else {
            throw Other.ONE;
        }
    }

    private void record(Object value, Class<?> type, int depth) {
        Records how = Records.of(type);
        if (how == null) {
            throw Other.ONE;
        }
        out.u8(Tag.RECORD).name(how.name()).u16(how.parts().length);
        for (var part : how.parts()) {
            Object component;
            try {
                component = (Object) part.invokeExact(value);
            } catch (Throwable e) {
                throw Other.ONE; // an accessor of the user's that throws; Java serialization reads the field
            }
            value(component, depth + 1);
        }
    }
}
