package silf.jojo;

import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import silf.jojo.core.RemoteFile;

/**
 * A file of the client, written live, in place of {@code java.io.FileWriter}. Its name begins with the name of a directory
 * that the configuration declares for writing: {@code "logs/out.txt"}. UTF-8. What fails is told by {@code flush} and
 * {@code close}.
 */
public class RemoteFileWriter extends OutputStreamWriter {
    public RemoteFileWriter(String name) throws IOException {
        this(name, false);
    }

    /** @param append whether to go on behind what is there, instead of emptying the file */
    public RemoteFileWriter(String name, boolean append) throws IOException {
        super(RemoteFile.writing(name, append), StandardCharsets.UTF_8);
    }
}
