package silf.jpop;

import java.util.Map;
import java.util.TreeMap;
import silf.jojo.JojoException;

/**
 * Symmetric instances of TSPLIB 95: EUC_2D, and EXPLICIT as a whole matrix or a triangle by rows. Not in it: its other distances,
 * and how a tour is found.
 */
public final class Cities {
    /** Ways of a matrix of this many are 25 million numbers. */
    static final int CITIES_MOST = 5_000;
    static final long DISTANCE_MOST = 1_000_000_000_000L;
    private static final double COORDINATE_MOST = 1e11;

    private Cities() {}

    /** @return the distances, both ways the same */
    public static long[][] read(Words words) throws JojoException {
        Map<String, String> said = new TreeMap<>();
        long[][] ways = null;
        while (!words.isAtEnd()) {
            String key = words.word("a keyword");
            if (key.equals("EOF")) {
                words.end();
                break;
            }
            switch (key.replaceAll(":$", "")) {
                case "NAME", "COMMENT", "DISPLAY_DATA_TYPE" -> words.line();
                case "TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE" -> {
                    String value = words.line().replaceFirst("^:", "").strip();
                    if (said.put(key.replaceAll(":$", ""), value) != null) {
                        throw words.wrong("a second " + key);
                    }
                }
                case "NODE_COORD_SECTION" -> ways = once(words, ways, euclid(words, said));
                case "EDGE_WEIGHT_SECTION" -> ways = once(words, ways, explicit(words, said));
                case "DISPLAY_DATA_SECTION" -> {
                    for (int i = 0; i < 3 * dimension(words, said); i++) {
                        words.decimal("where to draw a city", COORDINATE_MOST);
                    }
                }
                default -> throw words.wrong(key + " is no keyword of TSPLIB that is known here");
            }
        }
        if (ways == null) {
            throw words.wrong("the text ends without NODE_COORD_SECTION or EDGE_WEIGHT_SECTION");
        }
        return ways;
    }

    private static long[][] once(Words words, long[][] before, long[][] ways) throws JojoException {
        if (before != null) {
            throw words.wrong("the distances are given twice");
        }
        return ways;
    }

    private static int dimension(Words words, Map<String, String> said) throws JojoException {
        String type = said.getOrDefault("TYPE", "TSP");
        if (!type.equals("TSP")) {
            throw words.wrong("TYPE is " + type + ", only TSP is read here");
        }
        String text = said.get("DIMENSION");
        if (text == null) {
            throw words.wrong("a section before DIMENSION");
        }
        int count;
        try {
            count = Integer.parseInt(text);
        } catch (NumberFormatException e) {
            throw words.wrong("DIMENSION is " + text + ", which is no number");
        }
        if (count < 1 || count > CITIES_MOST) {
            throw words.wrong("DIMENSION is " + count + ", which is not from 1 to " + CITIES_MOST);
        }
        return count;
    }

    private static void weights(Words words, Map<String, String> said, String type) throws JojoException {
        if (!type.equals(said.get("EDGE_WEIGHT_TYPE"))) {
            throw words.wrong("EDGE_WEIGHT_TYPE is " + said.get("EDGE_WEIGHT_TYPE") + ", this section wants " + type);
        }
    }

    private static long[][] euclid(Words words, Map<String, String> said) throws JojoException {
        int count = dimension(words, said);
        weights(words, said, "EUC_2D");
        double[] x = new double[count];
        double[] y = new double[count];
        boolean[] seen = new boolean[count];
        for (int i = 0; i < count; i++) {
            int city = (int) words.number("a city", 1, count) - 1;
            if (seen[city]) {
                throw words.wrong("city " + (city + 1) + " a second time");
            }
            seen[city] = true;
            x[city] = words.decimal("a coordinate", COORDINATE_MOST);
            y[city] = words.decimal("a coordinate", COORDINATE_MOST);
        }
        long[][] ways = new long[count][count];
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++) {
                ways[i][j] = (long) (Math.sqrt((x[i] - x[j]) * (x[i] - x[j]) + (y[i] - y[j]) * (y[i] - y[j])) + 0.5);
            }
        }
        return ways;
    }

    private static long[][] explicit(Words words, Map<String, String> said) throws JojoException {
        int count = dimension(words, said);
        weights(words, said, "EXPLICIT");
        String form = said.getOrDefault("EDGE_WEIGHT_FORMAT", "none");
        boolean whole = form.equals("FULL_MATRIX");
        boolean lower = form.startsWith("LOWER_");
        boolean diagonal = whole || form.endsWith("_DIAG_ROW");
        if (!whole && !form.matches("(LOWER|UPPER)_(DIAG_)?ROW")) {
            throw words.wrong("EDGE_WEIGHT_FORMAT is " + form + "; read are FULL_MATRIX, UPPER_ROW, LOWER_ROW, UPPER_DIAG_ROW, LOWER_DIAG_ROW");
        }
        long[][] ways = new long[count][count];
        for (int i = 0; i < count; i++) {
            for (int j = whole || lower ? 0 : i; j < (whole || !lower ? count : i + 1); j++) {
                if (i == j && !diagonal) {
                    continue;
                }
                // The diagonal is anything; some files have 9999 there.
                long way = words.number("a distance", i == j ? Long.MIN_VALUE : 0, i == j ? Long.MAX_VALUE : DISTANCE_MOST);
                if (i == j) {
                    continue;
                }
                if (whole && j < i && ways[i][j] != way) {
                    throw words.wrong("the way from " + (i + 1) + " to " + (j + 1) + " is " + way + ", back it is " + ways[j][i]);
                }
                ways[i][j] = way;
                ways[j][i] = way;
            }
        }
        return ways;
    }
}
