package silf.jojo.boot;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.Charset;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.InflaterInputStream;

/**
 * The first stage (spec/jojo J2, J3): all that stands on a node's class path. It takes the core from its parent, frame
 * by frame, and hands over. Compiled for Java 8, so that an old JVM gets as far as saying that it is one.
 *
 * <p>Not in it: anything of the core; it is sent by itself, and must stay small.
 */
public final class Boot {
    private static final int FEATURE_LEAST = 17;

    private static final byte[] MARKER = {0, 'J', 'O', 'J', 'O', '/', '1', '\n'};
    private static final Charset UTF_8 = Charset.forName("UTF-8");
    private static final int START = 2;
    private static final int GOODBYE = 3;
    private static final int BLOBS = 8;
    private static final int DEFLATED = 1;
    private static final int PAYLOAD_MOST = 65536;
    private static final int HASH_BYTES = 8;
    /** The core is a hundredth of it: what says more is no parent of ours. */
    private static final int BLOB_MOST = 1 << 24;
    /** How long hooks of user code may hold up the end of a JVM. */
    private static final long END_MOST_MS = 2000;

    private final Map<String, byte[]> blobs = new ConcurrentHashMap<>();
    /** Blobs that have not arrived whole. */
    private final Map<String, byte[]> partial = new TreeMap<>();

    private Boot() {}

    /** Arguments: nonce, then what the link's streams are opened by, or "-" for the standard ones, then a file to remove. */
    public static void main(String[] args) throws IOException {
        if (args.length > 3) {
            new java.io.File(args[3]).delete();
        }
        boolean own = !args[1].equals("-");
        if (own) {
            // Another wire can be had: who brings it says so in the file that we came from.
            System.setProperty("jojo.shells", "/proc/self/fd/3");
        }
        InputStream in = own ? new FileInputStream(args[1]) : new FileInputStream(FileDescriptor.in);
        OutputStream out = own ? new FileOutputStream(args[2]) : new FileOutputStream(FileDescriptor.out);
        if (!own) {
            System.setIn(new ByteArrayInputStream(new byte[0]));
            System.setOut(System.err);
        }
        String version = System.getProperty("java.specification.version");
        if (Float.parseFloat(version) < FEATURE_LEAST) {
            out.write(("jojo-" + args[0] + " old-java " + System.getProperty("java.version") + "\n").getBytes(UTF_8));
            System.exit(1);
        }
        out.write(MARKER);
        int status = 1;
        try {
            new Boot().run(in, out);
            status = 0;
        } catch (EOFException e) {
            // The parent has gone: nobody is there to be told.
        } catch (Throwable e) {
            Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
            cause.printStackTrace();
            goodbye(out, cause.toString());
        }
        end(status);
    }

    private void run(InputStream wire, OutputStream out) throws Exception {
        DataInputStream in = new DataInputStream(wire);
        byte[] header = new byte[8];
        while (true) {
            in.readFully(header);
            int length = int32(header, 4);
            if (length < 0 || length > PAYLOAD_MOST || header[2] != 0 || header[3] != 0) {
                throw new IOException("no frame: " + new java.math.BigInteger(1, header).toString(16));
            }
            byte[] payload = new byte[length];
            in.readFully(payload);
            if (header[0] == BLOBS && (header[1] & ~DEFLATED) == 0) {
                InputStream entries = new ByteArrayInputStream(payload);
                take(new DataInputStream(header[1] == DEFLATED ? new InflaterInputStream(entries) : entries));
            } else if (header[0] == START && header[1] == 0) {
                int name = int16(payload, 0);
                start(new String(payload, 2, name, UTF_8), wire, out, payload);
                return;
            } else {
                throw new IOException("a frame of type " + header[0] + ", flags " + header[1] + " before START");
            }
        }
    }

    private void start(String name, InputStream in, OutputStream out, byte[] payload) throws Exception {
        Loader loader = new Loader(blobs);
        Thread.currentThread().setContextClassLoader(loader);
        loader.loadClass(name)
                .getMethod("main", InputStream.class, OutputStream.class, PrintStream.class, Map.class, byte[].class)
                .invoke(null, in, out, System.out, blobs, payload);
    }

    /** Entries of one BLOBS (J8), to its end. */
    private void take(DataInputStream in) throws IOException {
        byte[] numbers = new byte[12];
        while (true) {
            int kind = in.read();
            if (kind < 0) {
                return;
            }
            byte[] name = new byte[in.read() | in.read() << 8];
            in.readFully(name);
            String key = new String(name, UTF_8);
            if (kind != 0) {
                throw new IOException("blob " + key + " of kind " + kind);
            }
            in.readFully(new byte[HASH_BYTES]);
            in.readFully(numbers);
            int whole = int32(numbers, 0);
            int offset = int32(numbers, 4);
            int count = int32(numbers, 8);
            if (whole < 0 || whole > BLOB_MOST || offset < 0 || count < 0 || offset > whole - count) {
                throw new IOException("blob " + key + ": " + count + " bytes at " + offset + " of " + whole);
            }
            byte[] bytes = partial.get(key);
            if (bytes == null || bytes.length != whole) {
                bytes = new byte[whole];
                partial.put(key, bytes);
            }
            in.readFully(bytes, offset, count);
            if (offset + count == whole) {
                partial.remove(key);
                blobs.put(key, bytes);
            }
        }
    }

    private static void goodbye(OutputStream out, String text) {
        byte[] words = text.getBytes(UTF_8);
        int length = 4 + Math.min(words.length, 4096);
        byte[] frame = new byte[8 + length];
        frame[0] = GOODBYE;
        frame[4] = (byte) length;
        frame[5] = (byte) (length >> 8);
        frame[8] = 4;
        System.arraycopy(words, 0, frame, 12, length - 4);
        try {
            out.write(frame);
        } catch (IOException e) {
            // The parent has gone too.
        }
    }

    private static void end(int status) {
        Thread watchdog = new Thread(() -> {
            try {
                Thread.sleep(END_MOST_MS);
            } catch (InterruptedException e) {
                // as if the time had passed
            }
            Runtime.getRuntime().halt(status);
        });
        watchdog.setDaemon(true);
        watchdog.start();
        System.exit(status);
    }

    private static int int16(byte[] bytes, int at) {
        return (bytes[at] & 0xff) | (bytes[at + 1] & 0xff) << 8;
    }

    private static int int32(byte[] bytes, int at) {
        return int16(bytes, at) | int16(bytes, at + 2) << 16;
    }

    /** Defines classes of the core from their bytes. */
    private static final class Loader extends ClassLoader {
        static {
            registerAsParallelCapable();
        }

        private final Map<String, byte[]> blobs;

        Loader(Map<String, byte[]> blobs) {
            super(ClassLoader.getSystemClassLoader());
            this.blobs = blobs;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            byte[] bytes = blobs.get(name.replace('.', '/') + ".class");
            if (bytes == null) {
                throw new ClassNotFoundException(name);
            }
            return defineClass(name, bytes, 0, bytes.length);
        }

        @Override
        public InputStream getResourceAsStream(String name) {
            byte[] bytes = blobs.get(name);
            return bytes == null ? super.getResourceAsStream(name) : new ByteArrayInputStream(bytes);
        }
    }
}
