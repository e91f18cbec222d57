package silf.jpop;

import java.util.Map;
import silf.jojo.JojoException;

/** The properties of a run, read with their names in what is said about them. */
public final class Settings {
    private final Map<?, ?> properties;

    public Settings(Map<?, ?> properties) {
        this.properties = properties;
    }

    /** Null if it is not given. */
    public String text(String name) {
        return properties.get(name) instanceof String text && !text.isBlank() ? text.strip() : null;
    }

    public String needed(String name, String what) throws JojoException {
        String text = text(name);
        if (text == null) {
            throw new JojoException("the property " + name + " is missing: " + what);
        }
        return text;
    }

    public long number(String name, long usual, long least, long most) throws JojoException {
        String text = text(name);
        if (text == null) {
            return usual;
        }
        long number;
        try {
            number = Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new JojoException("the property " + name + " is " + text + ", which is no whole number", e);
        }
        if (number < least || number > most) {
            throw new JojoException("the property " + name + " is " + number + ", which is not from " + least + " to " + most);
        }
        return number;
    }

    /** What a class of that name makes, by its constructor without arguments. */
    public <T> T made(String name, Class<T> as, ClassLoader loader, String what) throws JojoException {
        String of = needed(name, what);
        try {
            Object made = Class.forName(of, true, loader).getDeclaredConstructor().newInstance();
            if (as.isInstance(made)) {
                return as.cast(made);
            }
            throw new JojoException("the property " + name + " is " + of + ", which is not a " + as.getName());
        } catch (ClassNotFoundException e) {
            throw new JojoException("the property " + name + " is " + of + ", which is not on the class path", e);
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw new PersonFailed(of + " could not be made: " + e.getCause(), e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new JojoException("the property " + name + " is " + of
                    + ", which must be public, not abstract, and have a public constructor without arguments", e);
        }
    }
}
