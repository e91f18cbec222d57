package silf.jpop.bb.problems;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.OptionalLong;
import silf.jojo.JojoException;
import silf.jpop.Settings;
import silf.jpop.Words;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Source;

/**
 * The maximum clique: most vertices of a graph that all know each other. As Tomita and Seki have it (MCQ, 2003): candidates are
 * coloured greedily; there can be no more of them in a clique than colours, and those of the last colours are tried first.
 *
 * @param edges for each vertex, those it knows
 */
public record Clique(BitSet[] edges) implements Problem<Clique.Part> {
    private static final long serialVersionUID = 1;
    /** A graph's matrix is then 12 MB. */
    static final int VERTICES_MOST = 10_000;

    /**
     * A clique, and who might join it.
     *
     * @param candidates in the order of their colours
     * @param colours of each, from 1, ascending
     */
    public record Part(int[] vertices, int[] candidates, int[] colours) {
        @Override
        public String toString() {
            int[] named = vertices.clone();
            java.util.Arrays.sort(named);
            for (int i = 0; i < named.length; i++) {
                named[i]++; // as DIMACS counts
            }
            return "vertices " + java.util.Arrays.toString(named);
        }
    }

    /** {@code jpop.instance}: a graph in the form of DIMACS. */
    public static final class From implements Source {
        @Override
        public Problem<?> problem(Settings settings) throws JojoException {
            return read(Words.of(settings.needed("jpop.instance", "a graph in the form of DIMACS")));
        }
    }

    public static Clique of(int vertices, java.util.function.BiPredicate<Integer, Integer> know) {
        BitSet[] edges = new BitSet[vertices];
        for (int i = 0; i < vertices; i++) {
            edges[i] = new BitSet(vertices);
            for (int j = 0; j < vertices; j++) {
                edges[i].set(j, i != j && know.test(i, j));
            }
        }
        return new Clique(edges);
    }

    public static Clique read(Words words) throws JojoException {
        BitSet[] edges = null;
        long told = 0;
        long seen = 0;
        while (!words.isAtEnd()) {
            String kind = words.word("a line");
            switch (kind) {
                case "c" -> words.line();
                case "p" -> {
                    if (edges != null) {
                        throw words.wrong("a second line p");
                    }
                    String form = words.word("\"edge\" or \"col\"");
                    if (!form.equals("edge") && !form.equals("col")) {
                        throw words.wrong(form + " where \"edge\" or \"col\" should be");
                    }
                    edges = new BitSet[(int) words.number("the number of vertices", 1, VERTICES_MOST)];
                    for (int i = 0; i < edges.length; i++) {
                        edges[i] = new BitSet(edges.length);
                    }
                    told = words.number("the number of edges", 0, Long.MAX_VALUE);
                }
                case "e" -> {
                    if (edges == null) {
                        throw words.wrong("an edge before the line p");
                    }
                    int a = (int) words.number("a vertex", 1, edges.length) - 1;
                    int b = (int) words.number("a vertex", 1, edges.length) - 1;
                    if (a == b) {
                        throw words.wrong("an edge from " + (a + 1) + " to itself");
                    }
                    edges[a].set(b);
                    edges[b].set(a);
                    seen++;
                }
                default -> throw words.wrong(kind + " where c, p or e should begin a line");
            }
        }
        if (edges == null) {
            throw words.wrong("there is no line p");
        }
        if (seen != told) { // some files of DIMACS have each edge twice, and say so
            throw words.wrong("the text ends after " + seen + " edges of " + told);
        }
        return new Clique(edges);
    }

    @Override
    public boolean maximises() {
        return true;
    }

    @Override
    public Part root() {
        // Those with most edges first, which are then coloured first.
        int[] all = java.util.stream.IntStream.range(0, edges.length).boxed()
                .sorted(java.util.Comparator.comparing(v -> -edges[v].cardinality())).mapToInt(v -> v).toArray();
        return coloured(new int[0], all);
    }

    private Part coloured(int[] vertices, int[] candidates) {
        List<List<Integer>> classes = new ArrayList<>();
        for (int vertex : candidates) {
            int colour = 0;
            search:
            for (; colour < classes.size(); colour++) {
                for (int other : classes.get(colour)) {
                    if (edges[vertex].get(other)) {
                        continue search;
                    }
                }
                break;
            }
            if (colour == classes.size()) {
                classes.add(new ArrayList<>());
            }
            classes.get(colour).add(vertex);
        }
        int[] order = new int[candidates.length];
        int[] colours = new int[candidates.length];
        int count = 0;
        for (int colour = 0; colour < classes.size(); colour++) {
            for (int vertex : classes.get(colour)) {
                order[count] = vertex;
                colours[count++] = colour + 1;
            }
        }
        return new Part(vertices, order, colours);
    }

    @Override
    public List<Part> branch(Part part) {
        List<Part> below = new ArrayList<>();
        for (int i = part.candidates.length - 1; i >= 0; i--) {
            int vertex = part.candidates[i];
            int[] vertices = java.util.Arrays.copyOf(part.vertices, part.vertices.length + 1);
            vertices[part.vertices.length] = vertex;
            int[] candidates = new int[i];
            int count = 0;
            for (int j = 0; j < i; j++) {
                if (edges[vertex].get(part.candidates[j])) {
                    candidates[count++] = part.candidates[j];
                }
            }
            below.add(coloured(vertices, java.util.Arrays.copyOf(candidates, count)));
        }
        return below;
    }

    @Override
    public long bound(Part part) {
        return part.vertices.length + (part.colours.length == 0 ? 0 : part.colours[part.colours.length - 1]);
    }

    @Override
    public OptionalLong value(Part part) {
        return OptionalLong.of(part.vertices.length);
    }

    @Override
    public String toString() {
        return "clique of " + edges.length + " vertices";
    }
}
