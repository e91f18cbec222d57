package silf.jojo.program;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.ServiceLoader;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** Reads resources and loads classes, as it is told. */
public final class Reads extends Code {
    @Override
    public Object handle(Message mes) throws JojoException {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        try (InputStream in = mes.contents == null ? null : loader.getResourceAsStream((String) mes.contents)) {
            switch (mes.tag) {
                case 1:
                    return in == null ? null : new String(in.readAllBytes(), StandardCharsets.UTF_8);
                case 2:
                    return (long) Arrays.hashCode(in.readAllBytes());
                case 3:
                    return ServiceLoader.load(Runnable.class).iterator().next().getClass().getName();
                default:
                    Class<?> type = Class.forName((String) mes.contents, true, loader);
                    return type.getClassLoader() == loader;
            }
        } catch (IOException | ClassNotFoundException e) {
            throw new JojoException(e.toString(), e);
        }
    }
}
