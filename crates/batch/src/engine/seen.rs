//! What an engine says of an attempt, and what becomes of it together with what the spool says (spec/jobs/engines.md, E10
//! to E14). Pure.

use kumiko_job::attempt::{EngineCause, Outcome};

/// One attempt in an engine's own list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub tag: String,
    /// The engine's own name for it.
    pub number: String,
    pub seen: Seen,
    /// Where it runs.
    pub hosts: Vec<String>,
    /// Of one that runs under a limit of the engine's.
    pub time: Option<Time>,
    /// One of these that is drained.
    pub leaves: Option<String>,
}

/// How long the engine has something run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub left_ms: u64,
    pub whole_ms: u64,
}

impl Row {
    /// One of which no more is known.
    pub fn new(tag: String, number: String, seen: Seen) -> Row {
        Row {
            tag,
            number,
            seen,
            hosts: Vec::new(),
            time: None,
            leaves: None,
        }
    }
}

/// What an engine's command printed is not what it prints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it printed {0:?}, which is not an answer")]
pub struct Garbled(String);

/// Characters of what was printed, in an error.
const SHOWN: usize = 80;

impl Garbled {
    pub fn new(line: &str) -> Garbled {
        Garbled(line.chars().take(SHOWN).collect())
    }
}

/// How far it is. Later ones count where an engine has one tag twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// It is over; the engine will not run it (again).
    Over(Verdict),
    /// In words that are not known: decides nothing.
    Unknown(String),
    /// A person has it wait.
    Held(String),
    /// It waits for its turn.
    Waiting(String),
    Running(String),
    /// It is at its end, and how it will have ended is not said yet.
    Ending(String),
}

impl Seen {
    /// As it counts for one that began, if its runner is gone: back in the queue it would not run again.
    #[must_use]
    pub fn of_one_that_began(self) -> Seen {
        match self {
            Seen::Held(words) => Seen::Over(Verdict::Ended(EngineCause::Held, words)),
            Seen::Waiting(words) => Seen::Over(Verdict::Ended(EngineCause::Evicted, words)),
            seen => seen,
        }
    }

    /// In the engine's own words.
    pub fn words(&self) -> &str {
        match self {
            Seen::Over(
                Verdict::ByItself(words) | Verdict::Ended(_, words) | Verdict::NoRunner(words),
            )
            | Seen::Unknown(words)
            | Seen::Held(words)
            | Seen::Waiting(words)
            | Seen::Running(words)
            | Seen::Ending(words) => words,
        }
    }
}

/// How it came to its end, as far as the engine knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was started ended; how is for the spool to say.
    ByItself(String),
    Ended(EngineCause, String),
    /// The slot is there as before, and in it the runner is not.
    NoRunner(String),
}

