package silf.jojo.core;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BinaryOperator;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;

/**
 * Broadcast, gather and reduce over all nodes below (lane 3, spec/jojo J20): each node passes the message on to its children,
 * handles it, and answers for all of them at once; and who of those below has a name. The body is a list: what to do, the tag,
 * the contents, how to combine.
 */
final class TreeCalls {
    private static final int BROADCAST = 0;
    private static final int GATHER = 1;
    private static final int REDUCE = 2;
    /** 3 is {@link Siblings#MEET}. */
    private static final int FIND = 4;

    private final LocalNode here;

    TreeCalls(LocalNode here) {
        this.here = here;
    }

    private static List<Object> body(int what, Message msg, Object combine) {
        return Arrays.asList(what, msg.tag, msg.contents, combine);
    }

    void broadcast(Message msg) throws JojoException {
        List<Object> body = body(BROADCAST, msg, null);
        JojoException first = null;
        for (NodeHandle node : below()) {
            try {
                node.lane(Post.TREE).send(Frame.SEND, 0, 0, body);
            } catch (JojoException e) {
                first = first == null ? e : first;
            }
        }
        if (first != null) {
            throw first;
        }
    }

    @SuppressWarnings("unchecked")
    List<Object> gather(Message msg) throws JojoException {
        List<Object> all = new ArrayList<>();
        for (Object part : ask(body(GATHER, msg, null))) {
            all.addAll((List<Object>) part);
        }
        return all;
    }

    @SuppressWarnings("unchecked")
    Object reduce(Message msg, Serializable combine) throws JojoException {
        return combine(ask(body(REDUCE, msg, combine)), (BinaryOperator<Object>) combine);
    }

    /** A node anywhere below. */
    NodeHandle find(String name) throws JojoException {
        List<?> found = found(name, Arrays.asList(FIND, 0, name, null));
        if (found == null) {
            throw new JojoException("no node below is named " + name + " and up");
        }
        return new NodeHandle(here, Path.parse((String) found.get(0)), name, (Integer) found.get(1), true);
    }

    /** Path and epoch; null if none is up by this name. */
    private List<?> found(String name, List<Object> body) throws JojoException {
        for (NodeHandle node : below()) {
            if (node.name().equals(name)) {
                return List.of(node.path.toString(), node.epoch());
            }
        }
        List<NodeHandle> asked = below();
        List<PendingCall> calls = new ArrayList<>();
        for (NodeHandle node : asked) {
            calls.add(node.call(Post.TREE, 0, body));
        }
        JojoException lost = null;
        for (int i = 0; i < calls.size(); i++) {
            try {
                if (calls.get(i).touch() instanceof List<?> at && at.size() == 2 && at.get(0) instanceof String path
                        && at.get(1) instanceof Integer && asked.get(i).path.holds(Path.parse(path))) {
                    return at;
                }
            } catch (JojoException e) {
                lost = e; // another may have it
            } catch (IllegalArgumentException e) {
                lost = new JojoException("node " + asked.get(i).name() + " answered with a place that is none", e);
            }
        }
        if (lost != null) {
            throw lost;
        }
        return null;
    }

    private static Object combine(List<Object> parts, BinaryOperator<Object> combine) {
        Object sum = null;
        boolean first = true;
        for (Object part : parts) {
            sum = first ? part : combine.apply(sum, part);
            first = false;
        }
        return sum;
    }

    /** Those that are up: what is given up is gone on without. */
    private List<NodeHandle> below() {
        List<NodeHandle> up = new ArrayList<>();
        for (Node node : here.family().nodes()) {
            if (node.alive()) {
                up.add((NodeHandle) node);
            }
        }
        return up;
    }

    private List<Object> ask(List<Object> body) throws JojoException {
        List<PendingCall> calls = call(body);
        return answers(calls);
    }

    private List<PendingCall> call(List<Object> body) throws JojoException {
        List<PendingCall> calls = new ArrayList<>();
        for (NodeHandle node : below()) {
            calls.add(node.call(Post.TREE, 0, body));
        }
        return calls;
    }

