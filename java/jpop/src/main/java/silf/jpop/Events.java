package silf.jpop;

import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import silf.jojo.JojoException;
import silf.jojo.core.Text;

/** What a run does, as lines of JSON in a file, written while it runs (spec/jpop P3). Without a file, nothing. */
public final class Events {
    private final Writer out;
    private final long begun_ns = System.nanoTime();

    /** @param file null for none */
    public Events(String file, String kind, String problem, boolean maximises) throws JojoException {
        try {
            out = file == null ? null : Files.newBufferedWriter(Path.of(file), StandardCharsets.UTF_8);
        } catch (IOException | java.nio.file.InvalidPathException e) {
            throw new JojoException("the property jpop.events is " + file + ", which cannot be written: " + e, e);
        }
        line("{\"jpop\":1,\"kind\":" + Text.json(kind) + ",\"problem\":" + Text.json(problem) + ",\"maximises\":" + maximises + "}");
    }

    /**
     * How far it is.
     *
     * @param best as text that is a JSON value; "null" for none yet
     * @param more further members, each with a comma before it
     */
    public void now(String best, long left, String more, List<NodeStat> nodes) {
        if (out == null) {
            return;
        }
        StringBuilder text = new StringBuilder(256 + 128 * nodes.size());
        text.append("{\"t\":").append(seconds()).append(",\"best\":").append(best).append(",\"left\":").append(left).append(more).append(",\"nodes\":[");
        for (int i = 0; i < nodes.size(); i++) {
            NodeStat node = nodes.get(i);
            text.append(i == 0 ? "" : ",").append("{\"place\":").append(Text.json(node.place())).append(",\"name\":").append(Text.json(node.name()))
                    .append(",\"works\":").append(node.works()).append(",\"work\":").append(node.work())
                    .append(",\"messages\":").append(node.messages()).append(",\"bytes\":").append(node.bytes())
                    .append(",\"faults\":").append(node.faults()).append('}');
        }
        line(text.append("]}").toString());
    }

    /** A node was lost. */
    public void lost(String name) {
        line("{\"t\":" + seconds() + ",\"lost\":" + Text.json(name) + "}");
    }

    /** The last line. */
    public void end(String best, String how) {
        line("{\"t\":" + seconds() + ",\"best\":" + best + ",\"end\":" + Text.json(how) + "}");
        if (out != null) {
            try {
                out.close();
            } catch (IOException e) {
                System.err.println("jpop: events are incomplete: " + e);
            }
        }
    }

    private String seconds() {
        return String.format(Locale.ROOT, "%.3f", (System.nanoTime() - begun_ns) / 1e9);
    }

    /** A run does not fail because nobody can watch it. */
    private synchronized void line(String text) {
        if (out == null) {
            return;
        }
        try {
            out.write(text);
            out.write('\n');
            out.flush();
        } catch (IOException e) {
            System.err.println("jpop: an event was not written: " + e);
        }
    }
}
