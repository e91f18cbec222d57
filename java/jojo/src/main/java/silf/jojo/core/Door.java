package silf.jojo.core;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * TLS 1.3 with both sides' keys known beforehand: a listener for siblings, and the way to theirs. Who shows another
 * certificate than one that came by the tree is turned away in the handshake. Not in it: frames, who is a sibling.
 */
final class Door implements Closeable {
    private static final int CONNECT_MOST_ms = 1_000;
    private static final int HANDSHAKE_MOST_ms = 3_000;
    private static final int BACKLOG = 64;
    /** Strangers may knock; so many at a time are looked at. */
    private static final int HANDSHAKES_MOST = 64;
    private static final int ADDRESSES_MOST = 8;

    /** Which certificates are known: changes while the door is open. */
    interface Known {
        boolean is(X509Certificate certificate);
    }

    private final SelfSigned own;
    private final SSLContext context;
    private final SSLServerSocket server;
    private final java.util.concurrent.Semaphore handshakes = new java.util.concurrent.Semaphore(HANDSHAKES_MOST);

    Door(Known known, Consumer<SSLSocket> come) throws IOException, GeneralSecurityException {
        own = SelfSigned.make();
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        keys.setKeyEntry("own", own.key(), new char[0], new X509Certificate[] {own.certificate()});
        KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        managers.init(keys, new char[0]);
        context = SSLContext.getInstance("TLSv1.3");
        context.init(managers.getKeyManagers(), new TrustManager[] {trusting(known)}, null);
        server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0, BACKLOG);
        server.setNeedClientAuth(true);
        server.setEnabledProtocols(new String[] {"TLSv1.3"});
        new LinkThread("door", () -> accept(come)).start();
    }

    private static X509TrustManager trusting(Known known) {
        return new X509TrustManager() {
            private void check(X509Certificate[] chain) throws CertificateException {
                if (chain.length == 0 || !known.is(chain[0])) {
                    throw new CertificateException("not the key of a sibling");
                }
            }

            @Override
            public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
                check(chain);
            }

            @Override
            public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
                check(chain);
            }

            @Override
            public X509Certificate[] getAcceptedIssuers() {
                return new X509Certificate[0];
            }
        };
    }

    private void accept(Consumer<SSLSocket> come) {
        while (!server.isClosed()) {
            SSLSocket socket;
            try {
                socket = (SSLSocket) server.accept();
            } catch (IOException e) {
                continue; // closed, or a connection that was gone before it was looked at
            }
            if (!handshakes.tryAcquire()) {
                shut(socket);
                continue;
            }
            Thread thread = new Thread(() -> {
                try {
                    shake(socket);
                    come.accept(socket);
                } catch (IOException e) {
                    shut(socket); // a stranger, or a cut
                } finally {
                    handshakes.release();
                }
            }, "jojo handshake");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void shake(SSLSocket socket) throws IOException {
        socket.setSoTimeout(HANDSHAKE_MOST_ms);
        socket.setTcpNoDelay(true);
        socket.startHandshake();
    }

    static void shut(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // It is of no use any more.
        }
    }

    byte[] certificate() throws GeneralSecurityException {
        return own.certificate().getEncoded();
    }

    int port() {
        return server.getLocalPort();
    }

    /** Where this host may be reached: of other hosts first, loopback last (the same host is a host as well). */
    static List<String> addresses() throws IOException {
        List<String> far = new ArrayList<>();
        List<String> near = new ArrayList<>();
        for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            if (each.isUp()) {
                for (InetAddress address : Collections.list(each.getInetAddresses())) {
                    if (!address.isLinkLocalAddress()) {
                        (address.isLoopbackAddress() ? near : far).add(address.getHostAddress());
                    }
                }
            }
        }
        far.addAll(near);
        return far.subList(0, Math.min(far.size(), ADDRESSES_MOST));
    }

    /** The first address that answers with {@code certificate}. */
    SSLSocket dial(List<?> addresses, int port, byte[] certificate) throws IOException, GeneralSecurityException {
        IOException last = new IOException("it named no address");
        for (Object address : addresses) {
            SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket();
            try {
                // An address, not a name: nothing is looked up.
                socket.connect(new InetSocketAddress(InetAddress.getByName(literal(address)), port), CONNECT_MOST_ms);
                shake(socket);
                if (!Arrays.equals(certificate, socket.getSession().getPeerCertificates()[0].getEncoded())) {
                    throw new IOException("another sibling answers there");
                }
                return socket;
            } catch (IOException | IllegalArgumentException e) {
                shut(socket);
                last = e instanceof IOException io ? io : new IOException(e);
            }
        }
        throw last;
    }

    private static String literal(Object address) throws IOException {
        if (address instanceof String text && text.matches("[0-9.]+|[0-9a-fA-F:.]+(%[A-Za-z0-9._-]+)?")) {
            return text;
        }
        throw new IOException("not an address: " + address);
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
