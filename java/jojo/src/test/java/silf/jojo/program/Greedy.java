package silf.jojo.program;

import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** A client that asks for more than it can hold, and the node that gives it. */
public final class Greedy extends Code {
    @Override
    public void start() throws JojoException {
        if (parent != null) {
            return;
        }
        try {
            descendants[0].call(new Message(40 << 20, null));
        } catch (JojoException e) {
            System.out.println(e.getMessage());
        }
        System.out.println("and then: " + ((byte[]) descendants[0].call(new Message(7, null))).length);
    }

    @Override
    public Object handle(Message mes) {
        return new byte[mes.tag];
    }
}
