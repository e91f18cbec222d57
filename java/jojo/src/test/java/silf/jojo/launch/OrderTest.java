package silf.jojo.launch;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import silf.jojo.Code;
import silf.jojo.Jojo;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.Invocation;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Processes;

/** The order in which a tree starts and ends (spec/jojo J18; docs/guide/jojo-trees.md has it for people). */
public final class OrderTest {
    private static final List<String> EVENTS = new ArrayList<>();

    /** Tells the client of each step, by way of its parent. */
    public static class Teller extends Code {
        void tell(String event) throws JojoException {
            parent.call(new Message(0, event));
        }

        @Override
        @SuppressWarnings("rawtypes")
        public void init(Map arg) throws JojoException {
            tell("init " + self().name());
        }

        @Override
        public void start() throws JojoException {
            tell("start " + self().name());
            tell("end " + self().name());
        }

        @Override
        public Object handle(Message message) throws JojoException {
            return parent.call(message);
        }
    }

    /** The client: keeps what it is told. */
    public static final class Listener extends Teller {
        @Override
        void tell(String event) {
            synchronized (EVENTS) {
                EVENTS.add(event);
            }
        }

        @Override
        public Object handle(Message message) {
            tell((String) message.contents);
            return null;
        }
    }

    public void every_init_is_over_before_any_start_and_every_start_before_the_end() throws Exception {
        String mark = UUID.randomUUID().toString();
        Invocation how = new Invocation(NodeSpec.LOCAL, "java", List.of("-Djojo.mark=" + mark), List.of(), 60_000, Map.of());
        String teller = Teller.class.getName();
        NodeSpec leaf0 = NodeSpec.of("leaf0", "local", teller).withInvocation(how);
        NodeSpec leaf1 = NodeSpec.of("leaf1", "local", teller).withInvocation(how);
        NodeSpec head = NodeSpec.of("head", "local", teller, leaf0, leaf1).withInvocation(how);
        EVENTS.clear();
        int status = Jojo.run(NodeSpec.of("client", "client", Listener.class.getName(), head), new Properties());
        Check.equal(0, status, "status");
        List<String> names = List.of("client", "head", "leaf0", "leaf1");
        String told = EVENTS.toString();
        Check.equal(3 * names.size(), EVENTS.size(), told);
        for (String name : names) {
            for (String other : names) {
                Check.that(EVENTS.indexOf("init " + name) < EVENTS.indexOf("start " + other), "every init before any start: " + told);
            }
            Check.that(EVENTS.contains("end " + name), "each start has ended when the client returns: " + told);
        }
        Check.that(EVENTS.indexOf("init client") < EVENTS.indexOf("init head"), "a parent's init before what is below can speak: " + told);
        Check.that(EVENTS.indexOf("init head") < EVENTS.indexOf("init leaf0"), "a parent's init before what is below can speak: " + told);
        Check.that(Processes.goneWithin_ms(mark, 5000) >= 0, "a JVM outlives the program");
    }
}
