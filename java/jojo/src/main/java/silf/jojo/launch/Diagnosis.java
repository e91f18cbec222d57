package silf.jojo.launch;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import silf.jojo.launch.LaunchException.Why;

/**
 * Why a node did not come up, read from what our script, ssh, the shell and the JVM said (spec/jojo, bootstrap). Pure.
 *
 * @param advice what to try next
 */
record Diagnosis(Why why, String what, String advice) {
    /** ssh's own failures, as against the far command's. */
    private static final int SSH_FAILED = 255;

    private static final int NOT_EXECUTABLE = 126;
    private static final int NOT_FOUND = 127;

    private record Sign(Pattern pattern, Why why, String what, String advice) {
        static Sign of(String pattern, Why why, String what, String advice) {
            return new Sign(Pattern.compile(pattern, Pattern.CASE_INSENSITIVE), why, what, advice);
        }
    }

    /** What our own script reports, behind the nonce. */
    private static final List<Sign> REPORTED = List.of(
            Sign.of("^no-java", Why.NO_JAVA, "there is no Java there by this name",
                    "install one (17 or newer), or say where it is: javaPath"),
            Sign.of("^old-java (\\S+)", Why.OLD_JAVA, "its Java is $1; 17 is the oldest that will do", "name a newer one: javaPath"),
            Sign.of("^no-place", Why.NO_PLACE, "no file can be made in $TMPDIR, /tmp, /var/tmp, /dev/shm or the home there",
                    "make one of them writable, or set TMPDIR there"),
            Sign.of("^gone", Why.ENDED, "the JVM there has ended", "see why: its last words"),
            Sign.of("^no-space", Why.NO_SPACE, "the disk or the quota of $TMPDIR or /tmp is full there",
                    "free some, or set TMPDIR there"));

    /** Anywhere in what came by stderr; the first that fits. */
    private static final List<Sign> SAID = List.of(
            Sign.of("could not resolve hostname|name or service not known|unknown host", Why.UNKNOWN_HOST, "this host is not known",
                    "check its name, or ~/.ssh/config"),
            Sign.of("host key verification failed|remote host identification has changed", Why.HOST_KEY,
                    "its host key is not known, or not the one that was known", "look at it and accept it once by hand: ssh HOST"),
            Sign.of("permission denied \\(|too many authentication failures", Why.NOT_ADMITTED, "it does not admit you",
                    "see that `ssh -o BatchMode=yes HOST true` works: a key, an agent, its authorized_keys"),
            Sign.of("no route to host|network is unreachable|connection refused|connection timed out|operation timed out|no such device",
                    Why.NO_ROUTE, "there is no way to it", "check address, port and firewall, or go by a host that reaches it: ProxyJump"),
            Sign.of("kex_exchange_identification|connection reset|connection closed by|exceeded maxstartups|banner exchange",
                    Why.TURNED_AWAY, "it closed the connection before it answered", "it may have too many at once (MaxStartups), or is no ssh server"),
            Sign.of("unsupportedclassversionerror|unsupported major.minor", Why.OLD_JAVA, "its Java is older than 8; 17 is the oldest that will do",
                    "name a newer one: javaPath"),
            Sign.of("could not create the java virtual machine|could not reserve enough space|unrecognized (vm )?option"
                            + "|error occurred during initialization|invalid maximum heap size|conflicting collector",
                    Why.JVM_REFUSED, "the JVM would not begin", "see javaOptions, and the memory that is left there"),
            Sign.of("no space left on device|disk quota exceeded", Why.NO_SPACE, "a disk or a quota is full there", "free some, or set TMPDIR there"),
            Sign.of("invalid or corrupt jarfile|could not find or load main class", Why.DAMAGED, "the first stage arrived damaged",
                    "a login script there may read standard input: let it do so for terminals only"));

    /**
     * @param nonce of this start
     * @param stray what came before the marker
     * @param said what came by stderr
     * @param status exit status of the command; negative while it runs: it did not answer in time
     */
    static Diagnosis of(String nonce, String stray, String said, int status) {
        int mark = stray.lastIndexOf(Script.MARK + nonce + " ");
        if (mark >= 0) {
            String word = stray.substring(mark + Script.MARK.length() + nonce.length() + 1).strip();
            for (Sign sign : REPORTED) {
                Matcher matcher = sign.pattern().matcher(word);
                if (matcher.find()) {
                    String what = matcher.groupCount() == 0 ? sign.what() : sign.what().replace("$1", matcher.group(1));
                    return new Diagnosis(sign.why(), what, sign.advice());
                }
            }
        }
        for (Sign sign : SAID) {
            if (sign.pattern().matcher(said).find()) {
                return new Diagnosis(sign.why(), sign.what(), sign.advice());
            }
        }
        if (status < 0) {
            return new Diagnosis(Why.SILENT, "it did not answer in time", "try the command by hand, or give it longer: launchMostMs");
        }
        return switch (status) {
            case NOT_EXECUTABLE -> new Diagnosis(Why.NO_JAVA, "its Java cannot be executed (another machine's, or a file system without exec)",
                    "name one that can: javaPath");
            case NOT_FOUND -> new Diagnosis(Why.NO_COMMAND, "the far side has no such command", "see rjavaRsh; a POSIX sh is needed there");
            // With LogLevel ERROR newer versions of ssh say nothing of a connection that was closed while it was made.
            case SSH_FAILED -> said.isBlank() ? new Diagnosis(Why.TURNED_AWAY, "the connection was closed without a word",
                    "try the command by hand") : new Diagnosis(Why.NO_ROUTE, "the connection could not be made", "try it by hand");
            default -> new Diagnosis(Why.ENDED, "it ended with status " + status + " before it said a word", "its last words are the best hint");
        };
    }
}
