package silf.jojo.config;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The tree that a configuration file describes: XML as in the paper, or TOML (spec/jojo, configuration). */
public final class Tree {
    /** A tree of the largest size, with every node written out, is smaller. */
    private static final int FILE_MOST_BYTES = 16 << 20;

    private static final Pattern DECLARED = Pattern.compile("<\\?xml [^>]*encoding *= *[\"']([^\"']*)[\"']");

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
        Charset charset = charset(name, text);
        String decoded;
        try {
            decoded = charset.newDecoder().decode(ByteBuffer.wrap(text)).toString();
        } catch (CharacterCodingException e) {
            throw new ConfigException(new Place(name, 1, 1), "this is not " + charset);
        }
        boolean xml = decoded.replace('\ufeff', ' ').stripLeading().startsWith("<");
        return Topology.of(xml ? XmlReader.read(name, decoded) : TomlReader.read(name, decoded), folder);
    }

    /** UTF-8, but for XML that says otherwise (XML 1.0, appendix F), as files of the paper's time do. */
    private static Charset charset(String name, byte[] text) throws ConfigException {
        if (text.length >= 2 && ((text[0] == (byte) 0xfe && text[1] == (byte) 0xff) || (text[0] == (byte) 0xff && text[1] == (byte) 0xfe))) {
            return StandardCharsets.UTF_16;
        }
        Matcher declared = DECLARED.matcher(new String(text, 0, Math.min(text.length, 256), StandardCharsets.ISO_8859_1));
        try {
            return declared.lookingAt() ? Charset.forName(declared.group(1)) : StandardCharsets.UTF_8;
        } catch (IllegalArgumentException e) {
            throw new ConfigException(new Place(name, 1, 1), "the encoding " + declared.group(1) + " is not known here; write UTF-8");
        }
    }
}
