//! What is known of the attempt, and what of it the connected site has not been told yet (spec/jobs/runner.md, R23).
//!
//! Nothing queues: a report is made when the socket takes bytes, from what is true then, so a slow site costs no
//! memory and skips lengths that are out of date. Pure.

use kumiko_job::attempt::{AttemptReport, Cost, Outcome, OutputStream};
use kumiko_wire::runner::STDIN_WINDOW_BYTES;
use std::cell::Cell;

/// Of stdin that was taken so much at once is told at once: its sender is to go on.
const TAKEN_BYTES: u64 = STDIN_WINDOW_BYTES as u64 / 4;

/// What is true now.
#[derive(Debug, Default)]
pub struct Facts {
    /// It waits to be released.
    pub held: bool,
    pub started: Option<AttemptReport>,
    /// It is dumped before it is made to leave.
    pub vacates: bool,
    /// Counts times at which it is said that all this is true still.
    pub beats: u64,
    /// By `index` of the stream.
    pub lengths: [u64; 2],
    pub stdin_taken: u64,
    /// That this much was taken is told by itself: nothing else came that would have told it along.
    pub stdin_hurries: bool,
    pub stdin_closed: bool,
    /// What it does not follow of the policy of now, since that is another than it began with.
    pub unfollowed: Option<Vec<String>>,
    pub suspended: bool,
    /// Known when it has ended.
    pub cost: Option<Cost>,
    pub ended: Option<Outcome>,
}

/// What one connection has been told; a new connection begins with nothing.
#[derive(Debug, Default)]
pub struct Told {
    held: bool,
    started: bool,
    beats: u64,
    lengths: [u64; 2],
    stdin_taken: u64,
    stdin_closed: bool,
    unfollowed: Option<Vec<String>>,
    suspended: bool,
    ended: bool,
}

impl Told {
    /// Passes on each report that is due, in the order of R23, and counts it as told.
    pub fn catch_up(&mut self, facts: &Facts, mut say: impl FnMut(&AttemptReport)) {
        let speaks = self.stdin_closed != facts.stdin_closed
            || facts.ended.is_some()
            || facts.stdin_hurries
            || facts.stdin_taken.saturating_sub(self.stdin_taken) >= TAKEN_BYTES;
        let speaks = Cell::new(speaks);
        let mut say = |report: &AttemptReport| {
            speaks.set(true);
            say(report);
        };
        if !std::mem::replace(&mut self.held, facts.held) && facts.held {
            say(&AttemptReport::Held);
        }
        if let (false, Some(started)) = (self.started, &facts.started) {
            self.started = true;
            if facts.vacates {
                say(&AttemptReport::Vacates);
            }
            say(started);
        }
        if std::mem::replace(&mut self.beats, facts.beats) != facts.beats {
            say(&AttemptReport::Beat);
        }
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let length = facts.lengths[index(stream)];
            if self.lengths[index(stream)] != length {
                self.lengths[index(stream)] = length;
                say(&AttemptReport::Output { stream, length });
            }
        }
        // A word of its own would wake a site for nothing, if an answer to it is soon to come.
        if speaks.get() && self.stdin_taken != facts.stdin_taken {
            self.stdin_taken = facts.stdin_taken;
            say(&AttemptReport::StdinTaken {
                offset: facts.stdin_taken,
            });
        }
        if self.stdin_closed != facts.stdin_closed {
            self.stdin_closed = facts.stdin_closed;
            say(&AttemptReport::StdinClosed);
        }
        if self.unfollowed != facts.unfollowed {
            self.unfollowed.clone_from(&facts.unfollowed);
            if let Some(not) = self.unfollowed.clone() {
                say(&AttemptReport::Followed { not });
            }
        }
        if self.suspended != facts.suspended {
            self.suspended = facts.suspended;
            say(match facts.suspended {
                true => &AttemptReport::Suspended,
                false => &AttemptReport::Resumed,
            });
        }
        if let (false, Some(outcome)) = (self.ended, &facts.ended) {
            self.ended = true;
            if let Some(cost) = facts.cost {
                say(&AttemptReport::Cost(cost));
            }
            say(&AttemptReport::Ended(outcome.clone()));
        }
    }

    /// It knows how much of stdin was taken.
    pub fn knows_stdin(&self, facts: &Facts) -> bool {
        self.stdin_taken == facts.stdin_taken
    }
}

