package silf.jojo.launch;

import java.util.List;

/**
 * The first words on a far host: a POSIX shell script that takes the bootstrap jar from standard input and becomes the
 * JVM (spec/jojo, bootstrap). It has no single quote, backslash, newline or exclamation mark, so that it passes
 * unharmed, in single quotes, through whatever login shell is there (sh, csh, fish). Pure.
 *
 * <p>The jar's file is unlinked before a byte is in it, and opened again through /proc/self/fd: nothing is left behind
 * whenever the node dies; only a SIGKILL in the very moment between the two leaves an empty one. The link gets descriptors of its own; standard input is empty and standard output goes where
 * errors go, so that programs, native code and children of the node cannot disturb it.
 */
public final class Script {
    /** Begins every line that is ours on a stream that login scripts may have written to. */
    public static final String MARK = "jojo-";

    public static final String MAIN = "silf.jojo.boot.Boot";

    private Script() {}

    /** The descriptors of a shell of ours that are the link. */
    public static final int IN = 5;

    public static final int OUT = 4;

    /** What the far command ends with when the JVM was ended by a signal: one from 128 on would be taken for ssh's own end. */
    private static final int BY_SIGNAL = 99;

    /**
     * @param stays whether the shell stays beside the JVM, so that the command's status tells the JVM's end from the connection's
     * @param nonce letters and digits, fresh for each start
     * @param jarBytes how many bytes of standard input are the jar
     * @param java path of the JVM, or its name; {@link #unfit} is null for it and for each option
     */
    static String of(String nonce, int jarBytes, String java, List<String> options, boolean stays) {
        StringBuilder words = new StringBuilder();
        for (String option : options) {
            words.append('"').append(option).append("\" ");
        }
        // dd with ibs=1 alone reads not a byte too many everywhere; `head -c` of busybox does.
        return "umask 077; n=" + nonce + "; j=\"" + java + "\"; "
                + "say() { echo \"" + MARK + "$n $*\"; exit 1; }; "
                + "command -v \"$j\" >/dev/null 2>&1 || say no-java; "
                // Signals, as they come with the end of a connection, find no file or remove it.
                + "f=; gone() { [ -z \"$f\" ] || rm -f \"$f\"; exit 1; }; trap gone 1 2 13 15; "
                + "for d in \"${TMPDIR:-/tmp}\" /var/tmp /dev/shm \"$HOME\"; do "
                + "f=$(mktemp \"$d/jojo.XXXXXX\" 2>/dev/null) && break; done; "
                + "[ -n \"$f\" ] || say no-place; "
                + "exec 3<>\"$f\" || say no-place; p=/proc/self/fd; "
                + "if [ -e $p/3 ]; then rm -f \"$f\"; f=; c=$p/3; else c=$f; fi; trap - 1 2 13 15; "
                // Sockets, as rshd gives them, cannot be opened again: then the link stays on the standard descriptors.
                + "if [ -e $p/3 ] && ( : <$p/0 >>$p/1 ) 2>/dev/null; then i=$p/5 o=$p/4; else i=- o=-; fi; "
                + "dd ibs=1 obs=8192 count=" + jarBytes + " >&3 2>/dev/null || { [ -z \"$f\" ] || rm -f \"$f\"; say no-space; }; "
                + "[ $i = - ] || exec 4>&1 5<&0 1>&2 </dev/null; "
                // No file of counters in /tmp, which also takes 10 ms.
                + (stays ? "" : "exec ") + "\"$j\" -XX:-UsePerfData " + words + "-cp \"$c\" " + MAIN + " $n $i $o ${f:+\"$f\"}"
                + (stays ? "; s=$?; [ $s -lt 128 ] || s=" + BY_SIGNAL + "; exit $s" : "");
    }

    /**
     * Brings the ends of another wire to a JVM whose own was cut (spec/jojo J13): tells it this shell's number, through the
     * unlinked file that it came from, and stays until it has ended, which the end of what it first wrote to tells.
     *
     * @param nonce of its start
     * @param process its number
     */
    static String again(String nonce, long process) {
        return "umask 077; n=" + nonce + "; p=/proc/" + process + "; "
                + "gone() { echo \"" + MARK + "$n gone\"; exit 1; }; "
                + "grep -q $n $p/cmdline 2>/dev/null || gone; "
                + "( : </proc/self/fd/0 >>/proc/self/fd/1 ) 2>/dev/null || gone; "
                + "exec " + OUT + ">&1 " + IN + "<&0 >/dev/null </dev/null; "
                + "echo $$ >>$p/fd/3 || gone; "
                + "exec cat $p/fd/" + OUT;
    }

    /** As one command for a login shell. */
    static String quoted(String script) {
        return "exec sh -c '" + script + "'";
    }

    /** Null, or the character because of which {@code text} cannot stand in the script's double quotes. */
    public static String unfit(String text) {
        for (char c : text.toCharArray()) {
            if (c < ' ' || c == 0x7f || "'\"\\`!".indexOf(c) >= 0) {
                return c < ' ' || c == 0x7f ? "a control character" : String.valueOf(c);
            }
        }
        return null;
    }
}
