package silf.jpop.bb;

import java.io.Serializable;
import java.util.List;
import java.util.OptionalLong;

/**
 * A problem as its author writes it: a tree of states, of which some are solutions with a value, and the best value is asked
 * for. It is sent once to each node; states are not: a node makes them again from the root, by what {@link #branch} gives.
 *
 * <p>Duties: (1) {@link #branch} gives the same states in the same order whenever and wherever it is asked; (2) no solution at or
 * below a state is better than its {@link #bound}; (3) values and bounds are within {@link #VALUE_MOST} of 0; (4) nothing keeps
 * memory between calls. A bound that is none is noticed when a solution contradicts it, and ends the run.
 *
 * @param <S> a state; it is not changed after it was given away
 */
public interface Problem<S> extends Serializable {
    /** Leaves room for the sign, and for what is worse than every solution. */
    long VALUE_MOST = Long.MAX_VALUE / 4;

    /** Whether larger values are better. */
    default boolean maximises() {
        return false;
    }

    /** Where all begins. */
    S root();

    /** The states directly below, the most promising first; none where there is nothing below. */
    List<S> branch(S state);

    /** What no solution at or below this state surpasses. */
    long bound(S state);

    /** The value of the solution that this state is; empty if it is none. */
    OptionalLong value(S state);

    /** How a state is shown to a person. */
    default String show(S state) {
        return String.valueOf(state);
    }
}
