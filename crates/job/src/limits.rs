//! Limits and decisions of a job that are changed while it waits or runs (spec/policy, P56, P76, P77 and P89): what is
//! recorded, and what follows from what its owner and the policies above it say. Pure. Not here: keeping them (the runner).

use crate::event::{Event, LimitsBy, Record};
use crate::state::Job;
use kumiko_policy::{Limited, Limits, Policy, amend};
use std::sync::Arc;

/// Limits changed after the submission; those that are none stand in the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedLimits {
    /// What the owner asked for last.
    pub asked: Limits,
    /// What holds. The largest that can be said is no limit: policies gave it back.
    pub hold: Limits,
    /// Number of the last event that changed them; 0: none.
    pub number: u64,
}

impl ChangedLimits {
    pub(crate) fn after(&self, record: &Record) -> ChangedLimits {
        let mut changed = self.clone();
        if let Event::LimitsSet { by, limits } = &record.event {
            changed.number = record.number;
            for (of, value) in limits.each() {
                changed.hold.set(of, Some(value));
                if *by == LimitsBy::Owner {
                    changed.asked.set(of, Some(value));
                }
            }
        }
        changed
    }
}

pub(crate) fn check(limits: &Limits) -> Result<(), &'static str> {
    let sound = |(of, value): (Limited, u64)| (1..=of.most()).contains(&value);
    match limits.each().next().is_some() && limits.each().all(sound) {
        true => Ok(()),
        false => Err("it changes nothing, or to what is no limit"),
    }
}

/// The events of other limits for a job whose program is not over; none, if they hold already.
pub fn set(job: &Job, by: LimitsBy, limits: &Limits) -> Result<Vec<Event>, ProgramOver> {
    if job.program_is_over() {
        return Err(ProgramOver);
    }
    let mut new = Limits::default();
    for (of, value) in limits.each() {
        let asked_again = by == LimitsBy::Policies || job.limits.asked.get(of) == Some(value);
        if job.limits.hold.get(of) != Some(value) || !asked_again {
            new.set(of, Some(value));
        }
    }
    Ok(match new == Limits::default() {
        true => Vec::new(),
        false => vec![Event::LimitsSet { by, limits: new }],
    })
}

/// The event of an owner who narrows what a job may see and reach; none, if that was asked already.
pub fn narrow(job: &Job, policy: &Arc<Policy>) -> Result<Vec<Event>, ProgramOver> {
    if job.program_is_over() {
        return Err(ProgramOver);
    }
    let before = job.narrowed.as_deref();
    Ok(match before == Some(&amend(before, policy)) {
        true => Vec::new(),
        false => vec![Event::Narrowed {
            policy: Arc::clone(policy),
        }],
    })
}

pub(crate) fn narrowed_after(job: &Job, event: &Event) -> Option<Arc<Policy>> {
    match event {
        Event::Narrowed { policy } => Some(Arc::new(amend(job.narrowed.as_deref(), policy))),
        _ => job.narrowed.clone(),
    }
}

/// What policies give a job whose description or files were changed, or whose owner asked for other limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// What the attempt began with.
    pub at_first: Limits,
    /// What all policies give now, the job's own included.
    pub now: Limits,
    /// What those above its own give now.
    pub above: Limits,
}

/// The events of policies that were changed while a job runs: what its owner asked for holds, within what those above
/// give; else what all give. None, if nothing changes.
pub fn policies_changed(job: &Job, given: &Given) -> Vec<Event> {
    let mut new = Limits::default();
    for of in Limited::ALL {
        let unlimited = |value: Option<u64>| value.unwrap_or(of.most());
        let holds = job.limits.hold.get(of).or(given.at_first.get(of));
        let wanted = allowed(job, given, of);
        if unlimited(holds) != unlimited(wanted) {
            new.set(of, Some(unlimited(wanted)));
        }
    }
    set(job, LimitsBy::Policies, &new).unwrap_or_default()
}

/// What a job may have of one thing now.
pub fn allowed(job: &Job, given: &Given, of: Limited) -> Option<u64> {
    match job.limits.asked.get(of) {
        Some(asked) => Some(given.above.get(of).map_or(asked, |most| asked.min(most))),
        None => given.now.get(of),
    }
}

/// Why a job's limits cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its program is over")]
pub struct ProgramOver;
