package silf.jpop.bb.problems;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalLong;
import silf.jojo.JojoException;
import silf.jpop.Cities;
import silf.jpop.Settings;
import silf.jpop.Words;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Source;

/**
 * The travelling salesman, both ways the same. Tours grow from the first city; what is left is a path, and no path is shorter than
 * a spanning tree. Trees are drawn over ways to which each city adds a toll (Held and Karp, 1970), the tolls being those that make
 * the tree of the whole most like a tour; they are found once, in whole numbers, so that the bound is exact.
 *
 * @param ways distances
 * @param tolls by city, may be negative
 */
public record Salesman(long[][] ways, long[] tolls) implements Problem<Salesman.Tour> {
    private static final long serialVersionUID = 1;
    /** Steps towards the tolls; more gain little. */
    private static final int STEPS = 300;
    /** With these all is a matter of hours and up; a genetic algorithm is the better tool. */
    static final int CITIES_MOST = 200;

    /** The first cities in their order, and how far it is to the last of them; with all of them, back to the first. */
    public record Tour(int[] cities, long length) {
        @Override
        public String toString() {
            return "length " + length + ", cities " + Arrays.toString(Arrays.stream(cities).map(city -> city + 1).toArray());
        }
    }

    /** {@code jpop.instance}: a file of TSPLIB. */
    public static final class From implements Source {
        @Override
        public Problem<?> problem(Settings settings) throws JojoException {
            long[][] ways = Cities.read(Words.of(settings.needed("jpop.instance", "a file of TSPLIB")));
            if (ways.length > CITIES_MOST) {
                throw new JojoException(ways.length + " cities are more than branch and bound can do: at most " + CITIES_MOST
                        + "; jpop-ga takes more");
            }
            return of(ways);
        }
    }

    public static Salesman of(long[][] ways) {
        int count = ways.length;
        long[] tolls = new long[count];
        long[] best = tolls.clone();
        long bestBound = Long.MIN_VALUE;
        long step = Math.max(1, Arrays.stream(ways).mapToLong(row -> Arrays.stream(row).max().orElse(0)).max().orElse(0) / 10);
        int[] all = java.util.stream.IntStream.range(0, count).toArray();
        for (int i = 0; i < STEPS && count > 2; i++) {
            int[] degrees = new int[count];
            long bound = new Salesman(ways, tolls).tree(all, degrees);
            // Two ways are missing to a tour, so this is a path's bound; its tolls serve as well.
            for (int city = 0; city < count; city++) {
                bound -= 2 * tolls[city];
            }
            if (bound > bestBound) {
                bestBound = bound;
                best = tolls.clone();
            }
            tolls = tolls.clone();
            for (int city = 0; city < count; city++) {
                tolls[city] += step * (degrees[city] - 2);
            }
            if (i % 10 == 9) {
                step = Math.max(1, step * 3 / 4);
            }
        }
        return new Salesman(ways, best);
    }

    /** The smallest spanning tree of these cities, with tolls; counts ways at each. */
    private long tree(int[] cities, int[] degrees) {
        int count = cities.length;
        long[] near = new long[count];
        int[] to = new int[count];
        boolean[] in = new boolean[count];
        Arrays.fill(near, Long.MAX_VALUE);
        int last = 0;
        in[0] = true;
        long sum = 0;
        for (int i = 1; i < count; i++) {
            int next = -1;
            for (int j = 0; j < count; j++) {
                if (!in[j]) {
                    long way = ways[cities[last]][cities[j]] + tolls[cities[last]] + tolls[cities[j]];
                    if (way < near[j]) {
                        near[j] = way;
                        to[j] = last;
                    }
                    if (next < 0 || near[j] < near[next]) {
                        next = j;
                    }
                }
            }
            in[next] = true;
            sum += near[next];
            if (degrees != null) {
                degrees[cities[next]]++;
                degrees[cities[to[next]]]++;
            }
            last = next;
        }
        return sum;
    }

    @Override
    public Tour root() {
        return new Tour(new int[] {0}, 0);
    }

    @Override
    public List<Tour> branch(Tour tour) {
        int count = ways.length;
        if (tour.cities.length == count) {
            return List.of();
        }
        boolean[] seen = new boolean[count];
        for (int city : tour.cities) {
            seen[city] = true;
        }
        int last = tour.cities[tour.cities.length - 1];
        List<Tour> below = new ArrayList<>();
        for (int city = 0; city < count; city++) {
            if (!seen[city]) {
                int[] cities = Arrays.copyOf(tour.cities, tour.cities.length + 1);
                cities[tour.cities.length] = city;
                long length = tour.length + ways[last][city] + (cities.length == count ? ways[city][0] : 0);
                below.add(new Tour(cities, length));
            }
        }
        below.sort(Comparator.comparingLong(Tour::length)); // stable: equal ones by city
        return below;
    }

    @Override
    public long bound(Tour tour) {
        int count = ways.length;
        if (tour.cities.length == count) {
            return tour.length;
        }
        int last = tour.cities[tour.cities.length - 1];
        boolean[] seen = new boolean[count];
        for (int city : tour.cities) {
            seen[city] = true;
        }
        int[] left = new int[count - tour.cities.length + (last == 0 ? 1 : 2)];
        left[0] = last;
        int at = 1;
        long tolls = this.tolls[last] + this.tolls[0];
        for (int city = 0; city < count; city++) {
            if (!seen[city]) {
                left[at++] = city;
                tolls += 2 * this.tolls[city];
            }
        }
        if (last != 0) {
            left[at] = 0;
            return tour.length + tree(left, null) - tolls;
        }
        // Of the whole tour: a tree of all, and the shortest way that closes it at the first city, which has then two.
        long close = Long.MAX_VALUE;
        long second = Long.MAX_VALUE;
        for (int city = 1; city < count; city++) {
            long way = ways[0][city] + this.tolls[0] + this.tolls[city];
            second = Math.min(second, Math.max(close, way));
            close = Math.min(close, way);
        }
        int[] others = Arrays.copyOfRange(left, 1, left.length);
        long bound = tree(others, null) + close + (count > 2 ? second : close) - tolls;
        return tour.length + bound;
    }

    @Override
    public OptionalLong value(Tour tour) {
        return tour.cities.length == ways.length ? OptionalLong.of(tour.length) : OptionalLong.empty();
    }

    @Override
    public String toString() {
        return "tour of " + ways.length + " cities";
    }
}
