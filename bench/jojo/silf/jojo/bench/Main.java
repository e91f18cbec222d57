package silf.jojo.bench;

import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * Measures one row of `./x bench jojo` and prints what it saw, a line each, tabs between: {@code sample SERIES UNIT VALUE},
 * {@code point CURVE X Y}, {@code note TEXT}, {@code missing SERIES WHY}. Not here: what is to be reached, and the report (bench/src/jojo.rs).
 *
 * <p>Arguments: the row's key; {@code quick} for a tenth of the rounds.
 */
public final class Main {
    interface Row {
        void measure() throws Exception;
    }

    private static final Map<String, Row> ROWS = new TreeMap<>(Map.of(
            "ready", Ready::near,
            "ready-far", Ready::far,
            "classes", Classes::measure,
            "calls", Calls::latency,
            "rates", Calls::rates,
            "arrays", Bulk::arrays,
            "beside-bulk", Bulk::beside,
            "farm", Farm::measure,
            "many", Many::measure,
            "sizes", Sizes::measure));

    static {
        ROWS.put("kills", Kills::measure); // Map.of ends at ten
        ROWS.put("lost", Lost::measure);
    }

    private static boolean quick;

    private Main() {}

    public static void main(String[] args) {
        quick = args.length > 1 && args[1].equals("quick");
        Row row = args.length == 0 ? null : ROWS.get(args[0]);
        if (row == null) {
            System.err.println("rows: " + String.join(" ", ROWS.keySet()));
            System.exit(2);
        }
        try {
            row.measure();
        } catch (Throwable e) {
            e.printStackTrace();
            missing("-", e.toString());
        }
        System.exit(0); // what a failed row left does not hold us
    }

    /** The full number of rounds, or a tenth of it when in a hurry. */
    static int rounds(int full) {
        return quick ? Math.max(3, full / 10) : full;
    }

    static synchronized void sample(String series, String unit, double value) {
        System.out.printf(Locale.ROOT, "sample\t%s\t%s\t%.9g%n", series, unit, value);
        System.out.flush();
    }

    static void seconds(String series, long ns) {
        sample(series, "seconds", ns / 1e9);
    }

    /** A point of one of the paper's figures. */
    static synchronized void point(String curve, double x, double y) {
        System.out.printf(Locale.ROOT, "point\t%s\t%.9g\t%.9g%n", curve, x, y);
        System.out.flush();
    }

    static synchronized void note(String text) {
        System.out.println("note\t" + text.replaceAll("\\s+", " "));
    }

    static synchronized void missing(String series, String why) {
        System.out.println("missing\t" + series + "\t" + why.replaceAll("\\s+", " "));
    }
}