/// Place of a stream in an array of two.
pub fn index(stream: OutputStream) -> usize {
    match stream {
        OutputStream::Stdout => 0,
        OutputStream::Stderr => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(told: &mut Told, facts: &Facts) -> Vec<AttemptReport> {
        let mut said = Vec::new();
        told.catch_up(facts, |report| said.push(report.clone()));
        said
    }

    #[test]
    fn a_slow_site_hears_the_last_length_only_and_the_end_last() {
        let mut site = Told::default();
        let mut facts = Facts {
            lengths: [10, 0],
            ..Facts::default()
        };
        let stdout = |length| AttemptReport::Output {
            stream: OutputStream::Stdout,
            length,
        };
        assert_eq!(told(&mut site, &facts), [stdout(10)]);
        assert_eq!(told(&mut site, &facts), []);
        facts.lengths[0] = 20;
        facts.lengths[0] = 30;
        facts.ended = Some(Outcome::Exited { status: 0 });
        let end = AttemptReport::Ended(Outcome::Exited { status: 0 });
        assert_eq!(told(&mut site, &facts), [stdout(30), end.clone()]);
        assert_eq!(told(&mut site, &facts), []);
        assert_eq!(told(&mut Told::default(), &facts), [stdout(30), end]);
    }

    #[test]
    fn that_it_lives_is_told_to_each_site_at_once_and_however_often_it_was_due_once() {
        let mut site = Told::default();
        let mut facts = Facts {
            beats: 1,
            ..Facts::default()
        };
        assert_eq!(told(&mut site, &facts), [AttemptReport::Beat]);
        assert_eq!(told(&mut site, &facts), []);
        facts.beats = 4;
        assert_eq!(told(&mut site, &facts), [AttemptReport::Beat]);
        assert_eq!(told(&mut Told::default(), &facts), [AttemptReport::Beat]);
    }

    #[test]
    fn what_was_taken_of_stdin_is_told_along_or_when_it_hurries() {
        let mut site = Told::default();
        let mut facts = Facts {
            stdin_taken: 10,
            ..Facts::default()
        };
        let taken = |offset| AttemptReport::StdinTaken { offset };
        assert_eq!(told(&mut site, &facts), []);
        assert!(!site.knows_stdin(&facts));
        facts.lengths[0] = 5;
        let (stream, length) = (OutputStream::Stdout, 5);
        let output = AttemptReport::Output { stream, length };
        assert_eq!(told(&mut site, &facts), [output, taken(10)]);
        assert!(site.knows_stdin(&facts));
        facts.stdin_taken = 20;
        assert_eq!(told(&mut site, &facts), []);
        facts.stdin_hurries = true;
        assert_eq!(told(&mut site, &facts), [taken(20)]);
        facts.stdin_hurries = false;
        facts.stdin_taken += TAKEN_BYTES;
        assert_eq!(told(&mut site, &facts), [taken(20 + TAKEN_BYTES)]);
        facts.stdin_taken += 1;
        facts.stdin_closed = true;
        let last = [taken(21 + TAKEN_BYTES), AttemptReport::StdinClosed];
        assert_eq!(told(&mut site, &facts), last);
    }

    #[test]
    fn what_it_cost_is_told_with_the_end_and_not_before() {
        let mut site = Told::default();
        let cost = Cost {
            start_us: 5,
            ..Cost::default()
        };
        let mut facts = Facts {
            cost: Some(cost),
            ..Facts::default()
        };
        assert_eq!(told(&mut site, &facts), []);
        facts.ended = Some(Outcome::Cancelled);
        let both = [
            AttemptReport::Cost(cost),
            AttemptReport::Ended(Outcome::Cancelled),
        ];
        assert_eq!(told(&mut site, &facts), both);
        assert_eq!(told(&mut site, &facts), []);
    }

    #[test]
    fn a_suspension_that_is_over_is_not_told() {
        let mut site = Told::default();
        let mut facts = Facts {
            suspended: true,
            ..Facts::default()
        };
        facts.suspended = false;
        assert_eq!(told(&mut site, &facts), []);
        facts.suspended = true;
        assert_eq!(told(&mut site, &facts), [AttemptReport::Suspended]);
        facts.suspended = false;
        assert_eq!(told(&mut site, &facts), [AttemptReport::Resumed]);
    }
}
