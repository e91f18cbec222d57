package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayDeque;
import java.util.List;
import silf.jojo.JojoException;

/** Files of the client, as streams of bytes at whatever node the current thread works for. */
public final class RemoteFile {
    private static final int PIECE = 32 << 10;
    /** Pieces asked for before they are wanted: what keeps a megabyte a second busy over 100 ms, and more. */
    private static final int AHEAD = 8;

    private RemoteFile() {}

    private static PendingCall call(LocalNode node, int tag, Object... what) throws IOException {
        try {
            return node.neighbours().client.call(Post.FILES, tag, List.of(what));
        } catch (JojoException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private static Object touch(PendingCall call) throws IOException {
        try {
            return call.touch();
        } catch (silf.jojo.RemoteException e) {
            throw new IOException(e.remoteText(), e);
        } catch (JojoException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private static long open(LocalNode node, String name, String mode) throws IOException {
        if (node == null) {
            throw new IOException(name + ": this JVM runs no Jojo program");
        }
        if (touch(call(node, FileService.OPEN, name, mode)) instanceof Long handle) {
            return handle;
        }
        throw new IOException(name + ": the client answered with something else than a file");
    }

    /** Reads ahead. */
    public static InputStream reading(String name) throws IOException {
        LocalNode node = LocalNode.current();
        long handle = open(node, name, "r");
        return new InputStream() {
            private final ArrayDeque<PendingCall> coming = new ArrayDeque<>();
            private byte[] piece = new byte[0];
            private int at;
            private boolean ended;

            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] to, int from, int most) throws IOException {
                if (most == 0) {
                    return 0;
                }
                while (at == piece.length) {
                    if (ended) {
                        return -1;
                    }
                    while (coming.size() < AHEAD) {
                        coming.add(call(node, FileService.READ, handle, PIECE));
                    }
                    piece = touch(coming.poll()) instanceof byte[] bytes ? bytes : new byte[0];
                    at = 0;
                    ended = piece.length == 0;
                }
                int now = Math.min(most, piece.length - at);
                System.arraycopy(piece, at, to, from, now);
                at += now;
                return now;
            }

            @Override
            public void close() throws IOException {
                ended = true;
                at = piece.length;
                touch(call(node, FileService.CLOSE, handle));
            }
        };
    }

    /** Writes as it comes, without waiting for each; what failed is told by {@code flush} and {@code close}. */
    public static OutputStream writing(String name, boolean append) throws IOException {
        LocalNode node = LocalNode.current();
        long handle = open(node, name, append ? "a" : "w");
        return new OutputStream() {
            private boolean closed;

            @Override
            public void write(int b) throws IOException {
                write(new byte[] {(byte) b}, 0, 1);
            }

            @Override
            public void write(byte[] from, int at, int count) throws IOException {
                if (closed) {
                    throw new IOException(name + " is closed");
                }
                for (int end = at + count; at < end; at += PIECE) {
                    byte[] piece = java.util.Arrays.copyOfRange(from, at, Math.min(end, at + PIECE));
                    try {
                        node.neighbours().client.lane(Post.FILES).send(Frame.SEND, 0, FileService.WRITE, List.of(handle, piece));
                    } catch (JojoException e) {
                        throw new IOException(e.getMessage(), e);
                    }
                }
            }

            @Override
            public void flush() throws IOException {
                if (!closed) {
                    touch(call(node, FileService.FLUSH, handle));
                }
            }

            @Override
            public void close() throws IOException {
                if (!closed) {
                    closed = true;
                    touch(call(node, FileService.CLOSE, handle));
                }
            }
        };
    }
}
