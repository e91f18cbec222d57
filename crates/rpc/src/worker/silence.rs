//! For how long nothing was heard of a process on another host (spec/rpc P37). Time is counted in looks, so that the site's own pauses
//! are nobody's silence. Pure.

use kumiko_call::respond::{LOST_MS, SUSPECT_MS};
use kumiko_job::attempt::AttemptReport;
use std::time::Duration;

/// A runner says so often that it lives: three times before it is suspect.
pub const BEAT_MS: u64 = 1_000;
const LOOK_MS: u64 = 500;
pub const LOOK: Duration = Duration::from_millis(LOOK_MS);

#[derive(Debug, Default)]
pub struct Silence {
    /// Its runner has said that it lives, or did when another process of the site was there.
    expected: bool,
    looks: u64,
    doubted: bool,
}

impl Silence {
    /// Of a process that ran before this one of the site did.
    pub fn expecting(expected: bool) -> Silence {
        Silence {
            expected,
            ..Silence::default()
        }
    }

    pub fn is_expected(&self) -> bool {
        self.expected
    }

    /// A runner begins each connection with its start; one of before does not beat.
    pub fn hear(&mut self, report: &AttemptReport) {
        self.looks = 0;
        match report {
            AttemptReport::Started { .. } => self.expected = false,
            AttemptReport::Beat => self.expected = true,
            _ => {}
        }
    }

    /// It was waited for that long, and nothing came.
    pub fn look(&mut self) {
        self.looks += 1;
    }

    fn is_over(&self, ms: u64) -> bool {
        self.expected && self.looks * LOOK_MS >= ms
    }

    /// Told once: it is suspect, or is no longer.
    pub fn news(&mut self) -> Option<bool> {
        let doubted = self.is_over(SUSPECT_MS);
        let before = std::mem::replace(&mut self.doubted, doubted);
        (before != doubted).then_some(doubted)
    }

    /// Of another call nothing was told.
    pub fn begin(&mut self) {
        self.doubted = false;
    }

    pub fn is_lost(&self) -> bool {
        self.is_over(LOST_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> AttemptReport {
        AttemptReport::Started {
            pid: 1,
            mechanism: String::new(),
            not_enforced: Vec::new(),
            why: Vec::new(),
        }
    }

    fn wait(silence: &mut Silence, ms: u64) {
        (0..ms / LOOK_MS).for_each(|_| silence.look());
    }

    #[test]
    fn who_was_heard_is_suspect_after_three_seconds_and_lost_after_ten() {
        let mut silence = Silence::default();
        silence.hear(&started());
        silence.hear(&AttemptReport::Beat);
        wait(&mut silence, 2_500);
        assert_eq!(silence.news(), None);
        wait(&mut silence, 500);
        assert_eq!((silence.news(), silence.news()), (Some(true), None));
        silence.hear(&AttemptReport::StdinClosed);
        assert_eq!((silence.news(), silence.news()), (Some(false), None));
        wait(&mut silence, 9_500);
        assert!(!silence.is_lost());
        wait(&mut silence, 500);
        assert!(silence.is_lost());
    }

    #[test]
    fn who_waits_for_its_engine_or_never_beat_is_not_missed() {
        let mut silence = Silence::default();
        wait(&mut silence, 60_000);
        assert!(silence.news().is_none() && !silence.is_lost());
        let mut silence = Silence::expecting(true);
        silence.hear(&started());
        wait(&mut silence, 60_000);
        assert!(silence.news().is_none() && !silence.is_lost());
        let mut silence = Silence::expecting(true);
        wait(&mut silence, 10_000);
        assert!(silence.is_lost());
    }
}