impl PartialOrd for Verdict {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// One end says as much as another.
impl Ord for Verdict {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// What a spool says of an attempt that has no runner that can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// The runner's last word.
    Told(Outcome),
    /// It never began, and is fenced.
    NotBegun,
    /// It began, and its runner is gone without a word.
    Silent,
}

/// How it ended. `verdict`: None, if the engine does not know it (any more). `cancelled`: by us.
pub fn outcome(engine: &str, trace: Trace, verdict: Option<&Verdict>, cancelled: bool) -> Outcome {
    let ended = |cause: EngineCause, words: &str| Outcome::EngineEnded {
        cause,
        message: format!("{engine} says {words}"),
    };
    match (trace, verdict) {
        (Trace::Told(outcome), Some(Verdict::Ended(cause, words)))
            if outcome.may_be_an_engines() && !cancelled =>
        {
            ended(*cause, words)
        }
        (Trace::Told(outcome), _) => outcome,
        (Trace::NotBegun | Trace::Silent, _) if cancelled => Outcome::Cancelled,
        (
            Trace::NotBegun,
            Some(
                Verdict::Ended(
                    EngineCause::HostLost | EngineCause::Preempted | EngineCause::Evicted,
                    words,
                )
                | Verdict::NoRunner(words),
            ),
        ) => Outcome::not_begun(format!("the attempt never began: {engine} says {words}")),
        (Trace::NotBegun | Trace::Silent, Some(Verdict::Ended(cause, words))) => {
            ended(*cause, words)
        }
        (Trace::NotBegun, Some(Verdict::ByItself(words))) => Outcome::NeverStarted {
            code: "engine_lost_attempt".to_owned(),
            message: format!(
                "{engine} ran the attempt ({words}), but no runner came up: is the site's directory there on the host, or where it is carried a folder with room for a program (TMPDIR)?"
            ),
        },
        (Trace::NotBegun, None) => Outcome::not_begun(format!(
            "the attempt never began: {engine} does not know it"
        )),
        (Trace::Silent, Some(Verdict::ByItself(words) | Verdict::NoRunner(words))) => {
            Outcome::Lost {
                message: format!(
                    "the runner ended without a word: it was killed ({engine} says {words})"
                ),
            }
        }
        (Trace::Silent, None) => Outcome::Lost {
            message: format!(
                "the runner ended without a word, and {engine} does not know the attempt any more"
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_kept_apart() {
        let by_itself = || Some(Verdict::ByItself("DONE".into()));
        let ended = |cause| Some(Verdict::Ended(cause, "WORD".into()));
        let no_runner = || Some(Verdict::NoRunner("LIVES".into()));
        let told = |outcome| Trace::Told(outcome);
        let signalled = |signal| Outcome::Signalled { signal };
        let kind = |outcome: Outcome| match outcome {
            Outcome::NeverStarted { code, .. } => code,
            Outcome::EngineEnded { cause, .. } => format!("{cause:?}"),
            Outcome::Lost { .. } => "lost".to_owned(),
            other => format!("{other:?}"),
        };
        let rows = [
            (
                told(Outcome::Exited { status: 3 }),
                by_itself(),
                false,
                "Exited { status: 3 }",
            ),
            (
                told(Outcome::Exited { status: 3 }),
                ended(EngineCause::Limit),
                false,
                "Exited { status: 3 }",
            ),
            (
                told(signalled(9)),
                ended(EngineCause::Limit),
                false,
                "Limit",
            ),
            (
                told(signalled(15)),
                ended(EngineCause::Preempted),
                false,
                "Preempted",
            ),
            (
                told(signalled(13)),
                ended(EngineCause::Preempted),
                false,
                "Preempted",
            ),
            (
                told(signalled(11)),
                ended(EngineCause::Limit),
                false,
                "Signalled { signal: 11 }",
            ),
            (
                told(Outcome::Exited { status: 143 }),
                ended(EngineCause::Preempted),
                false,
                "Preempted",
            ),
            (
                told(Outcome::Exited { status: 15 }),
                ended(EngineCause::Preempted),
                false,
                "Exited { status: 15 }",
            ),
            (
                told(Outcome::Exited { status: 143 }),
                by_itself(),
                false,
                "Exited { status: 143 }",
            ),
            (
                told(signalled(9)),
                by_itself(),
                false,
                "Signalled { signal: 9 }",
            ),
            (
                told(signalled(9)),
                ended(EngineCause::Removed),
                true,
                "Signalled { signal: 9 }",
            ),
            (
                told(Outcome::Cancelled),
                ended(EngineCause::Removed),
                true,
                "Cancelled",
            ),
            (Trace::NotBegun, None, false, "attempt_not_begun"),
            (Trace::NotBegun, None, true, "Cancelled"),
            (
                Trace::NotBegun,
                ended(EngineCause::HostLost),
                false,
                "attempt_not_begun",
            ),
            (
                Trace::NotBegun,
                ended(EngineCause::Preempted),
                false,
                "attempt_not_begun",
            ),
            (
                Trace::NotBegun,
                ended(EngineCause::Evicted),
                false,
                "attempt_not_begun",
            ),
            (
                Trace::NotBegun,
                ended(EngineCause::Removed),
                false,
                "Removed",
            ),
            (Trace::NotBegun, ended(EngineCause::Held), false, "Held"),
            (Trace::NotBegun, by_itself(), false, "engine_lost_attempt"),
            (Trace::Silent, by_itself(), false, "lost"),
            (Trace::NotBegun, no_runner(), false, "attempt_not_begun"),
            (Trace::NotBegun, no_runner(), true, "Cancelled"),
            (Trace::Silent, no_runner(), false, "lost"),
            (
                told(signalled(9)),
                no_runner(),
                false,
                "Signalled { signal: 9 }",
            ),
            (Trace::Silent, None, false, "lost"),
            (
                Trace::Silent,
                ended(EngineCause::HostLost),
                false,
                "HostLost",
            ),
            (Trace::Silent, ended(EngineCause::Limit), false, "Limit"),
            (
                Trace::Silent,
                ended(EngineCause::Removed),
                true,
                "Cancelled",
            ),
        ];
        for (trace, verdict, cancelled, expected) in rows {
            let got = outcome("slurm", trace.clone(), verdict.as_ref(), cancelled);
            assert_eq!(kind(got), expected, "{trace:?} {verdict:?} {cancelled}");
        }
    }

    #[test]
    fn of_one_tag_twice_what_may_still_run_counts() {
        let mut rows = [
            Seen::Running("R".into()),
            Seen::Over(Verdict::ByItself("CD".into())),
            Seen::Waiting("PD".into()),
            Seen::Unknown("??".into()),
        ];
        rows.sort();
        assert_eq!(
            rows.map(|seen| seen.words().to_owned()),
            ["CD", "??", "PD", "R"]
        );
    }
}
