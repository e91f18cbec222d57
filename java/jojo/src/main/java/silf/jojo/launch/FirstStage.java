package silf.jojo.launch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/**
 * The jar that a far shell takes from standard input: the boot package and nothing else (spec/jojo J3). Made anew in each
 * JVM from the classes it has, so that a node can start its children with nothing but what it was sent itself.
 */
public final class FirstStage {
    private static final String[] CLASSES = {"silf/jojo/boot/Boot.class", "silf/jojo/boot/Boot$Loader.class"};

    private static final byte[] JAR = make();

    private FirstStage() {}

    public static byte[] jar() {
        return JAR.clone();
    }

    private static byte[] make() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream jar = new ZipOutputStream(bytes)) {
            jar.setLevel(9);
            for (String name : CLASSES) {
                ZipEntry entry = new ZipEntry(name);
                entry.setTime(0);
                jar.putNextEntry(entry);
                try (InputStream in = FirstStage.class.getClassLoader().getResourceAsStream(name)) {
                    if (in == null) {
                        throw new IOException(name + " is not among the classes of this JVM");
                    }
                    in.transferTo(jar);
                }
                jar.closeEntry();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }
}
