package silf.jojo;

import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import silf.jojo.core.RemoteFile;

/**
 * A file of the client, read live, in place of {@code java.io.FileReader}. Its name begins with the name of a directory that
 * the configuration declares: {@code "data/input.txt"}. UTF-8.
 */
public class RemoteFileReader extends InputStreamReader {
    public RemoteFileReader(String name) throws IOException {
        super(RemoteFile.reading(name), StandardCharsets.UTF_8);
    }
}
