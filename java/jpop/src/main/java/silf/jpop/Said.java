package silf.jpop;

import java.io.Serializable;

/** What nodes of any solver say to each other (spec/jpop B5, G2). */
public interface Said extends Serializable {
    /** To the parent. {@code rank} is the child's, {@code life} the number that its JVM drew. */
    interface Up extends Said {
        int rank();

        long life();
    }

    /** A child is there, and has nothing to do. */
    record Hello(int rank, long life) implements Up {}

    /** All is done. */
    record Over() implements Said {}
}
