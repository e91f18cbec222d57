package silf.jojo.core;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashSet;
import java.util.Set;

/** Names of classes that a class file names in its constant pool (JVMS 4.4). Pure. */
final class References {
    private References() {}

    /** Resource names ("a/b/C.class") of what it refers to, itself and arrays' elements among them; empty if it is no class file. */
    static Set<String> of(byte[] bytes) {
        Set<String> names = new LinkedHashSet<>();
        try {
            scan(bytes, names);
        } catch (ArrayIndexOutOfBoundsException e) {
            // Cut off: whoever defines it will say so.
        }
        return names;
    }

    private static int u16(byte[] bytes, int at) {
        return (bytes[at] & 0xff) << 8 | bytes[at + 1] & 0xff;
    }

    private static void scan(byte[] bytes, Set<String> names) {
        if (bytes.length < 10 || u16(bytes, 0) != 0xCAFE || u16(bytes, 2) != 0xBABE) {
            return;
        }
        int count = u16(bytes, 8);
        int[] texts = new int[count];
        int[] classes = new int[count];
        int found = 0;
        int at = 10;
        for (int i = 1; i < count; i++) {
            int tag = bytes[at] & 0xff;
            switch (tag) {
                case 1 -> {
                    texts[i] = at + 1;
                    at += 3 + u16(bytes, at + 1);
                }
                case 7 -> {
                    classes[found++] = u16(bytes, at + 1);
                    at += 3;
                }
                case 8, 16, 19, 20 -> at += 3;
                case 15 -> at += 4;
                case 3, 4, 9, 10, 11, 12, 17, 18 -> at += 5;
                case 5, 6 -> {
                    at += 9;
                    i++;
                }
                default -> {
                    return; // of a JVM newer than this
                }
            }
        }
        for (int i = 0; i < found; i++) {
            if (classes[i] >= count || texts[classes[i]] == 0) {
                continue;
            }
            int text = texts[classes[i]];
            String name = new String(bytes, text + 2, u16(bytes, text), StandardCharsets.UTF_8);
            if (name.startsWith("[")) {
                int element = name.lastIndexOf('[') + 1;
                if (!name.startsWith("L", element)) {
                    continue;
                }
                name = name.substring(element + 1, name.length() - 1);
            }
            names.add(name + ".class");
        }
    }
}
