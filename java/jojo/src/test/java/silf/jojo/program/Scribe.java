package silf.jojo.program;

import java.io.IOException;
import java.io.StringWriter;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.RemoteFileReader;
import silf.jojo.RemoteFileWriter;

/** Reads and writes the client's files, as it is told. */
public final class Scribe extends Code {
    public static final int READ = 1;
    public static final int READ_BELOW = 2;
    public static final int BEGIN = 3;
    public static final int LINE = 4;
    public static final int END = 5;

    private RemoteFileWriter writer;

    @Override
    public synchronized Object handle(Message mes) throws JojoException {
        try {
            switch (mes.tag) {
                case READ:
                    try (RemoteFileReader reader = new RemoteFileReader((String) mes.contents)) {
                        StringWriter all = new StringWriter();
                        reader.transferTo(all);
                        return all.toString();
                    }
                case READ_BELOW:
                    return descendants[0].call(new Message(READ, mes.contents));
                case BEGIN:
                    writer = new RemoteFileWriter((String) mes.contents);
                    return null;
                case LINE:
                    writer.write(mes.contents + "\n");
                    writer.flush();
                    return null;
                default:
                    writer.close();
                    return null;
            }
        } catch (IOException e) {
            throw new JojoException(e.getMessage(), e);
        }
    }
}
