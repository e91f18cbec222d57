package silf.jojo;

import java.io.Serializable;

/**
 * What is sent: a number by which {@code handle} tells messages apart, and an object. It is encoded before the sending
 * method returns; the object may be changed afterwards.
 */
public final class Message {
    public final int tag;
    public final Serializable contents;

    public Message(int tag, Serializable contents) {
        this.tag = tag;
        this.contents = contents;
    }

    /** A message known by the type of its contents alone; its tag is 0. */
    public static Message of(Serializable contents) {
        return new Message(0, contents);
    }

    /**
     * The contents, as what they must be.
     *
     * @throws JojoException if they are something else
     */
    public <T> T as(Class<T> type) throws JojoException {
        if (!type.isInstance(contents)) {
            throw new JojoException("a message with tag " + tag + " has "
                    + (contents == null ? "no contents" : contents.getClass().getName()) + " where " + type.getName()
                    + " was expected");
        }
        return type.cast(contents);
    }

    @Override
    public String toString() {
        return "Message[tag " + tag + ", "
                + (contents == null ? "no contents" : contents.getClass().getTypeName()) + "]";
    }
}
