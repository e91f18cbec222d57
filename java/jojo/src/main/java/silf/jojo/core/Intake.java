package silf.jojo.core;

import java.io.IOException;
import silf.jojo.NodeLostException;

/**
 * Frames that come to a node: from whom each may come, for whom it is, and who is told (spec/jojo J5, J15, J19). By the links'
 * readers, so that nothing waits here. Not in it: what the node does then.
 */
final class Intake {
    private final LocalNode node;
    private final Post post;
    private final Family family;
    private final Neighbours neighbours;
    private final Siblings direct;

    Intake(LocalNode node, Post post, Family family, Neighbours neighbours, Siblings direct) {
        this.node = node;
        this.post = post;
        this.family = family;
        this.neighbours = neighbours;
        this.direct = direct;
    }

    void frame(Link link, byte[] frame) throws IOException {
        if (Frame.type(frame) >= Frame.ROUTED) {
            routed(link, frame);
        } else if (node.isUp(link)) {
            fromParent(frame);
        } else if (link.peer instanceof Child child) {
            fromChild(child, frame);
        } else if (Frame.type(frame) != Frame.GOODBYE) {
            throw new Violation("a frame of type " + Frame.type(frame) + " from a sibling");
        }
    }

    private void routed(Link link, byte[] frame) throws Violation {
        Path to = Path.get(frame, Frame.HEADER, frame.length);
        int at = Frame.HEADER + to.size();
        Path from = Path.get(frame, at, frame.length);
        at += from.size();
        if (link.peer instanceof Siblings.Peer sibling) {
            direct.frame(sibling, frame, to, from, at);
            return;
        }
        if (node.isUp(link) ? node.path.holds(from) : !((Child) link.peer).path.holds(from)) {
            post.dropped.increment(); // J15
            return;
        }
        if (to.equals(node.path)) {
            post.deliver(frame, from, at);
            return;
        }
        Route next = node.route(to);
        if (next == null || next == link) {
            post.noWay(frame, from, at);
        } else {
            next.send(frame);
        }
    }

    private void fromParent(byte[] frame) throws Violation {
        switch (Frame.type(frame)) {
            case Frame.BLOBS -> node.store().frame(frame);
            case Frame.GO -> {
                bare(frame);
                node.go();
            }
            case Frame.END -> {
                if (frame.length != Frame.HEADER + 4) {
                    throw new Violation("END of " + (frame.length - Frame.HEADER) + " bytes");
                }
                int most_ms = Frame.i32(frame, Frame.HEADER);
                if (most_ms < 0 || most_ms > Course.HANDLERS_MOST_ms) {
                    throw new Violation("END that gives handlers " + Integer.toUnsignedString(most_ms) + " ms");
                }
                node.end(most_ms);
            }
            case Frame.FAMILY -> {
                for (Birth.Sibling one : Birth.readFamily(frame)) {
                    NodeHandle handle = neighbours.update(one);
                    if (handle != null && one.alive()) {
                        node.joined(handle, node.isGoing());
                    }
                }
            }
            case Frame.LOST -> lost(frame, null);
            case Frame.GOODBYE -> node.orphaned("the parent said: " + Link.readGoodbye(frame).text());
            default -> throw new Violation("a frame of type " + Frame.type(frame) + " from the parent");
        }
    }

    private static boolean isDone(byte[] frame) throws Violation {
        if (frame.length != Frame.HEADER + 1 || (frame[Frame.HEADER] & ~1) != 0) {
            throw new Violation("DONE that is neither 0 nor 1");
        }
        return frame[Frame.HEADER] == 1;
    }

    private static void bare(byte[] frame) throws Violation {
        if (frame.length != Frame.HEADER) {
            throw new Violation("a frame of type " + Frame.type(frame) + " with " + (frame.length - Frame.HEADER) + " bytes");
        }
    }

    private void fromChild(Child child, byte[] frame) throws Violation {
        switch (Frame.type(frame)) {
            case Frame.HELLO -> family.greeted(child, Hello.read(frame));
            case Frame.WANT -> {
                In in = new In(frame, Frame.HEADER);
                boolean bytes = in.i32() == ClassStore.BYTES;
                child.classes.want(in.name(), bytes);
            }
            case Frame.READY -> {
                bare(frame);
                family.ready(child);
            }
            case Frame.DONE -> {
                family.done(child, isDone(frame));
                node.progress();
            }
            case Frame.LOST -> lost(frame, child);
            case Frame.REPORT -> node.report(Birth.Report.read(frame));
            case Frame.GOODBYE -> {}
            default -> throw new Violation("a frame of type " + Frame.type(frame) + " from a child");
        }
    }

    /** News of a subtree that is no more: from above (child is null), or from below. */
    private void lost(byte[] frame, Child by) throws Violation {
        Birth.Lost news = Birth.Lost.read(frame);
        Path gone;
        try {
            gone = Path.parse(news.path());
        } catch (IllegalArgumentException e) {
            throw new Violation("LOST of " + news.path());
        }
        if (by == null ? node.path.holds(gone) || gone.holds(node.path) : !by.path.holds(gone) || gone.equals(by.path)) {
            throw new Violation("LOST of " + gone + " from one who cannot know");
        }
        post.lose(gone, news.epoch(), new NodeLostException(news.name(), news.why()));
        if (by != null) {
            node.sendUp(frame);
            node.heard(news);
        }
        family.sendAll(frame, by);
        NodeHandle handle = neighbours.sibling(gone);
        if (handle != null) {
            direct.lose(gone);
            handle.down(news.why());
            node.left(handle);
        }
    }
}
