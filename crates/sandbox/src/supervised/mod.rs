//! The mechanisms `notify`, `library` and `ptrace`: no namespaces, no root. A supervisor beside the guests answers the
//! calls that name things ([`serve`]), by a view of its own making ([`view`], [`resolve`]); a Landlock domain is the wall
//! behind it ([`rules`]). They differ in how calls reach it: by a seccomp listener ([`notify`]), by that where a library in
//! the guest did not answer (library/), or by tracing ([`trace`]).
//! Which call is answered, refused or left alone says one table ([`table`]). Not here: limits.

mod attributes;
mod build;
mod caller;
mod control;
mod counts;
mod execute;
mod filter;
mod follow;
mod messages;
mod names;
mod notify;
mod open;
mod processes;
mod protocol;
mod resolve;
mod room;
mod rules;
mod serve;
mod shown;
mod slow;
mod sockets;
mod table;
mod trace;
pub(crate) mod view;
mod words;

pub(crate) use serve::nr;

use crate::contract::{Mechanism, Room};
use crate::error::SandboxError;
use crate::namespace;
pub(crate) use filter::By;
use kumiko_policy::{MechanismKind, Policy};
use std::path::Path;

/// One of the mechanisms, by how calls reach the supervisor.
#[derive(Debug)]
pub(crate) struct Supervised(pub By);

impl By {
    fn kind(self) -> MechanismKind {
        match self {
            By::Listener => MechanismKind::Notify,
            By::Library => MechanismKind::Library,
            By::Tracer => MechanismKind::Ptrace,
        }
    }
}

impl Mechanism for Supervised {
    fn name(&self) -> &'static str {
        self.0.kind().name()
    }

    fn prepare(
        &self,
        policy: &Policy,
        job_directory: &Path,
    ) -> Result<Box<dyn Room>, SandboxError> {
        let plan = namespace::plan(policy, job_directory)?;
        let room = room::SupervisedRoom::new(self.name(), self.0, policy, plan);
        Ok(Box::new(room))
    }
}
