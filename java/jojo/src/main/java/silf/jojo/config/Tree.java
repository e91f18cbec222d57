package silf.jojo.config;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/** The tree that a configuration file describes: XML as in the paper, or TOML (spec/jojo, configuration). */
public final class Tree {
    /** A tree of the largest size, with every node written out, is smaller. */
    private static final int FILE_MOST_BYTES = 16 << 20;

    private Tree() {}

    /** @throws ConfigException with line and column of what is wrong */
    public static NodeSpec read(Path file) throws ConfigException {
        byte[] text;
        try (InputStream in = Files.newInputStream(file)) {
            text = in.readNBytes(FILE_MOST_BYTES + 1);
        } catch (NoSuchFileException e) {
            throw new ConfigException(new Place(file.toString(), 1, 1), "there is no such file");
        } catch (IOException e) {
            throw new ConfigException(new Place(file.toString(), 1, 1), "it cannot be read: " + e.getMessage());
        }
        Path folder = file.toAbsolutePath().getParent();
        return parse(file.toString(), text, folder == null ? Path.of("/") : folder);
    }

    /**
     * As {@link #read}, of a text at hand. What begins with {@code <} is XML, all else TOML.
     *
     * @param name how errors call it
     * @param folder what relative paths in it are relative to
     */
    public static NodeSpec parse(String name, byte[] text, Path folder) throws ConfigException {
        if (text.length > FILE_MOST_BYTES) {
            throw new ConfigException(new Place(name, 1, 1), "it is larger than " + FILE_MOST_BYTES + " bytes");
        }
        return Topology.of(looksLikeXml(text) ? XmlReader.read(name, text) : TomlReader.read(name, text), folder);
    }

    private static boolean looksLikeXml(byte[] text) {
        for (byte b : text) {
            // A byte order mark, of UTF-8 or UTF-16, and what UTF-16 puts around a blank or a bracket.
            if (b == '<') {
                return true;
            }
            boolean skipped = b == ' ' || b == '\t' || b == '\r' || b == '\n' || b <= 0;
            if (!skipped) {
                return false;
            }
        }
        return false;
    }
}