    private static List<Object> answers(List<PendingCall> calls) throws JojoException {
        List<Object> answers = new ArrayList<>();
        for (PendingCall call : calls) {
            answers.add(call.touch());
        }
        return answers;
    }

    /** Called by a link reader. */
    void take(Arrived message) {
        if (message.type == Frame.SEND && message.tag == Siblings.BYTES) {
            here.siblings().bytes(message);
            return;
        }
        if (message.type == Frame.CALL && message.tag == Looks.LOOK) {
            here.handlers().submit(() -> here.looks().answer(message));
            return;
        }
        if (message.type == Frame.CALL && message.tag == Names.ASK) {
            // Not in the turn of the code's own messages: one of these may wait for who asks.
            here.handlers().submit(() -> names(message));
            return;
        }
        here.inbox().submit(() -> {
            here.post().handedOn(message);
            try {
                here.enter();
                Object answer = carryOut(message);
                if (message.type == Frame.CALL) {
                    here.post().answer(message, Frame.REPLY, answer);
                }
            } catch (Throwable e) {
                fail(message, e);
            }
        });
    }

    private void names(Arrived message) {
        here.post().handedOn(message);
        try {
            here.takeFor(Decoder.decode(message.body(), here.classes(), here.neighbours().nameOf(message.lane.from)));
            here.post().answer(message, Frame.REPLY, null);
        } catch (JojoException | RuntimeException e) {
            fail(message, e);
        }
    }

    private void fail(Arrived message, Throwable e) {
        if (message.type == Frame.CALL) {
            try {
                here.post().answer(message, Frame.FAIL, Failures.write(e, here.birth.spec().name()));
            } catch (JojoException own) {
                // The caller is gone.
            }
            return;
        }
        here.note("what came for all nodes ended with " + LocalNode.trace(e));
    }

    @SuppressWarnings("unchecked")
    private Object carryOut(Arrived message) throws Exception {
        Object body = Decoder.decode(message.body(), here.classes(), here.neighbours().nameOf(message.lane.from));
        if (body instanceof List<?> meet && meet.size() == 4 && Integer.valueOf(Siblings.MEET).equals(meet.get(0))) {
            NodeHandle sibling = here.neighbours().sibling(message.lane.from);
            if (sibling == null) {
                throw new JojoException("only siblings meet");
            }
            return here.siblings().asked(sibling, meet);
        }
        if (here.neighbours().parent == null || !message.lane.from.equals(here.neighbours().parent.path)) {
            throw new JojoException("only a parent's call goes to all nodes below");
        }
        if (!(body instanceof List<?> parts)
                || parts.size() != 4
                || !(parts.get(0) instanceof Integer what)
                || !(parts.get(1) instanceof Integer tag)) {
            throw new JojoException("a call for all nodes that is none");
        }
        Message own = new Message(tag, (Serializable) parts.get(2));
        List<Object> list = (List<Object>) parts;
        switch (what) {
            case FIND -> {
                if (!(parts.get(2) instanceof String name)) {
                    throw new JojoException("a name that is none");
                }
                return found(name, list);
            }
            case BROADCAST -> {
                JojoException cannot = null;
                for (NodeHandle node : below()) {
                    try {
                        node.lane(Post.TREE).send(Frame.SEND, 0, 0, list);
                    } catch (JojoException e) {
                        cannot = e;
                    }
                }
                here.handleHere(own);
                if (cannot != null) {
                    throw cannot;
                }
                return null;
            }
            case GATHER -> {
                List<PendingCall> calls = call(list);
                List<Object> all = new ArrayList<>();
                all.add(here.handleHere(own));
                for (Object part : answers(calls)) {
                    all.addAll((List<Object>) part);
                }
                return all;
            }
            case REDUCE -> {
                List<PendingCall> calls = call(list);
                List<Object> all = new ArrayList<>();
                all.add(here.handleHere(own));
                all.addAll(answers(calls));
                return combine(all, (BinaryOperator<Object>) parts.get(3));
            }
            default -> throw new JojoException("a call for all nodes of kind " + what);
        }
    }
}
