package silf.jojo.core;

import java.io.Serializable;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.RecordComponent;

/**
 * How the values of one record class are taken apart and made.
 *
 * @param make takes the components as one array; for decoding
 */
record Records(String name, MethodHandle[] parts, MethodHandle make) {
    private static final ClassValue<Object> KNOWN = new ClassValue<>() {
        @Override
        protected Object computeValue(Class<?> type) {
            try {
                return look(type);
            } catch (ReflectiveOperationException | RuntimeException e) {
                return e; // a module that is closed to us: Java serialization knows its way
            }
        }
    };

    /** Null where Java serialization must do it: it is closed to us, or says itself how it is written. */
    static Records of(Class<?> type) {
        return KNOWN.get(type) instanceof Records known ? known : null;
    }

    private static Object look(Class<?> type) throws ReflectiveOperationException {
        if (!type.isRecord() || !Serializable.class.isAssignableFrom(type)) {
            return Boolean.FALSE;
        }
        for (var method : type.getDeclaredMethods()) {
            String name = method.getName();
            if (method.getParameterCount() == 0 && (name.equals("writeReplace") || name.equals("readResolve"))) {
                return Boolean.FALSE;
            }
        }
        RecordComponent[] components = type.getRecordComponents();
        MethodHandle[] parts = new MethodHandle[components.length];
        Class<?>[] types = new Class<?>[components.length];
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        for (int i = 0; i < parts.length; i++) {
            var accessor = components[i].getAccessor();
            accessor.setAccessible(true);
            parts[i] = lookup.unreflect(accessor).asType(MethodType.methodType(Object.class, Object.class));
            types[i] = components[i].getType();
        }
        Constructor<?> constructor = type.getDeclaredConstructor(types);
        constructor.setAccessible(true);
        MethodHandle make = lookup.unreflectConstructor(constructor)
                .asType(MethodType.genericMethodType(types.length))
                .asSpreader(Object[].class, types.length)
                .asType(MethodType.methodType(Object.class, Object[].class));
        return new Records(type.getName(), parts, make);
    }
}
