package silf.jojo.core;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;

/**
 * A key of one node and a certificate that says nothing but which key it is (RFC 5280, DER by hand: the JDK reads
 * certificates and does not make them). Its peers know it byte by byte from the tree, so that names and times in it mean
 * nothing.
 */
record SelfSigned(PrivateKey key, X509Certificate certificate) {
    private static final int SEQUENCE = 0x30;
    private static final int SET = 0x31;
    /** ecdsa-with-SHA256, 1.2.840.10045.4.3.2. */
    private static final byte[] ALGORITHM = der(SEQUENCE, der(6, new byte[] {0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 4, 3, 2}));
    /** CN=jojo (2.5.4.3). */
    private static final byte[] NAME = der(SEQUENCE, der(SET, der(SEQUENCE,
            der(6, new byte[] {0x55, 4, 3}), der(12, "jojo".getBytes(StandardCharsets.US_ASCII)))));
    /** Clocks of hosts may stand anywhere. */
    private static final byte[] VALIDITY = der(SEQUENCE,
            der(23, "700101000000Z".getBytes(StandardCharsets.US_ASCII)),
            der(24, "99991231235959Z".getBytes(StandardCharsets.US_ASCII)));

    static SelfSigned make() throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
        generator.initialize(new ECGenParameterSpec("secp256r1"));
        KeyPair pair = generator.generateKeyPair();
        byte[] body = der(SEQUENCE,
                der(2, new BigInteger(63, new SecureRandom()).add(BigInteger.ONE).toByteArray()),
                ALGORITHM, NAME, VALIDITY, NAME, pair.getPublic().getEncoded());
        Signature signature = Signature.getInstance("SHA256withECDSA");
        signature.initSign(pair.getPrivate());
        signature.update(body);
        byte[] signed = signature.sign();
        byte[] bits = new byte[signed.length + 1];
        System.arraycopy(signed, 0, bits, 1, signed.length);
        return new SelfSigned(pair.getPrivate(), read(der(SEQUENCE, body, ALGORITHM, der(3, bits))));
    }

    static X509Certificate read(byte[] encoded) throws GeneralSecurityException {
        return (X509Certificate) CertificateFactory.getInstance("X.509")
                .generateCertificate(new ByteArrayInputStream(encoded));
    }

    private static byte[] der(int tag, byte[]... parts) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            content.write(part, 0, part.length);
        }
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.write(tag);
        int size = content.size();
        if (size < 128) {
            all.write(size);
        } else if (size < 256) {
            all.write(0x81);
            all.write(size);
        } else {
            all.write(0x82);
            all.write(size >> 8);
            all.write(size);
        }
        byte[] bytes = content.toByteArray();
        all.write(bytes, 0, bytes.length);
        return all.toByteArray();
    }
}
