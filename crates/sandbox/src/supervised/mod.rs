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
use kumiko_policy::Policy;
use std::path::Path;

/// One of the mechanisms, by how calls reach the supervisor.
#[derive(Debug)]
pub(crate) struct Supervised(pub By);

impl Mechanism for Supervised {
    fn name(&self) -> &'static str {
        match self.0 {
            By::Listener => "notify",
            By::Library => "library",
            By::Tracer => "ptrace",
        }
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
