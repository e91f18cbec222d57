package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.security.cert.CertificateEncodingException;
import java.security.cert.X509Certificate;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLSocket;
import silf.jojo.JojoException;

/**
 * Direct links between siblings (spec/jojo J14): asked for over the tree when the first message goes, made where the network
 * lets them, taken into use without loss or reordering, mended when they are cut: by another connection, and where there is
 * none, by the tree itself. The one of lower rank dials. Not in it: TLS ({@link Door}), resumption ({@link Link}).
 */
final class Siblings {
    /** Body of a CALL on lane 3, beside those of {@link TreeCalls}: [MEET, certificate, addresses, port], or nulls to be asked. */
    static final int MEET = 3;
    /** Tag of a SEND on lane 3 that is a piece of a link: a byte array, of which the first 8 are the session. */
    static final int BYTES = 1;

    /** A cut link is dialled for so long before it goes by the tree. */
    private static final long DIAL_MOST_ms = 1_500;
    private static final long DIAL_PAUSE_ms = 100;
    /** How long a cut link may take to come back: no longer than what a silent one is given up after. Tests give a busy machine more. */
    static volatile long resumeMost_ms = 7_000;
    private static final int PIECE = 16 << 10;

    /** A sibling with which a direct link is, or may be. Guarded by itself. */
    final class Peer {
        final NodeHandle node;
        final int epoch;
        byte[] certificate;
        List<?> addresses;
        int port;
        Hello hello;
        Link link;
        boolean switched;
        boolean lost;
        final ArrayDeque<byte[]> held = new ArrayDeque<>();
        final LinkedBlockingQueue<Link.Redial.Resumed> comes = new LinkedBlockingQueue<>();
        Tunnel tunnel;

        Peer(NodeHandle node) {
            this.node = node;
            this.epoch = node.epoch();
        }

        private boolean dials() {
            return here.path.rank() < node.rank();
        }
    }

    private final LocalNode here;
    private final Map<Path, Peer> peers = new ConcurrentHashMap<>();
    private Door door;
    private boolean closed;

    Siblings(LocalNode here) {
        this.here = here;
    }

    // -- getting to know each other ----------------------------------------------------------------------------------

    /** The first message to a sibling is on its way; does not wait. The one of lower rank asks, at the other's wish. */
    void want(NodeHandle node) {
        Peer peer = new Peer(node);
        if (closed || peers.putIfAbsent(node.path, peer) != null) {
            return;
        }
        background("meet " + node.name(), () -> {
            try {
                if (!peer.dials()) {
                    node.call(Post.TREE, 0, Arrays.asList(MEET, null, null, null));
                    return;
                }
                List<Object> mine = mine();
                Object theirs = node.call(Post.TREE, 0, Arrays.asList(MEET, mine.get(0), mine.get(1), mine.get(2)))
                        .touch(java.time.Duration.ofMillis(resumeMost_ms));
                if (theirs instanceof List<?> list && list.size() == 5
                        && list.get(3) instanceof Long high && list.get(4) instanceof Long low) {
                    remember(peer, list, 0, high, low);
                    dial(peer);
                }
            } catch (JojoException | IOException | GeneralSecurityException | RuntimeException e) {
                // There is no direct link, then; the tree does.
            }
        });
    }

    private static void background(String name, Runnable work) {
        Thread thread = new Thread(work, "jojo " + name);
        thread.setDaemon(true);
        thread.start();
    }

    private synchronized Door door() throws IOException, GeneralSecurityException {
        if (closed) {
            throw new IOException("the node is ending");
        }
        if (door == null) {
            door = new Door(this::isKnown, this::come);
        }
        return door;
    }

    private List<Object> mine() throws IOException, GeneralSecurityException {
        return Arrays.asList(door().certificate(), new ArrayList<>(Door.addresses()), door().port());
    }

    private boolean isKnown(X509Certificate certificate) {
        try {
            byte[] encoded = certificate.getEncoded();
            for (Peer peer : peers.values()) {
                synchronized (peer) {
                    if (Arrays.equals(encoded, peer.certificate)) {
                        return true;
                    }
                }
            }
        } catch (CertificateEncodingException e) {
            // Then it is none that we know.
        }
        return false;
    }

