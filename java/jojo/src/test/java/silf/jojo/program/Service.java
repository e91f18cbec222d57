package silf.jojo.program;

/** What a ServiceLoader finds. */
public final class Service implements Runnable {
    @Override
    public void run() {}
}
