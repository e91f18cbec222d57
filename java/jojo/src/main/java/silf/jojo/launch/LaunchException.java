package silf.jojo.launch;

import silf.jojo.JojoException;
import silf.jojo.core.ErrorCode;

/** A node that did not come up: which, on what host, why in one word, and what to try (spec/jojo, bootstrap). */
public final class LaunchException extends JojoException {
    private static final long serialVersionUID = 1;

    /** What stood in the way. Each has its table in spec/errors.toml. */
    public enum Why {
        /** The command of the template is not on this host, or cannot be executed. */
        NO_COMMAND,
        UNKNOWN_HOST,
        NO_ROUTE,
        /** The far host closed the connection before it answered: too many at once, or not an ssh server. */
        TURNED_AWAY,
        HOST_KEY,
        NOT_ADMITTED,
        NO_JAVA,
        OLD_JAVA,
        /** No directory there in which a file could be made. */
        NO_PLACE,
        /** The bootstrap could not be written: disk or quota is full. */
        NO_SPACE,
        /** The JVM could not begin: its options, or too little memory. */
        JVM_REFUSED,
        /** What arrived was not what was sent: something there reads standard input before us. */
        DAMAGED,
        /** No answer in time. */
        SILENT,
        /** It ended in a way that none of the others describes; the message has its words. */
        ENDED;

        /** Its table in spec/errors.toml. */
        public String code() {
            return switch (this) {
                case NO_COMMAND -> "node_no_command";
                case UNKNOWN_HOST -> "node_unknown_host";
                case NO_ROUTE -> "node_no_route";
                case TURNED_AWAY -> "node_turned_away";
                case HOST_KEY -> "node_host_key";
                case NOT_ADMITTED -> "node_not_admitted";
                case NO_JAVA -> "node_no_java";
                case OLD_JAVA -> "node_old_java";
                case NO_PLACE -> "node_no_place";
                case NO_SPACE -> "node_no_space";
                case JVM_REFUSED -> "node_jvm_refused";
                case DAMAGED -> "node_damaged_start";
                case SILENT -> "node_silent";
                case ENDED -> "node_ended";
            };
        }
    }

    private final Why why;

    public LaunchException(Why why, String message) {
        super(ErrorCode.in(message, why.code()));
        this.why = why;
    }

    public Why why() {
        return why;
    }
}