    /** A sibling asks: answers with the same, and the session that both will use. In a handler's thread. */
    Object asked(NodeHandle node, List<?> theirs) throws JojoException {
        if (theirs.get(1) == null) {
            want(node);
            return null;
        }
        try {
            Peer peer = peers.computeIfAbsent(node.path, path -> new Peer(node));
            List<Object> mine = mine();
            SecureRandom random = new SecureRandom();
            long high = random.nextLong();
            long low = random.nextLong();
            remember(peer, theirs, 1, high, low);
            return Arrays.asList(mine.get(0), mine.get(1), mine.get(2), high, low);
        } catch (IOException | GeneralSecurityException e) {
            throw new JojoException("no direct link: " + e.getMessage(), e);
        }
    }

    private static void remember(Peer peer, List<?> theirs, int at, long high, long low) throws JojoException {
        if (!(theirs.get(at) instanceof byte[] certificate)
                || !(theirs.get(at + 1) instanceof List<?> addresses)
                || !(theirs.get(at + 2) instanceof Integer port)) {
            throw new JojoException("a sibling's address that is none");
        }
        synchronized (peer) {
            if (peer.hello != null) {
                throw new JojoException("it was asked before");
            }
            peer.certificate = certificate;
            peer.addresses = addresses;
            peer.port = port;
            peer.hello = new Hello(Runtime.version().feature(), 0, 0, high, low, new long[0]);
        }
    }

    // -- the link ----------------------------------------------------------------------------------------------------

    private void dial(Peer peer) {
        try {
            Link.Redial.Resumed made = connect(peer, peer.hello);
            begin(peer, made.wire(), made.reader());
        } catch (IOException | GeneralSecurityException e) {
            // Not reachable from here: the tree does.
        }
    }

    private Link.Redial.Resumed connect(Peer peer, Hello hello)
            throws IOException, GeneralSecurityException {
        SSLSocket socket = door().dial(peer.addresses, peer.port, peer.certificate);
        try {
            socket.getOutputStream().write(hello.frame());
            return Link.Redial.Resumed.greeted(wire(peer, socket), hello);
        } catch (IOException | RuntimeException e) {
            Door.shut(socket);
            throw e;
        }
    }

    private static Wire wire(Peer peer, SSLSocket socket) throws IOException {
        socket.setSoTimeout(0);
        return Wire.of("sibling " + peer.node.name(), socket.getInputStream(), socket.getOutputStream(), socket);
    }

    /** A sibling has come in by the door: anew, or with a link that was cut. */
    private void come(SSLSocket socket) {
        try {
            byte[] shown = socket.getSession().getPeerCertificates()[0].getEncoded();
            for (Peer peer : peers.values()) {
                Hello ours;
                synchronized (peer) {
                    if (!Arrays.equals(shown, peer.certificate) || peer.dials()) {
                        continue;
                    }
                    ours = peer.hello;
                }
                Link.Redial.Resumed come = Link.Redial.Resumed.greeted(wire(peer, socket), ours);
                if (!again(peer, come)) {
                    socket.getOutputStream().write(ours.frame());
                    begin(peer, come.wire(), come.reader());
                }
                return;
            }
        } catch (IOException | CertificateEncodingException e) {
            // Whoever it was dials again.
        }
        Door.shut(socket);
    }

    /** Another wire for a link that was cut, whether this side knows that or not; false if there is no link yet. */
    private static boolean again(Peer peer, Link.Redial.Resumed come) {
        Wire old;
        synchronized (peer) {
            if (peer.link == null) {
                return false;
            }
            old = peer.link.wire(); // before the other is there to be taken
            peer.comes.clear();
            peer.comes.add(come);
        }
        Link.cut(old);
        return true;
    }

