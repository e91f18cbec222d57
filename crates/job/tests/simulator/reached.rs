//! What the histories reached, so that a test of nothing is noticed.

use super::World;
use kumiko_job::attempt::Outcome;
use kumiko_job::event::Event;
use kumiko_job::id::JobId;
use kumiko_job::state::Stage;

#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    ran: u64,
    tried_again: u64,
    ran_again: u64,
    requeued: u64,
    lost: u64,
    cancelled: u64,
    unattended: u64,
    staged: u64,
    not_staged: u64,
    released: u64,
    left_held: u64,
}

impl World {
    fn was_requeued(&self, id: JobId) -> bool {
        let mut of_job = self.disk.records.iter().filter(|line| line.job == id);
        of_job.any(|line| matches!(line.record.event, Event::Requeued { .. }))
    }
}

impl Reached {
    /// Adds what a history that is over came to.
    pub fn count(&mut self, world: &mut World) {
        self.ran += world.began.len() as u64;
        let jobs = world.up().jobs.clone();
        for job in jobs.values() {
            self.ran_again += u64::from(world.began.get(&job.id).is_some_and(|began| *began > 1));
            self.requeued += u64::from(world.was_requeued(job.id));
            self.tried_again += u64::from(job.last_epoch() > 1);
            let Stage::Ended(end) = &job.stage else {
                continue;
            };
            let cancelled = end.outcome == Outcome::Cancelled;
            let exited = matches!(end.outcome, Outcome::Exited { .. });
            let not_staged = matches!(end.outcome, Outcome::StagingFailed { .. });
            let held = job.hold_s().is_some();
            let left = cancelled && world.was_left(job.id);
            self.lost += u64::from(matches!(end.outcome, Outcome::Lost { .. }));
            self.cancelled += u64::from(cancelled);
            self.staged += u64::from(exited && !job.description.stage_in.is_empty());
            self.not_staged += u64::from(not_staged);
            self.unattended += u64::from(left && !held);
            self.left_held += u64::from(left && held);
            self.released += u64::from(exited && held);
        }
    }

    pub fn add(&mut self, one: &Reached) {
        self.ran += one.ran;
        self.tried_again += one.tried_again;
        self.ran_again += one.ran_again;
        self.requeued += one.requeued;
        self.lost += one.lost;
        self.cancelled += one.cancelled;
        self.unattended += one.unattended;
        self.staged += one.staged;
        self.not_staged += one.not_staged;
        self.released += one.released;
        self.left_held += one.left_held;
    }

    /// Of all, how often that was reached which was reached least; nearly all run, so that counts a hundredth.
    pub fn least(&self) -> u64 {
        let all = [
            self.ran / 100,
            self.tried_again,
            self.ran_again,
            self.requeued,
            self.lost,
            self.cancelled,
            self.unattended,
            self.staged,
            self.not_staged,
            self.released,
            self.left_held,
        ];
        all.into_iter().min().unwrap_or_default()
    }
}
