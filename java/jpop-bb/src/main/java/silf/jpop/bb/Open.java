package silf.jpop.bb;

/**
 * A subproblem that has not been looked at yet.
 *
 * @param <S> its state
 */
final class Open<S> {
    final Position at;
    /** No solution at or below it costs less: the largest bound on the way to it. */
    final long bound;
    /** Null where it was made elsewhere; it is made again when it is needed. */
    S state;

    Open(Position at, long bound, S state) {
        this.at = at;
        this.bound = bound;
        this.state = state;
    }
}
