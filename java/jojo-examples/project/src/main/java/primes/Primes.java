package primes;

import java.util.Map;
import silf.jojo.JojoException;
import silf.jojo.work.Master;

/** Counts primes: gives out numbers, and takes what workers say of each. */
public class Primes extends Master<Integer, Boolean> {
    private int most;
    private int next = 2;
    private int primes;

    @Override
    public void init(@SuppressWarnings("rawtypes") Map arg) {
        most = Integer.parseInt((String) arg.get("most"));
    }

    @Override
    protected Integer next() {
        return next <= most ? next++ : null;
    }

    @Override
    protected void result(Integer number, Boolean prime) {
        primes += prime ? 1 : 0;
    }

    @Override
    public void start() throws JojoException {
        super.start();
        System.out.println(primes + " primes up to " + most);
    }
}
