package silf.jojo.core;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import silf.jojo.JojoException;

/**
 * Bytes to values (spec/jojo J10, J11). Whatever comes, it answers with a value or a {@link JojoException}, and makes
 * nothing larger than a small multiple of the bytes that are there. One use each.
 */
final class Decoder {
    private final In in;
    private final UserClasses classes;

    private Decoder(In in, UserClasses classes) {
        this.in = in;
        this.classes = classes;
    }

    /** @param from for the message of an exception: where the bytes are from */
    static Object decode(In in, UserClasses classes, String from) throws JojoException {
        try {
            Object value = new Decoder(in, classes).value(0);
            if (in.left() > 0) {
                throw new Violation(in.left() + " bytes behind a value");
            }
            return value;
        } catch (Unavailable e) {
            throw e; // not the sender's fault, and not for good
        } catch (ClassNotFoundException e) {
            throw new JojoException("a message from " + from + " needs a class that is not on the class path: "
                    + e.getMessage(), e);
        } catch (IOException | RuntimeException | LinkageError e) {
            throw new JojoException("a message from " + from + " could not be read: " + e.getMessage(), e);
        } catch (StackOverflowError | OutOfMemoryError e) {
            throw new JojoException("a message from " + from + " is too large to be read here: " + e, e);
        }
    }

    private Object value(int depth) throws IOException, ClassNotFoundException {
        if (depth > Tag.DEPTH_MOST) {
            throw new Violation("values nested deeper than " + Tag.DEPTH_MOST);
        }
        int tag = in.u8();
        return switch (tag) {
            case Tag.NULL -> null;
            case Tag.FALSE -> Boolean.FALSE;
            case Tag.TRUE -> Boolean.TRUE;
            case Tag.BYTE -> (byte) in.u8();
            case Tag.SHORT -> (short) in.u16();
            case Tag.CHAR -> (char) in.u16();
            case Tag.INT -> in.i32();
            case Tag.LONG -> in.i64();
            case Tag.FLOAT -> Float.intBitsToFloat(in.i32());
            case Tag.DOUBLE -> Double.longBitsToDouble(in.i64());
            case Tag.STRING -> text();
            case Tag.CHARS -> chars();
            case Tag.LIST -> list(depth);
            case Tag.MAP -> map(depth);
            case Tag.RECORD -> record(depth);
            case Tag.OBJECTS -> objects(depth);
            case Tag.STRINGS -> strings(depth);
            case Tag.ENUM -> constant();
            case Tag.JAVA -> java();
            default -> {
                if (tag < Tag.BYTES || tag > Tag.BOOLEANS) {
                    throw new Violation("tag " + tag);
                }
                yield array(tag);
            }
        };
    }

    private String text() throws Violation {
        return in.text(in.count(1));
    }

    private String chars() throws Violation {
        int count = in.count(2);
        byte[] bytes = new byte[2 * count];
        in.bytes(bytes, 0, bytes.length);
        char[] chars = new char[count];
        Elements.get(Tag.CHAR_ARRAY, bytes, 0, chars, 0, count);
        return new String(chars);
    }

    private Object array(int tag) throws Violation {
        int size = Tag.size(tag);
        int count = in.count(size);
        Object array = Elements.make(tag, count);
        byte[] split = null;
        for (int done = 0; done < count; ) {
            int here = in.here(count - done, size);
            if (here > 0) {
                Elements.get(tag, in.array(), in.end() - here * size, array, done, here);
                done += here;
            } else {
                split = split == null ? new byte[size] : split;
                in.bytes(split, 0, size);
                Elements.get(tag, split, 0, array, done++, 1);
            }
        }
        return array;
    }

    private List<Object> list(int depth) throws IOException, ClassNotFoundException {
        int count = in.count(1);
        List<Object> list = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            list.add(value(depth + 1));
        }
        return list;
    }

    private Map<Object, Object> map(int depth) throws IOException, ClassNotFoundException {
        int count = in.count(2);
        Map<Object, Object> map = new LinkedHashMap<>(Math.max(16, count + count / 2));
        for (int i = 0; i < count; i++) {
            Object key = value(depth + 1);
            map.put(key, value(depth + 1));
        }
        return map;
    }

    private Object[] objects(int depth) throws IOException, ClassNotFoundException {
        Object[] array = new Object[in.count(1)];
        for (int i = 0; i < array.length; i++) {
            array[i] = value(depth + 1);
        }
        return array;
    }

    private String[] strings(int depth) throws IOException, ClassNotFoundException {
        String[] array = new String[in.count(1)];
        for (int i = 0; i < array.length; i++) {
            Object value = value(depth + 1);
            if (value != null && !(value instanceof String)) {
                throw new Violation("a " + value.getClass().getName() + " among strings");
            }
            array[i] = (String) value;
        }
        return array;
    }

    private Class<?> users(String name, String what) throws ClassNotFoundException, Violation {
        if (!classes.mayBeLookedUp(name)) {
            throw new Violation("the " + what + " " + name + " may not stand in a message");
        }
        Class<?> type = classes.find(name);
        if (!classes.mayStand(type)) {
            throw new Violation("the " + what + " " + name + " may not stand in a message");
        }
        return type;
    }

    private Object record(int depth) throws IOException, ClassNotFoundException {
        String name = in.name();
        int count = in.u16();
        Class<?> type = users(name, "record");
        Records how = type.isRecord() ? Records.of(type) : null;
        if (how == null || how.parts().length != count) {
            throw new Violation(name + " is not a record of " + count + " components here");
        }
        Object[] parts = new Object[count];
        for (int i = 0; i < count; i++) {
            parts[i] = value(depth + 1);
        }
        try {
            return (Object) how.make().invokeExact(parts);
        } catch (RuntimeException e) {
            throw e;
        } catch (Throwable e) {
            throw new IOException("the constructor of " + name + " threw " + e, e);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object constant() throws IOException, ClassNotFoundException {
        String name = in.name();
        String constant = in.name();
        Class<?> type = users(name, "enum");
        if (!type.isEnum()) {
            throw new Violation(name + " is not an enum");
        }
        return Enum.valueOf((Class) type, constant);
    }

    private Object java() throws IOException, ClassNotFoundException {
        int count = in.count(1);
        long left = in.left() - count;
        Object value = JavaStream.read(in.stream(count), count, classes);
        if (in.left() != left) {
            throw new Violation("bytes behind a Java stream");
        }
        return value;
    }
}
