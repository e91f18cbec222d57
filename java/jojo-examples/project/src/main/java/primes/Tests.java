package primes;

import java.math.BigInteger;
import silf.jojo.work.Worker;

/** Says of a number whether it is prime. */
public class Tests extends Worker<Integer, Boolean> {
    private static final int SURE = 50;

    @Override
    protected Boolean work(Integer number) {
        return BigInteger.valueOf(number).isProbablePrime(SURE);
    }
}
