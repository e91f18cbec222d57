package silf.jojo.program;

import java.util.concurrent.atomic.AtomicInteger;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** The first of two siblings talks to the other, without waiting for answers, and is done. */
public final class Last extends Code {
    public static final int WORDS = 3_000;

    public static final AtomicInteger heard = new AtomicInteger();

    @Override
    public void start() throws JojoException {
        if (parent != null && rank == 0) {
            for (int i = 0; i < WORDS; i++) {
                siblings[1].send(new Message(1, "word"));
            }
        }
    }

    @Override
    public Object handle(Message mes) {
        heard.incrementAndGet();
        return null;
    }
}
