//! How the attempt ended, from what was done to it and what its guests returned (spec/jobs/runner.md, R11). Pure.

use kumiko_job::attempt::{EngineCause, Outcome, OutputStream};
use kumiko_sandbox::Exceeded;

/// Why this runner ended the guests itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Cancelled,
    TimeLimit,
    OutputQuota(OutputStream),
    SpoolFailed(String),
    /// It was over a limit of its policy.
    Limit(Exceeded),
}

/// How one guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signalled(i32),
}

/// The first cause counts; without one, the first guest by rank that did not end well.
pub fn outcome(cause: Option<Cause>, ends: &[End]) -> Outcome {
    match cause {
        Some(Cause::Cancelled) => Outcome::Cancelled,
        Some(Cause::TimeLimit) => Outcome::TimeLimit,
        Some(Cause::OutputQuota(stream)) => Outcome::OutputQuota { stream },
        Some(Cause::SpoolFailed(message)) => Outcome::SpoolFailed { message },
        Some(Cause::Limit(exceeded)) => Outcome::EngineEnded {
            cause: EngineCause::Limit,
            message: exceeded.to_string(),
        },
        None => match ends.iter().find(|end| **end != End::Exited(0)) {
            Some(End::Signalled(signal)) => Outcome::Signalled { signal: *signal },
            Some(End::Exited(status)) => Outcome::Exited { status: *status },
            None => Outcome::Exited { status: 0 },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_guest_by_rank_that_did_not_end_well_speaks_for_all() {
        let rows = [
            (vec![End::Exited(0)], Outcome::Exited { status: 0 }),
            (
                vec![End::Exited(0), End::Exited(3), End::Signalled(9)],
                Outcome::Exited { status: 3 },
            ),
            (
                vec![End::Signalled(11), End::Exited(3)],
                Outcome::Signalled { signal: 11 },
            ),
        ];
        for (ends, expected) in rows {
            assert_eq!(outcome(None, &ends), expected, "{ends:?}");
        }
    }

    #[test]
    fn a_guest_that_exits_well_on_our_cancel_is_cancelled() {
        let ends = [End::Exited(0)];
        assert_eq!(outcome(Some(Cause::Cancelled), &ends), Outcome::Cancelled);
    }
}
