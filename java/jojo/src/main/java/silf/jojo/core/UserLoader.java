package silf.jojo.core;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.security.CodeSource;
import java.security.ProtectionDomain;
import java.security.cert.Certificate;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;

/**
 * Defines the user's classes at a node, from bytes that come from the client. A virtual thread that waits here for a class
 * holds its carrier, so whoever brings classes is a platform thread ({@link LinkThread}, {@link ClassServer}).
 */
final class UserLoader extends ClassLoader {
    static {
        registerAsParallelCapable();
    }

    private final ClassStore store;
    private final ProtectionDomain domain;

    UserLoader(ClassStore store, ClassLoader core) {
        super("jojo", core);
        this.store = store;
        CodeSource source = new CodeSource(url("", null), (Certificate[]) null);
        this.domain = new ProtectionDomain(source, null, this, null);
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        Blob blob = store.get(name.replace('.', '/') + ".class");
        if (blob.absent()) {
            throw new ClassNotFoundException(name + " is not on the client's class path");
        }
        int dot = name.lastIndexOf('.');
        if (dot > 0 && getDefinedPackage(name.substring(0, dot)) == null) {
            try {
                definePackage(name.substring(0, dot), null, null, null, null, null, null, null);
            } catch (IllegalArgumentException e) {
                // Another thread was first.
            }
        }
        try {
            return defineClass(name, blob.bytes(), 0, blob.bytes().length, domain);
        } catch (UnsupportedClassVersionError e) {
            throw new UnsupportedClassVersionError(name + " was compiled for a newer Java than runs here ("
                    + Runtime.version().feature() + "): " + e.getMessage());
        }
    }

    @Override
    protected URL findResource(String name) {
        Blob blob = store.get(name);
        return blob.absent() ? null : url(name, blob.bytes());
    }

    @Override
    protected Enumeration<URL> findResources(String name) {
        URL url = findResource(name);
        return url == null ? Collections.emptyEnumeration() : Collections.enumeration(List.of(url));
    }

    @SuppressWarnings("deprecation") // URL.of is of Java 20
    private static URL url(String name, byte[] bytes) {
        try {
            return new URL("jojo", null, -1, "/" + name, new URLStreamHandler() {
                @Override
                protected URLConnection openConnection(URL url) throws IOException {
                    if (bytes == null) {
                        throw new IOException(url + " is the client's class path");
                    }
                    return new URLConnection(url) {
                        @Override
                        public void connect() {}

                        @Override
                        public long getContentLengthLong() {
                            return bytes.length;
                        }

                        @Override
                        public InputStream getInputStream() {
                            return new ByteArrayInputStream(bytes);
                        }
                    };
                }
            });
        } catch (MalformedURLException e) {
            throw new IllegalStateException("a URL with a handler of its own needs no known protocol", e);
        }
    }
}
