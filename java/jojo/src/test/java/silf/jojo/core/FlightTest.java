package silf.jojo.core;

import java.util.ArrayDeque;
import silf.jojo.testkit.Check;

/** The window of a link, on links that are numbers: so many bytes a second, so far away. */
public final class FlightTest {
    private static final int PIECE = 28 << 10;
    private static final long SECOND = 1_000_000_000;

    private record Mark(long nonce, long at_ns) {}

    /** Bulk without a pause for ten seconds; then what the last second was like. */
    private static void check(double bytesPerSecond, long far_ns, double useLeast, long queueMost_ns) {
        Flight flight = new Flight();
        ArrayDeque<Mark> answers = new ArrayDeque<>();
        long now = 0;
        double idleFrom_ns = 0; // when the link will have carried all that was written
        long carried = 0;
        long queueWorst_ns = 0;
        while (now < 10 * SECOND) {
            if (flight.isFull(PIECE)) {
                Check.that(!answers.isEmpty(), "the window is full, and no answer will open it");
                Mark next = answers.poll();
                now = Math.max(now, next.at_ns);
                flight.passed(next.nonce, now);
                continue;
            }
            idleFrom_ns = Math.max(idleFrom_ns, now) + PIECE * SECOND / bytesPerSecond;
            if (now > 9 * SECOND) {
                carried += PIECE;
                queueWorst_ns = Math.max(queueWorst_ns, (long) idleFrom_ns - now);
            }
            if (flight.wrote(PIECE)) {
                answers.add(new Mark(flight.mark(now), (long) idleFrom_ns + far_ns));
            }
            now += 1000; // a writer is not infinitely fast
            while (!answers.isEmpty() && answers.peek().at_ns <= now) {
                Mark next = answers.poll();
                flight.passed(next.nonce, next.at_ns);
            }
        }
        String link = bytesPerSecond / 1e6 + " MB/s, " + far_ns / 1e6 + " ms: ";
        Check.that(carried >= useLeast * bytesPerSecond, link + "carried " + carried + " bytes in a second");
        Check.that(queueWorst_ns <= queueMost_ns, link + "a queue of " + queueWorst_ns / 1e6 + " ms");
    }

    public void a_near_link_is_used_and_has_a_short_queue() {
        check(400e6, 100_000, 0.9, 4_000_000);
        check(100e6, 200_000, 0.9, 4_000_000);
        check(50e6, 1_000_000, 0.9, 4_000_000);
    }

    public void a_far_link_is_used() {
        check(10e6, 300_000_000, 0.9, 400_000_000);
        check(20e6, 50_000_000, 0.9, 100_000_000);
    }

    /** Such as after a moment in which nothing ran: nobody would write, so that no mark would be written either. */
    public void a_window_that_shrinks_below_what_no_mark_follows_lets_the_next_one_through() {
        Flight flight = new Flight();
        long now = 0;
        while (flight.window() < 1 << 20) {
            flight.isFull(flight.window() + 1);
            if (flight.wrote(PIECE)) {
                flight.passed(flight.mark(now), now + 1000);
                now += 1000;
            }
        }
        long[] late = new long[2];
        for (int i = 0; i < late.length; i++) {
            flight.isFull(0);
            while (!flight.wrote(PIECE)) {
                // until a mark is due
            }
            late[i] = flight.mark(now);
        }
        long unmarked = 0;
        flight.isFull(0);
        for (; unmarked + PIECE < flight.window() / 4; unmarked += PIECE) {
            Check.that(!flight.wrote(PIECE), "a mark is due");
        }
        for (long nonce : late) {
            flight.passed(nonce, now + SECOND);
        }
        Check.that(flight.window() < unmarked, "the window is " + flight.window());
        Check.that(!flight.isFull(0), "the window is full, and no answer will open it");
        Check.that(flight.wrote(PIECE), "no mark is due");
    }

    public void what_was_under_way_on_a_wire_that_was_cut_is_forgotten() {
        Flight flight = new Flight();
        while (!flight.isFull(0)) {
            if (flight.wrote(PIECE)) {
                flight.mark(1);
            }
        }
        flight.begin();
        Check.that(!flight.isFull(0), "nothing is under way");
        flight.passed(1, 2); // an answer that came by the old wire
        Check.that(!flight.isFull(flight.window()), "the whole window is free");
    }

    public void small_messages_alone_are_not_marked_and_do_not_count() {
        Flight flight = new Flight();
        for (int i = 0; i < 10_000; i++) {
            Check.that(!flight.wrote(100), "a mark is due");
        }
        Check.that(!flight.isFull(flight.window()), "the whole window is free");
        Check.that(flight.wrote((int) flight.window()), "no mark is due behind bulk");
    }

    public void an_answer_to_no_mark_says_nothing() {
        Flight flight = new Flight();
        flight.passed(0, 5);
        flight.isFull(PIECE);
        flight.wrote(PIECE);
        long nonce = flight.mark(10);
        flight.passed(nonce + 1, 11);
        Check.that(flight.isFull(flight.window()), "the piece is under way");
        flight.passed(nonce, 12);
        Check.that(!flight.isFull(flight.window()), "the piece has passed");
    }
}
