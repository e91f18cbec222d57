package silf.jojo.core;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import java.util.Properties;
import silf.jojo.Message;
import silf.jojo.RemoteException;
import silf.jojo.config.NodeSpec;
import silf.jojo.config.NodeSpec.FileRoot;
import silf.jojo.program.Body;
import silf.jojo.program.Scribe;
import silf.jojo.testkit.Check;
import silf.jojo.testkit.Scratch;

/** Files of the client at a node: live, and no further than was declared. */
public final class FilesTest {
    private final Over over;

    public FilesTest(Over over) {
        this.over = over;
    }

    private void with(java.nio.file.Path folder, Body.Test test) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("body", Body.name(test));
        List<FileRoot> roots = List.of(
                new FileRoot("in", folder.resolve("in").toString(), false), new FileRoot("out", folder.resolve("out").toString(), true));
        NodeSpec leaf = NodeSpec.of("leaf", "leaf", Scribe.class.getName());
        NodeSpec head = NodeSpec.of("head", "head", Scribe.class.getName(), leaf).withFiles(roots);
        NodeSpec other = NodeSpec.of("other", "other", Scribe.class.getName());
        new Program(
                        NodeSpec.of("client", "client", Body.class.getName(), over.reached(head), over.reached(other)), properties,
                        over.launcher(),
                        FilesTest.class.getClassLoader(), System.out,
                        new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8))
                .run();
    }

    private static java.nio.file.Path folder() throws IOException {
        java.nio.file.Path folder = Scratch.folder();
        Files.createDirectories(folder.resolve("in/deep"));
        Files.createDirectories(folder.resolve("out"));
        Files.writeString(folder.resolve("in/deep/a.txt"), "hello \u00e9");
        Files.writeString(folder.resolve("secret"), "secret");
        Files.createSymbolicLink(folder.resolve("in/link"), folder.resolve("secret"));
        Files.createSymbolicLink(folder.resolve("in/up"), folder);
        return folder;
    }

    public void nodes_read_and_write_files_of_the_client_live() throws Exception {
        java.nio.file.Path folder = folder();
        with(folder, client -> {
            Check.equal("hello \u00e9", client.child(0).call(new Message(Scribe.READ, "in/deep/a.txt")), "a file");
            Check.equal("hello \u00e9", client.child(0).call(new Message(Scribe.READ_BELOW, "in/deep/a.txt")), "a file, below");
            StringBuilder large = new StringBuilder();
            for (int i = 0; i < 200_000; i++) {
                large.append(i).append('\n');
            }
            Files.writeString(folder.resolve("in/large.txt"), large);
            Check.equal(large.toString(), client.child(0).call(new Message(Scribe.READ, "in/large.txt")), "a large file");
            client.child(0).call(new Message(Scribe.BEGIN, "out/log.txt"));
            client.child(0).call(new Message(Scribe.LINE, "one"));
            Check.equal("one\n", Files.readString(folder.resolve("out/log.txt")), "the file while it is written");
            client.child(0).call(new Message(Scribe.LINE, large.toString()));
            client.child(0).call(new Message(Scribe.END, null));
            Check.equal("one\n" + large + "\n", Files.readString(folder.resolve("out/log.txt")), "the file at the end");
        });
    }

    public void what_was_not_declared_is_refused() throws Exception {
        java.nio.file.Path folder = folder();
        with(folder, client -> {
            for (String[] row : new String[][] {
                {"in/../secret", ".. may not stand in a name"},
                {"in/link", "in/link: "},
                {"in/up/secret", "in/up/secret: "},
                {"/etc/passwd", "must begin with the name of a directory"},
                {"etc/passwd", "must begin with the name of a directory"},
                {"in/none", "there is no such file"},
            }) {
                RemoteException e = Check.thrown(
                        RemoteException.class, () -> client.child(0).call(new Message(Scribe.READ, row[0])), row[0]);
                Check.that(e.getMessage().contains(row[1]) && !e.getMessage().contains("secret\n"), row[0] + ": " + e.getMessage());
            }
            RemoteException e = Check.thrown(
                    RemoteException.class, () -> client.child(0).call(new Message(Scribe.BEGIN, "in/new")), "writing");
            Check.that(e.getMessage().contains("for reading only"), e.getMessage());
            e = Check.thrown(
                    RemoteException.class, () -> client.child(1).call(new Message(Scribe.READ, "in/deep/a.txt")), "another node");
            Check.that(e.getMessage().contains("declares none"), e.getMessage());
        });
    }
}