    private void begin(Peer peer, Wire wire, FrameReader reader) {
        Link link = new Link(wire, reader, here, new Link.Redial() {
            @Override
            public Resumed again(Hello ours, Deadline deadline) throws IOException, InterruptedException {
                return peer.dials() ? redial(peer, ours, deadline) : await(peer, ours, deadline);
            }

            @Override
            public long most_ms() {
                return resumeMost_ms;
            }

            @Override
            public boolean afterSilence() {
                return true;
            }
        }, peer.hello);
        link.peer = peer;
        synchronized (peer) {
            if (peer.link != null || peer.lost) {
                link.close("a second one");
                return;
            }
            peer.link = link;
        }
        link.open();
        link.watch(Link.SILENT_ns);
        here.post().reroute(peer.node.path, link);
        here.sendUp(Frame.routed(
                Frame.SWITCH, Frame.laneField(0, peer.epoch, here.birth.epoch()), peer.node.path, here.path,
                peer.hello.sessionLow()));
    }

    /** The direct link to a sibling, if there is one. */
    Link link(Path to) {
        Peer peer = peers.get(to);
        return peer == null ? null : peer.link;
    }

    private Link.Redial.Resumed redial(Peer peer, Hello ours, Deadline deadline) throws IOException, InterruptedException {
        Deadline dialling = Deadline.in_ms(Math.min(DIAL_MOST_ms, deadline.left_ms()));
        while (!dialling.passed()) {
            try {
                return connect(peer, ours);
            } catch (IOException | GeneralSecurityException e) {
                Thread.sleep(DIAL_PAUSE_ms);
            }
        }
        Tunnel tunnel = tunnel(peer);
        tunnel.out().write(ours.frame());
        return Link.Redial.Resumed.greeted(tunnel, ours);
    }

    private static Link.Redial.Resumed await(Peer peer, Hello ours, Deadline deadline) throws IOException, InterruptedException {
        Link.Redial.Resumed come = peer.comes.poll(deadline.left_ns(), TimeUnit.NANOSECONDS);
        if (come == null) {
            throw new IOException("it did not come back");
        }
        come.wire().out().write(ours.frame());
        come.wire().out().flush();
        return come;
    }

    // -- by the tree -------------------------------------------------------------------------------------------------

    /** A wire whose bytes are messages on lane 3. */
    private final class Tunnel implements Wire {
        private final Peer peer;
        private final LinkedBlockingQueue<byte[]> arrived = new LinkedBlockingQueue<>();
        private volatile boolean shut;
        private byte[] now = new byte[0];
        private int at;

        Tunnel(Peer peer) {
            this.peer = peer;
        }

