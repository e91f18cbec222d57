//! Jobs that may run again from their start (spec/jobs, J37 to J39): after which ends they do, and what asks for one. Pure. Not here:
//! who says that a host is to be left (`kumiko site drain --now`, `kumiko job migrate`).

use crate::attempt::{EngineCause, Outcome};
use crate::event::Event;
use crate::respond::MAX_ATTEMPTS;
use crate::state::{Attempt, FENCED, Job, Run, Stage};
use std::collections::BTreeSet;

impl Job {
    /// Its attempt began, and has this end: is the job to run again?
    pub(crate) fn runs_again_after(&self, outcome: &Outcome) -> bool {
        let leaves = matches!(&self.stage, Stage::Running(_, run) if run.leaves);
        self.description.rerun
            && match outcome {
                Outcome::Lost { .. } => true,
                Outcome::EngineEnded { cause, .. } => matches!(
                    cause,
                    EngineCause::Preempted | EngineCause::Evicted | EngineCause::HostLost
                ),
                // By us, for its host is drained.
                Outcome::Cancelled => leaves,
                _ => false,
            }
    }

    /// Where its owner wants the attempt of this epoch.
    pub fn wanted_on(&self, epoch: u32) -> Option<&str> {
        let wanted = self.wanted.as_ref().filter(|(of, _)| *of == epoch);
        wanted.map(|(_, host)| host.as_str())
    }

    pub(crate) fn may_be_requeued(
        &self,
        attempt: &Attempt,
        run: &Run,
        epoch: u32,
    ) -> Result<(), &'static str> {
        if epoch != attempt.epoch {
            Err(FENCED)
        } else if !self.description.rerun {
            Err("the job may not run again")
        } else if run.leaves {
            Err("it is to leave already")
        } else if self.cancel_grace_ms.is_some() {
            Err("a cancel stands already")
        } else {
            Ok(())
        }
    }
}

pub(crate) fn wanted_after(job: &Job, event: &Event) -> Option<(u32, String)> {
    match event {
        Event::Requeued { epoch, to, .. } => to.clone().map(|to| (epoch + 1, to)),
        _ => job.wanted.clone(),
    }
}

/// Why nothing of this kind can be wanted on a host: none of these is that, on which pilots take attempts.
pub fn no_pilot(kind: &str, host: &str, hosts: &BTreeSet<String>) -> Option<String> {
    if hosts.contains(host) {
        return None;
    }
    let there_are = match hosts.is_empty() {
        true => format!("there are no pilots now that {kind} could be wanted at"),
        false => {
            let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
            format!("there are some on {}", hosts.join(", "))
        }
    };
    Some(format!(
        "no pilot of this site takes {kind} on {host:?}: {there_are}"
    ))
}

/// The events of an attempt that is to leave its host at once; none, if it is not to run again, or leaves already.
pub fn requeue(job: &Job, epoch: u32, host: &str) -> Vec<Event> {
    let Stage::Running(attempt, run) = &job.stage else {
        return Vec::new();
    };
    let may = epoch < MAX_ATTEMPTS && job.may_be_requeued(attempt, run, epoch).is_ok();
    let (host, to) = (Some(host.to_owned()), None);
    may.then_some(Event::Requeued { epoch, host, to })
        .into_iter()
        .collect()
}

/// Why a job cannot migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMigration {
    #[error("it has ended, or is told to end")]
    Ended,
    #[error(
        "its program would run again from its start, and only its submitter knows whether that does no harm: submit it with --rerun"
    )]
    NotRerun,
    #[error("its program does not run yet")]
    NotRunning,
    #[error("it runs for the {MAX_ATTEMPTS}th time, which is the last")]
    Spent,
}

/// The events of an owner who has a job migrate, to this host if one is named; none, if it leaves already.
///
/// # Errors
/// It cannot.
pub fn migrate(job: &Job, to: Option<&str>) -> Result<Vec<Event>, NoMigration> {
    if job.program_is_over() || job.cancel_grace_ms.is_some() {
        return Err(NoMigration::Ended);
    }
    if !job.description.rerun {
        return Err(NoMigration::NotRerun);
    }
    match &job.stage {
        Stage::Running(_, run) if run.leaves => Ok(Vec::new()),
        Stage::Running(attempt, _) if attempt.epoch >= MAX_ATTEMPTS => Err(NoMigration::Spent),
        Stage::Running(attempt, _) => {
            let (epoch, to) = (attempt.epoch, to.map(str::to_owned));
            let host = None;
            Ok(vec![Event::Requeued { epoch, host, to }])
        }
        _ => Err(NoMigration::NotRunning),
    }
}

/// Whether an attempt that is on a drained host leaves it before its end.
pub fn leaves(job: &Job) -> bool {
    match &job.stage {
        Stage::Running(attempt, run) => run.leaves || !requeue(job, attempt.epoch, "").is_empty(),
        _ => false,
    }
}
