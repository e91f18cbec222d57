package silf.jojo.core;

/** The codes of spec/errors.toml in messages: at the end of the first line, in brackets. Not in it: which there are. */
public final class ErrorCode {
    private ErrorCode() {}

    public static String in(String message, String code) {
        int line = message.indexOf('\n');
        String first = line < 0 ? message : message.substring(0, line);
        return first + " [" + code + "]" + message.substring(first.length());
    }
}
