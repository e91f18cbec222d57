package silf.jpop.ga.problems;

import java.io.ByteArrayOutputStream;
import java.io.Serializable;
import java.util.random.RandomGenerator;
import silf.jojo.JojoException;
import silf.jpop.Damaged;
import silf.jpop.Numbers;
import silf.jpop.Settings;
import silf.jpop.ga.Crossover;
import silf.jpop.ga.Evolution;
import silf.jpop.ga.Individuals;
import silf.jpop.ga.Mutation;
import silf.jpop.ga.Source;

/**
 * Points of so many dimensions within a cube, and the value of a function there as their cost.
 *
 * @param function what is to be small
 */
public record Real(Function function, int dimensions) implements Individuals<double[]> {
    private static final long serialVersionUID = 1;
    static final int DIMENSIONS_MOST = 10_000;

    /** A function of a point. */
    public interface Function extends Serializable {
        double at(double[] x);

        /** The cube is from minus this to this in each dimension. */
        double edge();
    }

    /** Functions that others are measured by; each is 0 at its least. */
    public enum Known implements Function {
        RASTRIGIN(5.12) {
            @Override
            public double at(double[] x) {
                double sum = 10.0 * x.length;
                for (double each : x) {
                    sum += each * each - 10 * Math.cos(2 * Math.PI * each);
                }
                return sum;
            }
        },
        ROSENBROCK(2.048) {
            @Override
            public double at(double[] x) {
                double sum = 0;
                for (int i = 0; i + 1 < x.length; i++) {
                    double valley = x[i + 1] - x[i] * x[i];
                    sum += 100 * valley * valley + (1 - x[i]) * (1 - x[i]);
                }
                return sum;
            }
        },
        ACKLEY(32.768) {
            @Override
            public double at(double[] x) {
                double squares = 0;
                double cosines = 0;
                for (double each : x) {
                    squares += each * each;
                    cosines += Math.cos(2 * Math.PI * each);
                }
                // Of rounding alone it could come out below 0.
                return Math.max(0, -20 * Math.exp(-0.2 * Math.sqrt(squares / x.length)) - Math.exp(cosines / x.length) + 20 + Math.E);
            }
        };

        private final double edge;

        Known(double edge) {
            this.edge = edge;
        }

        @Override
        public double edge() {
            return edge;
        }
    }

    public Real {
        if (dimensions < 1 || dimensions > DIMENSIONS_MOST) {
            throw new IllegalArgumentException(dimensions + " dimensions, which is not from 1 to " + DIMENSIONS_MOST);
        }
    }

    /**
     * {@code jpop.function} (rastrigin, rosenbrock, ackley), {@code jpop.dimensions}, {@code jpop.crossover} (blx, sbx), {@code
     * jpop.generations}, {@code jpop.seed}.
     */
    public static final class From implements Source {
        @Override
        public Evolution<?> evolution(Settings settings) throws JojoException {
            String name = settings.needed("jpop.function", "rastrigin, rosenbrock or ackley");
            Known function = null;
            for (Known each : Known.values()) {
                function = each.name().equalsIgnoreCase(name) ? each : function;
            }
            if (function == null) {
                throw new JojoException("the property jpop.function is " + name + ", which is not rastrigin, rosenbrock or ackley");
            }
            String cross = settings.text("jpop.crossover") == null ? "sbx" : settings.text("jpop.crossover");
            if (!cross.equals("sbx") && !cross.equals("blx")) {
                throw new JojoException("the property jpop.crossover is " + cross + ", which is not blx or sbx");
            }
            Real real = new Real(function, (int) settings.number("jpop.dimensions", 10, 1, DIMENSIONS_MOST));
            return real.evolution(cross.equals("sbx") ? new Sbx(real, 10) : new Blx(real, 0.5))
                    .until(settings.number("jpop.generations", 1_000, 0, Long.MAX_VALUE), 1e-6)
                    .withSeed(settings.number("jpop.seed", 1, Long.MIN_VALUE, Long.MAX_VALUE));
        }
    }

    /** With this crossover, and a mutation of one dimension in so many. */
    public Evolution<double[]> evolution(Crossover<double[]> crossover) {
        return Evolution.of(this, crossover, new Nudge(this, 1.0 / dimensions, 0.05));
    }

    double within(double x) {
        return Math.max(-function.edge(), Math.min(function.edge(), x));
    }

    @Override
    public double[] random(RandomGenerator random) {
        double[] x = new double[dimensions];
        for (int i = 0; i < x.length; i++) {
            x[i] = (2 * random.nextDouble() - 1) * function.edge();
        }
        return x;
    }

    @Override
    public double cost(double[] x) {
        return function.at(x);
    }

    @Override
    public void write(ByteArrayOutputStream out, double[] x) {
        for (double each : x) {
            Numbers.putBits(out, Double.doubleToLongBits(each));
        }
    }

    @Override
    public double[] read(Numbers in) throws Damaged {
        double[] x = new double[dimensions];
        for (int i = 0; i < x.length; i++) {
            x[i] = Double.longBitsToDouble(in.bits());
            if (!(Math.abs(x[i]) <= function.edge())) {
                throw in.damaged("coordinate " + i + " is " + x[i]);
            }
        }
        return x;
    }

    @Override
    public String show(double[] x) {
        return java.util.Arrays.toString(x);
    }

    /**
     * BLX-alpha (Eshelman and Schaffer, 1993): each coordinate anywhere between the parents' and a part of their distance beyond.
     */
    public record Blx(Real of, double alpha) implements Crossover<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public double[] cross(double[] one, double[] other, RandomGenerator random) {
            double[] x = new double[one.length];
            for (int i = 0; i < x.length; i++) {
                double beyond = alpha * Math.abs(one[i] - other[i]);
                double low = Math.min(one[i], other[i]) - beyond;
                double high = Math.max(one[i], other[i]) + beyond;
                x[i] = of.within(low + random.nextDouble() * (high - low));
            }
            return x;
        }
    }

    /** SBX (Deb and Agrawal, 1995): spread as with bits crossed at one place; the larger eta, the nearer to the parents. */
    public record Sbx(Real of, double eta) implements Crossover<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public double[] cross(double[] one, double[] other, RandomGenerator random) {
            double[] x = new double[one.length];
            for (int i = 0; i < x.length; i++) {
                double u = random.nextDouble();
                double spread = u <= 0.5 ? Math.pow(2 * u, 1 / (eta + 1)) : Math.pow(1 / (2 * (1 - u)), 1 / (eta + 1));
                double sign = random.nextBoolean() ? spread : -spread;
                x[i] = random.nextBoolean() ? of.within(0.5 * (one[i] + other[i] + sign * (one[i] - other[i]))) : one[i];
            }
            return x;
        }
    }

    /** Moves a coordinate now and then, by a normal distribution; every other time by a hundredth of that. */
    public record Nudge(Real of, double rate, double width) implements Mutation<double[]> {
        private static final long serialVersionUID = 1;

        @Override
        public double[] mutate(double[] from, RandomGenerator random) {
            double[] x = from.clone();
            for (int i = 0; i < x.length; i++) {
                if (random.nextDouble() < rate) {
                    double by = random.nextGaussian() * width * of.function.edge();
                    x[i] = of.within(x[i] + (random.nextBoolean() ? by : by / 100));
                }
            }
            return x;
        }
    }
}
