package silf.jpop.bb.problems;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import silf.jojo.JojoException;
import silf.jpop.Settings;
import silf.jpop.Words;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Source;

/**
 * The 0/1 knapsack: items of the most value that a capacity holds. Items are decided by value for their weight, the best first,
 * and Dantzig's bound fills the rest with a part of the first that does not fit.
 *
 * @param values by item, best for its weight first
 * @param weights likewise
 * @param names which item of the instance it is, from 0
 */
public record Knapsack(long capacity, long[] values, long[] weights, int[] names) implements Problem<Knapsack.Load> {
    private static final long serialVersionUID = 1;
    /** A decision is a level of the search. */
    static final int ITEMS_MOST = 10_000;
    /** Sums of all items stay below {@link Problem#VALUE_MOST}. */
    static final long EACH_MOST = 1L << 46;

    /**
     * What was decided of the first items.
     *
     * @param taken the last that was put in; null for none
     */
    public record Load(int decided, long value, long weight, Taken taken) {
        @Override
        public String toString() {
            StringBuilder items = new StringBuilder();
            for (Taken each = taken; each != null; each = each.before()) {
                items.insert(0, " " + each.item());
            }
            return "value " + value + ", weight " + weight + ", items" + items + ", " + decided + " decided";
        }
    }

    public record Taken(int item, Taken before) {}

    /** {@code jpop.instance}: a file of the usual form, the count of items and the capacity, then value and weight of each. */
    public static final class From implements Source {
        @Override
        public Problem<?> problem(Settings settings) throws JojoException {
            return read(Words.of(settings.needed("jpop.instance", "the file with the items")));
        }
    }

    public static Knapsack of(long capacity, long[] values, long[] weights) {
        Integer[] order = IntStream.range(0, values.length).boxed().toArray(Integer[]::new);
        java.util.Arrays.sort(order, Comparator.<Integer>comparingDouble(i -> -(double) values[i] / Math.max(weights[i], 1e-9)));
        long[] v = new long[order.length];
        long[] w = new long[order.length];
        int[] names = new int[order.length];
        for (int i = 0; i < order.length; i++) {
            names[i] = order[i];
            v[i] = values[order[i]];
            w[i] = weights[order[i]];
        }
        return new Knapsack(capacity, v, w, names);
    }

    public static Knapsack read(Words words) throws JojoException {
        int count = (int) words.number("the count of items", 1, ITEMS_MOST);
        long capacity = words.number("the capacity", 0, EACH_MOST);
        long[] values = new long[count];
        long[] weights = new long[count];
        for (int i = 0; i < count; i++) {
            values[i] = words.number("the value of item " + i, 0, EACH_MOST);
            weights[i] = words.number("the weight of item " + i, 0, EACH_MOST);
        }
        words.end();
        return of(capacity, values, weights);
    }

    @Override
    public boolean maximises() {
        return true;
    }

    @Override
    public Load root() {
        return new Load(0, 0, 0, null);
    }

    @Override
    public List<Load> branch(Load load) {
        int item = load.decided;
        if (item == values.length) {
            return List.of();
        }
        List<Load> below = new ArrayList<>(2);
        if (load.weight + weights[item] <= capacity) {
            below.add(new Load(item + 1, load.value + values[item], load.weight + weights[item], new Taken(names[item], load.taken)));
        }
        below.add(new Load(item + 1, load.value, load.weight, load.taken));
        return below;
    }

    @Override
    public long bound(Load load) {
        long value = load.value;
        long room = capacity - load.weight;
        for (int i = load.decided; i < values.length; i++) {
            if (weights[i] > room) {
                return value + part(values[i], room, weights[i]);
            }
            value += values[i];
            room -= weights[i];
        }
        return value;
    }

    /** {@code value * room / weight}, rounded down, exactly. */
    private static long part(long value, long room, long weight) {
        if (Math.multiplyHigh(value, room) == 0 && value * room >= 0) {
            return value * room / weight;
        }
        return BigInteger.valueOf(value).multiply(BigInteger.valueOf(room)).divide(BigInteger.valueOf(weight)).longValueExact();
    }

    @Override
    public OptionalLong value(Load load) {
        return load.decided == values.length ? OptionalLong.of(load.value) : OptionalLong.empty();
    }

    @Override
    public String toString() {
        return "knapsack of " + values.length + " items";
    }
}
