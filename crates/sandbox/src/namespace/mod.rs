//! The mechanism `namespace`: path map by mounts, in user, mount, pid, ipc, uts and cgroup namespaces (and a network
//! namespace when the policy gives no network). No call of the guest is intercepted, so it runs at native speed.
//! [`plan`] turns a policy into steps (checked on this machine); kumiko-linux's cells carry them out.
//! Not here: what a path means in a policy (kumiko-policy), limits.

mod dumps;
mod follow;
mod plan;
mod room;
mod standing;

use crate::choose::carries_out;
use crate::contract::{Mechanism, Room};
use crate::error::SandboxError;
pub(crate) use follow::holds_at;
use kumiko_policy::{MechanismKind, Policy};
pub(crate) use plan::{About, Plan, plan};
use std::path::Path;

/// As `Mechanism::prepare` of this mechanism: a room whose guest can be dumped, for which it has no filter of system calls (P94).
pub fn prepare_for_dumps(
    policy: &Policy,
    job_directory: &Path,
) -> Result<Box<dyn Room>, SandboxError> {
    let plan = plan(policy, job_directory)?;
    Ok(Box::new(room::NamespaceRoom::dumped(policy, plan)))
}

#[derive(Debug)]
pub(crate) struct Namespace;

impl Mechanism for Namespace {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn prepare(
        &self,
        policy: &Policy,
        job_directory: &Path,
    ) -> Result<Box<dyn Room>, SandboxError> {
        if !carries_out(policy, MechanismKind::Namespace) {
            return Err(SandboxError::Addresses {
                mechanism: self.name(),
            });
        }
        let plan = plan(policy, job_directory)?;
        Ok(Box::new(room::NamespaceRoom::new(policy, plan)))
    }
}
