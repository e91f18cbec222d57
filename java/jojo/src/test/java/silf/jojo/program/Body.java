package silf.jojo.program;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import silf.jojo.Code;
import silf.jojo.Message;
import silf.jojo.Node;

/** The client of a test: its {@code start} is the test. */
public final class Body extends Code {
    /** What a test does at the client. */
    public interface Test {
        void run(Body client) throws Exception;
    }

    private static final Map<String, Test> TESTS = new ConcurrentHashMap<>();

    /** Messages that came here. */
    public final LinkedBlockingQueue<Message> messages = new LinkedBlockingQueue<>();
    /** "lost NAME" and "joined NAME". */
    public final LinkedBlockingQueue<String> news = new LinkedBlockingQueue<>();

    private Test test;

    public static String name(Test test) {
        String name = UUID.randomUUID().toString();
        TESTS.put(name, test);
        return name;
    }

    @Override
    public void init(@SuppressWarnings("rawtypes") Map arg) {
        test = TESTS.remove((String) arg.get("body"));
    }

    @Override
    public void start() throws silf.jojo.JojoException {
        try {
            test.run(this);
        } catch (Exception e) {
            throw e instanceof silf.jojo.JojoException own ? own : new silf.jojo.JojoException("test: " + e, e);
        }
    }

    @Override
    public Object handle(Message mes) {
        messages.add(mes);
        return mes.contents;
    }

    @Override
    public void nodeLost(Node node) {
        news.add("lost " + node.name());
    }

    @Override
    public void nodeJoined(Node node) {
        news.add("joined " + node.name());
    }

    public Node child(int rank) {
        return descendants[rank];
    }

    public Node[] children() {
        return descendants;
    }

    public java.util.List<Object> all(Message message) throws silf.jojo.JojoException {
        return gather(message);
    }

    public void tellAll(Message message) throws silf.jojo.JojoException {
        broadcast(message);
    }

    public Object sum(Message message, Sum how) throws silf.jojo.JojoException {
        return reduce(message, how);
    }

    public Node below(String name) throws silf.jojo.JojoException {
        return find(name);
    }

    public Node add(silf.jojo.config.NodeSpec spec) throws silf.jojo.JojoException {
        return join(spec);
    }

    public void drop(Node node) throws silf.jojo.JojoException {
        leave(node);
    }

    /** A way to combine. */
    public static final class Sum implements java.util.function.BinaryOperator<Object>, java.io.Serializable {
        private static final long serialVersionUID = 1;

        @Override
        public Object apply(Object a, Object b) {
            return (Integer) a + (Integer) b;
        }
    }
}
