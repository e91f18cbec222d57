package silf.jojo.core;

import java.util.List;
import silf.jojo.core.Course.Step;
import silf.jojo.testkit.Check;

/** How far a node has come by itself: what is made known, when, and never twice (spec/jojo J18). */
public final class CourseTest {
    private final Course course = new Course();

    private void says(List<Step> expected, boolean allBelowReady, boolean allBelowDone) {
        Check.equal(expected, course.next(allBelowReady, allBelowDone), "what is made known");
    }

    public void ready_is_said_once_when_it_and_all_below_are() {
        says(List.of(), true, false);
        course.initialised();
        says(List.of(), false, false);
        says(List.of(Step.READY), true, false);
        says(List.of(), true, false);
    }

    public void a_node_whose_child_is_lost_after_ready_says_it_no_second_time() {
        course.initialised();
        says(List.of(Step.READY), true, false);
        says(List.of(), false, false);
        says(List.of(), true, false);
    }

    public void done_is_said_when_it_and_all_below_are_and_taken_back_when_one_is_not() {
        course.initialised();
        says(List.of(Step.READY), true, true);
        course.go();
        says(List.of(), true, true);
        course.started();
        says(List.of(), true, false);
        says(List.of(Step.DONE), true, true);
        Check.that(course.saidDone(), "DONE is said");
        says(List.of(Step.NOT_DONE), true, false);
        Check.that(!course.saidDone(), "DONE is taken back");
        says(List.of(Step.DONE), true, true);
        says(List.of(), true, true);
    }

    public void nothing_is_said_once_it_ends() {
        course.initialised();
        Check.that(course.end(500), "the first end");
        says(List.of(), true, true);
        Check.that(!course.end(Course.HANDLERS_MOST_ms), "a second end");
        Check.equal(500, course.grace_ms(), "what handlers may take");
        Check.that(!course.runs(), "it runs on");
    }

    public void nothing_is_said_once_it_is_lost_and_the_first_reason_stands() {
        course.initialised();
        Check.that(course.lose("silent"), "the first loss");
        Check.that(!course.lose("closed"), "a second loss");
        Check.equal("silent", course.lost(), "why");
        says(List.of(), true, true);
    }

    public void a_link_that_ends_behind_the_node_is_no_loss() {
        course.end(0);
        course.over();
        Check.that(!course.lose("closed"), "a loss");
        Check.equal(null, course.lost(), "why");
    }
}
