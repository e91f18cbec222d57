package silf.jojo.core;

import silf.jojo.Context;
import silf.jojo.Future;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;
import silf.jojo.NodeLostException;

/** A place in the tree, as one node sees it. */
final class NodeHandle extends Node {
    final Path path;
    private final LocalNode here;
    private volatile String name;
    private volatile int epoch;
    private volatile boolean alive;
    private volatile String gone = "it is not up";
    private volatile Lane lane;

    NodeHandle(LocalNode here, Path path, String name, int epoch, boolean alive) {
        this.here = here;
        this.path = path;
        this.name = name;
        this.epoch = epoch;
        this.alive = alive;
    }

    @Override
    public int epoch() {
        return epoch;
    }

    /** Up, for the first time or again. */
    void up(String name, int epoch) {
        this.name = name;
        this.epoch = epoch;
        this.lane = null;
        this.alive = true;
    }

    void down(String why) {
        gone = why;
        alive = false;
        lane = null;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public int rank() {
        return path.rank();
    }

    @Override
    public boolean alive() {
        return alive;
    }

    Lane lane(int number) throws NodeLostException {
        if (!alive) {
            throw new NodeLostException(name, gone);
        }
        if (number != Post.MESSAGES) {
            return here.post().lane(path, name, epoch, number);
        }
        Lane known = lane;
        if (known == null) {
            known = here.post().lane(path, name, epoch, number);
            lane = known;
            here.met(this);
        }
        return known;
    }

    @Override
    public void send(Message msg) throws JojoException {
        lane(Post.MESSAGES).send(Frame.SEND, 0, msg.tag, msg.contents);
    }

    @Override
    public Future callFuture(Message msg) throws JojoException {
        return call(Post.MESSAGES, msg.tag, msg.contents);
    }

    PendingCall call(int number, int tag, Object contents) throws JojoException {
        Lane lane = lane(number);
        PendingCall call = here.post().calls().begin(path, name, number);
        try {
            lane.send(Frame.CALL, call.number, tag, contents);
            if (!alive) {
                // Lost between the look above and the entry among the calls that a loss ends.
                throw new NodeLostException(name, gone);
            }
        } catch (JojoException | RuntimeException | Error e) {
            here.post().calls().unsent(call);
            throw e;
        }
        return call;
    }

    @Override
    public void callWithContext(Message msg, Context context) throws JojoException {
        call(Post.MESSAGES, msg.tag, msg.contents).then(context);
    }

    @Override
    public String toString() {
        return "Node[" + name + ", " + path + (alive ? "" : ", lost") + "]";
    }
}
