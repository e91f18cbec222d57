package silf.jojo.core;

import java.io.IOException;
import java.io.InputStream;
import java.net.JarURLConnection;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URL;
import java.net.URLConnection;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarFile;
import java.util.stream.Stream;

/**
 * The client's class path, as the source of all code below it: a name is looked up there and nowhere else, whatever it looks
 * like. Not served: the JDK's own.
 */
final class ClassPath implements ClassStore.Above {
    private final ClassLoader loader;
    private final java.util.Set<String> core;
    private final java.util.concurrent.ExecutorService threads =
            java.util.concurrent.Executors.newSingleThreadExecutor(work -> new LinkThread("class path", work));

    ClassPath(ClassLoader loader) {
        this(loader, List.of());
    }

    /** @param core what every node has */
    ClassPath(ClassLoader loader, List<Blob> core) {
        this.loader = loader;
        this.core = core.stream().map(Blob::name).collect(java.util.stream.Collectors.toSet());
    }

    @Override
    public void want(String name, ClassStore store) {
        threads.execute(() -> {
            try {
                store.blob(read(name));
            } catch (IOException | RuntimeException e) {
                store.unavailable(name, e.toString());
            }
        });
    }

    @Override
    public Blob now(String name) {
        if (name.startsWith("java/") || name.startsWith("jdk/") || core.contains(name)) {
            return null; // every node has it
        }
        try {
            return read(name);
        } catch (IOException | RuntimeException e) { // of whatever loader the user has
            return null; // who asks for it is told
        }
    }

    /** Absent, or its bytes. */
    Blob read(String name) throws IOException {
        if (name.isEmpty() || name.startsWith("/") || name.startsWith(Birth.BLOB)) {
            return Blob.of(name, null);
        }
        if (name.startsWith("META-INF/services/")) {
            return services(name);
        }
        URL url = loader.getResource(name);
        return Blob.of(name, url == null || isJdk(url) ? null : bytes(url));
    }

    private static boolean isJdk(URL url) {
        return url.getProtocol().equals("jrt");
    }

    /** All files of this name in one: ServiceLoader reads them as one list. */
    private Blob services(String name) throws IOException {
        Bytes all = new Bytes(256);
        Enumeration<URL> urls = loader.getResources(name);
        while (urls.hasMoreElements()) {
            URL url = urls.nextElement();
            if (!isJdk(url)) {
                all.all(bytes(url));
                all.u8('\n');
            }
        }
        return Blob.of(name, all.size == 0 ? null : all.toArray());
    }

    private static byte[] bytes(URL url) throws IOException {
        URLConnection connection = url.openConnection();
        if (connection instanceof JarURLConnection) {
            connection.setUseCaches(true);
        }
        if (connection.getContentLengthLong() > Blobs.BLOB_MOST) {
            throw new IOException(url + " has more than " + Blobs.BLOB_MOST + " bytes");
        }
        try (InputStream in = connection.getInputStream()) {
            return in.readNBytes(Blobs.BLOB_MOST);
        }
    }

    /** The core itself, for openings: all that stands beside this class. */
    static List<Blob> core() throws IOException {
        List<Blob> core = new ArrayList<>();
        String own = ClassPath.class.getName().replace('.', '/') + ".class";
        URL url = ClassPath.class.getClassLoader().getResource(own);
        if (url == null) {
            throw new IOException("the core cannot find its own classes");
        }
        if (url.openConnection() instanceof JarURLConnection connection) {
            JarFile jar = connection.getJarFile();
            for (var entry : jar.stream().toList()) {
                if (isCore(entry.getName())) {
                    try (InputStream in = jar.getInputStream(entry)) {
                        core.add(Blob.unhashed(entry.getName(), in.readAllBytes()));
                    }
                }
            }
            return core;
        }
        try {
            Path file = Path.of(new URI(url.toString()));
            Path root = file;
            for (int up = own.split("/").length; up > 0; up--) {
                root = root.getParent();
            }
            Path top = root;
            try (Stream<Path> files = Files.walk(root.resolve("silf/jojo"))) {
                for (Path each : files.filter(Files::isRegularFile).toList()) {
                    String name = top.relativize(each).toString().replace(java.io.File.separatorChar, '/');
                    if (isCore(name)) {
                        core.add(Blob.unhashed(name, Files.readAllBytes(each)));
                    }
                }
            }
        } catch (URISyntaxException e) {
            throw new IOException("the core's own place is not a file: " + url, e);
        }
        return core;
    }

    /** What every node must have; the rest of Jojo (parsers, the command, master and worker) is sent as the user's own is. */
    private static boolean isCore(String name) {
        return name.startsWith("silf/jojo/") && !name.endsWith("/")
                && !name.startsWith("silf/jojo/work/")
                && !name.startsWith("silf/jojo/core/Watch")
                && !(name.startsWith("silf/jojo/config/") && !name.matches("silf/jojo/config/(NodeSpec|Fit).*"))
                && !name.equals("silf/jojo/Jojo.class");
    }
}
