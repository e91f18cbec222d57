//! How many jobs there are, of whom: what the limits are measured by.

use kumiko_job::admission::Capacity;
use kumiko_job::state::{Job, Stage};
use std::collections::HashMap;

/// Told to operators; published after each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that have not ended.
    pub live: usize,
    /// Jobs that are not removed.
    pub kept: usize,
    pub events_recorded: u64,
    pub commits: u64,
    /// Jobs that wait until what they reserve is left.
    pub queued: usize,
    /// What is left to reserve.
    pub left: Capacity,
    /// Reports that wait for a log that cannot be written (full disk).
    pub unrecorded_reports: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub live: usize,
    pub kept: usize,
}

#[derive(Debug, Default)]
pub struct Counts {
    of: HashMap<String, Count>,
    pub all: Count,
}

impl Counts {
    /// `kept` by subject, as the log has it; `live`: whose jobs live.
    pub fn new(kept: HashMap<String, usize>, live: impl Iterator<Item = String>) -> Counts {
        let mut counts = Counts::default();
        for (subject, kept) in kept {
            counts.all.kept += kept;
            counts.of.insert(subject, Count { live: 0, kept });
        }
        for subject in live {
            counts.all.live += 1;
            counts.of.entry(subject).or_default().live += 1;
        }
        counts
    }

    pub fn of(&self, subject: &str) -> Count {
        self.of.get(subject).copied().unwrap_or_default()
    }

    /// A job has gone from one state to the next.
    pub fn step(&mut self, before: Option<&Job>, after: &Job) {
        let of = |job: &Job| Count {
            live: usize::from(job.is_live()),
            kept: usize::from(!matches!(job.stage, Stage::Removed { .. })),
        };
        let (was, is) = (before.map(of).unwrap_or_default(), of(after));
        if was == is {
            return;
        }
        let subject = &after.caller.subject;
        let count = self.of.entry(subject.clone()).or_default();
        for count in [&mut self.all, &mut *count] {
            count.live = (count.live + is.live).saturating_sub(was.live);
            count.kept = (count.kept + is.kept).saturating_sub(was.kept);
        }
        if *count == Count::default() {
            self.of.remove(subject);
        }
    }
}
