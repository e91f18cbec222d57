package silf.jpop.ga;

import java.util.random.RandomGenerator;

/** SplitMix64 (Steele, Lea and Flood, 2014): its state is one number, so that a checkpoint can have it. */
final class Seeded implements RandomGenerator {
    private static final long STEP = 0x9e3779b97f4a7c15L;

    private long state;

    Seeded(long state) {
        this.state = state;
    }

    /** Of a run's seed and a place of the tree. */
    static Seeded of(long seed, String place) {
        Seeded random = new Seeded(seed);
        for (char c : place.toCharArray()) {
            random = new Seeded(random.nextLong() ^ c);
        }
        return new Seeded(random.nextLong());
    }

    long state() {
        return state;
    }

    @Override
    public long nextLong() {
        long z = state += STEP;
        z = (z ^ z >>> 30) * 0xbf58476d1ce4e5b9L;
        z = (z ^ z >>> 27) * 0x94d049bb133111ebL;
        return z ^ z >>> 31;
    }
}
