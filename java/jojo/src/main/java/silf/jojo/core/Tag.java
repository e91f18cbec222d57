package silf.jojo.core;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** Tags of values (spec/jojo J10), and which classes have one of their own. */
final class Tag {
    static final int NULL = 0;
    static final int FALSE = 1;
    static final int TRUE = 2;
    static final int BYTE = 3;
    static final int SHORT = 4;
    static final int CHAR = 5;
    static final int INT = 6;
    static final int LONG = 7;
    static final int FLOAT = 8;
    static final int DOUBLE = 9;
    static final int STRING = 10;
    static final int CHARS = 11;
    static final int BYTES = 12;
    static final int SHORTS = 13;
    static final int CHAR_ARRAY = 14;
    static final int INTS = 15;
    static final int LONGS = 16;
    static final int FLOATS = 17;
    static final int DOUBLES = 18;
    static final int BOOLEANS = 19;
    static final int LIST = 20;
    static final int MAP = 21;
    static final int RECORD = 22;
    static final int OBJECTS = 23;
    static final int STRINGS = 24;
    static final int ENUM = 25;
    static final int JAVA = 31;

    /** Deeper values go by Java serialization, which has its own bound. */
    static final int DEPTH_MOST = 64;

    /** Those that are written as LIST: others have behaviour that a list of the same elements has not. */
    static final Set<Class<?>> LISTS = Set.of(
            java.util.ArrayList.class, List.of().getClass(), List.of(1).getClass());

    static final Set<Class<?>> MAPS = Set.of(
            java.util.HashMap.class, java.util.LinkedHashMap.class, Map.of().getClass(), Map.of(1, 1).getClass());

    private static final Map<Class<?>, Integer> ARRAYS = Map.of(
            byte[].class, BYTES, short[].class, SHORTS, char[].class, CHAR_ARRAY, int[].class, INTS,
            long[].class, LONGS, float[].class, FLOATS, double[].class, DOUBLES, boolean[].class, BOOLEANS);

    private static final int[] SIZES = {1, 2, 2, 4, 8, 4, 8, 1};

    private Tag() {}

    /** The tag of a primitive array's class, or -1. */
    static int ofArray(Class<?> type) {
        return ARRAYS.getOrDefault(type, -1);
    }

    /** Bytes of an element of the primitive array with this tag. */
    static int size(int tag) {
        return SIZES[tag - BYTES];
    }
}
