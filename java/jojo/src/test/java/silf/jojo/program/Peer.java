package silf.jojo.program;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;

/** A node of a test, that does as it is told. */
public class Peer extends Code {
    public static final int ECHO = 1;
    public static final int FAIL = 2;
    public static final int WAIT = 3;
    public static final int RELEASE = 4;
    public static final int ASK_SIBLING = 5;
    public static final int BOUNCE = 6;
    public static final int NOTE = 7;
    public static final int NOTES = 8;
    public static final int PRINT = 9;
    public static final int DIE = 10;
    public static final int RANK = 11;
    public static final int RELAY = 12;
    public static final int PID = 13;
    public static final int WAS_INTERRUPTED = 14;
    public static final int SLEEP = 15;
    public static final int NEWS = 16;
    public static final int SELF = 17;
    public static final int FLOOD = 18;

    public static final int FLOOD_SIBLING = 19;
    public static final int EXIT = 20;
    public static final int STUBBORN = 21;
    public static final int ENTER = 22;
    public static final int JOIN = 23;

    /** How one dies that is told to. */
    public static volatile Consumer<String> end = name -> Runtime.getRuntime().halt(3);

    private final CountDownLatch released = new CountDownLatch(1);
    private final List<Object> notes = new ArrayList<>();
    private final List<String> news = new ArrayList<>();
    private volatile boolean interrupted;
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger insideMost = new AtomicInteger();

    /** An exception that only its own class path knows. */
    public static final class Own extends RuntimeException {
        private static final long serialVersionUID = 1;

        public Own(String message) {
            super(message);
        }
    }

    /** A typed message. */
    public record Point(int x, double y, String name, List<Integer> more) implements Serializable {}

    public enum Colour {
        RED,
        GREEN
    }

    /** Its handlers exclude each other, as the paper's do. */
    public static final class Exclusive extends Peer {
        @Override
        public synchronized Object handle(Message mes) throws JojoException {
            return super.handle(mes);
        }
    }

    /** One per node, notes in order. */
    public static final class Orderly extends Peer {
        @Override
        protected boolean ordered() {
            return true;
        }
    }

    @Override
    public Object handle(Message mes) throws JojoException {
        try {
            return act(mes);
        } catch (InterruptedException e) {
            interrupted = true;
            throw new JojoException("interrupted", e);
        }
    }

    private Object act(Message mes) throws JojoException, InterruptedException {
        switch (mes.tag) {
            case ECHO:
                return mes.contents;
            case FAIL:
                throw new Own("no " + mes.contents);
            case WAIT:
                released.await(60, TimeUnit.SECONDS);
                return "released";
            case RELEASE:
                released.countDown();
                return null;
            case ASK_SIBLING:
                return siblings[(Integer) mes.contents].call(new Message(SELF, null));
            case BOUNCE:
                int left = (Integer) mes.contents;
                return left == 0 ? 0 : 1 + (Integer) parent.call(new Message(BOUNCE, left - 1));
            case NOTE:
                synchronized (notes) {
                    notes.add(mes.contents);
                }
                return null;
            case NOTES:
                synchronized (notes) {
                    return new ArrayList<>(notes);
                }
            case PRINT:
                System.out.println(mes.contents);
                System.err.println("err " + mes.contents);
                return null;
            case DIE:
                end.accept(self().name());
                return null;
            case RANK:
                return rank;
            case SELF:
                return self().name();
            case RELAY:
                Object[] way = (Object[]) mes.contents; // ranks, then what to do there
                Node next = descendants[(Integer) way[0]];
                return way.length == 2
                        ? next.call(new Message((Integer) way[1], "deep"))
                        : next.call(new Message(RELAY, Arrays.copyOfRange(way, 1, way.length)));
            case PID:
                return ProcessHandle.current().pid();
            case WAS_INTERRUPTED:
                return interrupted;
            case SLEEP:
                Thread.sleep((Integer) mes.contents);
                return null;
            case NEWS:
                synchronized (news) {
                    return new ArrayList<>(news);
                }
            case FLOOD:
                for (int i = 0; i < (Integer) mes.contents; i++) {
                    parent.send(new Message(NOTE, i));
                }
                return null;
            case EXIT:
                silf.jojo.Jojo.exit(7);
                return null;
            case STUBBORN:
                for (; ; ) {
                    try {
                        TimeUnit.DAYS.sleep(1);
                    } catch (InterruptedException e) {
                        // stays
                    }
                }
            case ENTER: // how many were ever in here at the same time
                insideMost.accumulateAndGet(inside.incrementAndGet(), Math::max);
                Thread.sleep(1);
                inside.decrementAndGet();
                return insideMost.get();
            case JOIN:
                return join((silf.jojo.config.NodeSpec) mes.contents).name();
            case FLOOD_SIBLING:
                int[] range = (int[]) mes.contents; // rank, from, to
                for (int i = range[1]; i < range[2]; i++) {
                    siblings[range[0]].send(new Message(NOTE, i % 500 == 0 ? new int[] {i, 0} : i));
                }
                return null;
            default:
                throw new JojoException("cannot handle the message: " + mes);
        }
    }

    @Override
    public void nodeLost(Node node) {
        synchronized (news) {
            news.add("lost " + node.name());
        }
    }

    @Override
    public void nodeJoined(Node node) {
        synchronized (news) {
            news.add("joined " + node.name());
        }
    }
}