        private final InputStream in = new InputStream() {
            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] to, int from, int most) throws IOException {
                while (at == now.length) {
                    if (shut) {
                        return -1;
                    }
                    try {
                        now = arrived.take();
                    } catch (InterruptedException e) {
                        throw new IOException("interrupted", e);
                    }
                    at = 0;
                }
                int count = Math.min(most, now.length - at);
                System.arraycopy(now, at, to, from, count);
                at += count;
                return count;
            }
        };

        private final OutputStream out = new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                write(new byte[] {(byte) b}, 0, 1);
            }

            @Override
            public void write(byte[] from, int begin, int count) throws IOException {
                for (int end = begin + count; begin < end; begin += PIECE) {
                    send(Arrays.copyOfRange(from, begin, Math.min(end, begin + PIECE)));
                }
            }
        };

        private void send(byte[] bytes) throws IOException {
            try {
                Bytes piece = new Bytes(8 + bytes.length).i64(peer.hello.sessionLow()).all(bytes);
                peer.node.lane(Post.TREE).send(Frame.SEND, 0, BYTES, piece.array);
            } catch (JojoException e) {
                throw new IOException(e.getMessage(), e);
            }
        }

        @Override
        public InputStream in() {
            return in;
        }

        @Override
        public OutputStream out() {
            return out;
        }

        @Override
        public String name() {
            return "sibling " + peer.node.name() + " by the tree";
        }

        /** The other end hears of it. */
        @Override
        public void close() {
            if (end()) {
                background("end of tunnel", () -> {
                    try {
                        send(new byte[0]);
                    } catch (IOException e) {
                        // It is gone altogether.
                    }
                });
            }
        }

        private synchronized boolean end() {
            boolean first = !shut;
            shut = true;
            arrived.add(new byte[0]);
            return first;
        }
    }

    private Tunnel tunnel(Peer peer) {
        synchronized (peer) {
            if (peer.tunnel == null || peer.tunnel.shut) {
                peer.tunnel = new Tunnel(peer);
            }
            return peer.tunnel;
        }
    }

    /** A piece of a link that goes by the tree. By a link reader, in order. */
    void bytes(Arrived message) {
        Path from = message.lane.from;
        here.post().handedOn(message);
        Peer peer = peers.get(from);
        byte[] bytes;
        try {
            In in = message.body();
            if (peer == null || peer.hello == null || in.u8() != Tag.BYTES || in.count(1) < 8
                    || in.i64() != peer.hello.sessionLow()) {
                return;
            }
            bytes = new byte[(int) in.left()];
            in.bytes(bytes, 0, bytes.length);
        } catch (Violation e) {
            return;
        }
        Tunnel tunnel;
        boolean first;
        synchronized (peer) {
            first = peer.tunnel == null || peer.tunnel.shut;
            if (bytes.length == 0) {
                if (!first) {
                    peer.tunnel.end();
                }
                return;
            }
            tunnel = tunnel(peer);
        }
        tunnel.arrived.add(bytes);
        if (first && !peer.dials()) {
            background("tunnel of " + peer.node.name(), () -> {
                try {
                    again(peer, Link.Redial.Resumed.greeted(tunnel, peer.hello));
                } catch (IOException e) {
                    tunnel.close();
                }
            });
        }
    }

    // -- frames ------------------------------------------------------------------------------------------------------

    /** A routed frame by a direct link: exactly its peer's, for this node, and not before the last one by the tree. */
    void frame(Peer peer, byte[] frame, Path to, Path from, int at) {
        if (!from.equals(peer.node.path) || !to.equals(here.path)) {
            here.post().dropped.increment(); // J15
            return;
        }
        synchronized (peer) {
            if (!peer.switched) {
                peer.held.add(frame);
                return;
            }
        }
        here.post().deliver(frame, from, at);
    }

    /** SWITCH by the tree: what was held is next. */
    void switched(Path from, long token) {
        Peer peer = peers.get(from);
        if (peer == null || peer.hello == null || peer.hello.sessionLow() != token) {
            return;
        }
        synchronized (peer) {
            for (byte[] frame; (frame = peer.held.poll()) != null; ) {
                here.post().deliver(frame, from, Frame.HEADER + here.path.size() + from.size());
            }
            peer.switched = true;
        }
    }

    /** A sibling is no more, or its next incarnation is another. */
    void lose(Path gone) {
        Peer peer = peers.remove(gone);
        if (peer == null) {
            return;
        }
        Link link;
        synchronized (peer) {
            peer.lost = true;
            peer.held.clear();
            link = peer.link;
        }
        if (link != null) {
            link.close("the sibling is gone");
        }
    }

    /** Has {@code then} run once all that was sent to siblings directly is there; at once if nothing was. */
    void settled(Runnable then) {
        List<Link> links = new ArrayList<>();
        for (Peer peer : peers.values()) {
            if (peer.link != null) {
                links.add(peer.link);
            }
        }
        if (links.isEmpty()) {
            then.run();
            return;
        }
        background("last messages to siblings", () -> {
            Deadline deadline = Deadline.in_ms(resumeMost_ms);
            try {
                for (Link link : links) {
                    link.settle(deadline);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            then.run();
        });
    }

    /** To all of them directly. */
    Sent sent() {
        Sent sent = Sent.NOTHING;
        for (Peer peer : peers.values()) {
            Link link = peer.link;
            if (link != null) {
                sent = sent.and(link.sent());
            }
        }
        return sent;
    }

    void tick(long now_ns) {
        for (Peer peer : peers.values()) {
            Link link = peer.link;
            if (link != null) {
                link.tick(now_ns);
            }
        }
    }

    /** For tests: nobody comes in any more. */
    void shutDoor() throws IOException, GeneralSecurityException {
        door().close();
    }

    int doorPort() throws IOException, GeneralSecurityException {
        return door().port();
    }

    byte[] doorCertificate() throws IOException, GeneralSecurityException {
        return door().certificate();
    }

    void close() {
        Door open;
        synchronized (this) {
            closed = true;
            open = door;
        }
        new ArrayList<>(peers.keySet()).forEach(this::lose);
        if (open != null) {
            try {
                open.close();
            } catch (IOException e) {
                // The JVM is about to end.
            }
        }
    }
}
