package silf.jojo.core;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.List;
import silf.jojo.JojoException;
import silf.jojo.RemoteException;

/** Exceptions as values (spec/jojo J12). */
final class Failures {
    /** A trace of a deep recursion says no more after that. */
    private static final int TRACE_MOST = 16 << 10;

    private Failures() {}

    static List<Object> write(Throwable e, String node) {
        StringWriter trace = new StringWriter();
        String text;
        try {
            e.printStackTrace(new PrintWriter(trace, true));
            text = e.getMessage();
        } catch (RuntimeException | StackOverflowError own) {
            text = "(its own methods threw " + own.getClass().getName() + ")";
        }
        byte[] itself = null;
        try {
            itself = Encoder.bytes(e);
        } catch (JojoException cannot) {
            // Its text has to do.
        }
        String lines = trace.toString();
        return Arrays.asList(
                e.getClass().getName(), text, lines.substring(0, Math.min(lines.length(), TRACE_MOST)), node, itself);
    }

    static JojoException read(Object value, String node, UserClasses classes) {
        if (!(value instanceof List<?> parts)
                || parts.size() != 5
                || !(parts.get(0) instanceof String type)
                || !(parts.get(1) == null || parts.get(1) instanceof String)
                || !(parts.get(2) instanceof String trace)
                || !(parts.get(3) instanceof String at)) {
            return new JojoException("node " + node + " failed, and its reason could not be read");
        }
        Throwable cause = null;
        if (parts.get(4) instanceof byte[] itself) {
            try {
                cause = Decoder.decode(new In(itself, 0), classes, node) instanceof Throwable e ? e : null;
            } catch (JojoException | Unavailable e) {
                // Its class is not known here; the texts are.
            }
        }
        return new RemoteException(at, type, (String) parts.get(1), Text.printable(trace), cause);
    }
}
