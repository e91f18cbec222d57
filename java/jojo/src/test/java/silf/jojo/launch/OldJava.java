package silf.jojo.launch;

import silf.jojo.boot.Boot;

/** The first stage on a JVM that calls itself old. */
public final class OldJava {
    private OldJava() {}

    /** The arguments of {@link Boot}, behind the version. */
    public static void main(String[] args) throws Exception {
        System.setProperty("java.specification.version", args[0]);
        System.setProperty("java.version", args[0] + ".0.1");
        Boot.main(java.util.Arrays.copyOfRange(args, 1, args.length));
    }
}
