import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import silf.jojo.JojoException;
import silf.jpop.Settings;
import silf.jpop.bb.Problem;
import silf.jpop.bb.Source;

/** Queens that do not see each other, one a row, on fields with prices: the cheapest way to place them. */
public record Queens(int size) implements Problem<Queens.Placed> {
    public record Placed(int[] columns, long price) {}

    /** For {@code kumiko jojo}: the size is the property queens. */
    public static class From implements Source {
        public Problem<?> problem(Settings settings) throws JojoException {
            return new Queens((int) settings.number("queens", 8, 1, 30));
        }
    }

    long price(int row, int column) {
        return 1 + (row * 37 + column * 61) % 23;
    }

    public Placed root() {
        return new Placed(new int[0], 0);
    }

    public List<Placed> branch(Placed placed) {
        List<Placed> below = new ArrayList<>();
        int row = placed.columns.length;
        for (int column = 0; row < size && column < size; column++) {
            boolean seen = false;
            for (int other = 0; other < row; other++) {
                seen |= placed.columns[other] == column || Math.abs(placed.columns[other] - column) == row - other;
            }
            if (!seen) {
                int[] columns = Arrays.copyOf(placed.columns, row + 1);
                columns[row] = column;
                below.add(new Placed(columns, placed.price + price(row, column)));
            }
        }
        return below;
    }

    public long bound(Placed placed) {
        return placed.price + (size - placed.columns.length); // no field is cheaper than 1
    }

    public OptionalLong value(Placed placed) {
        return placed.columns.length == size ? OptionalLong.of(placed.price) : OptionalLong.empty();
    }

    public String show(Placed placed) {
        return "columns " + Arrays.toString(placed.columns);
    }
}
