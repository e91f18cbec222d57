package silf.jojo.program;

import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** Answers messages that are known by their types. */
public final class Twice extends Code {
    @Override
    public Object handle(Message mes) throws JojoException {
        return mes.contents instanceof Integer number ? (Object) (2 * number) : mes.as(String.class).repeat(2);
    }
}
