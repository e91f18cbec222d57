//! The mechanisms `notify` and `ptrace`: no namespaces, no root. A supervisor beside the guests answers the calls that
//! name things ([`serve`]), by a view of its own making ([`view`], [`resolve`]); a Landlock domain is the wall behind it
//! ([`rules`]). The two differ in how calls reach it: by a seccomp listener ([`notify`]), or by tracing ([`trace`]).
//! Which call is answered, refused or left alone says one table ([`table`]). Not here: limits.

mod attributes;
mod build;
mod caller;
mod control;
mod execute;
mod filter;
mod names;
mod notify;
mod open;
mod processes;
mod protocol;
mod resolve;
mod room;
mod rules;
mod serve;
mod sockets;
mod table;
mod trace;
pub(crate) mod view;
mod words;

pub(crate) use serve::nr;

use crate::contract::{Mechanism, Room};
use crate::error::SandboxError;
use crate::namespace;
use filter::By;
use kumiko_policy::Policy;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct Notify;

/// As [`Notify`], with a library in the guests that answers what it is sure of (library/).
#[derive(Debug)]
pub(crate) struct Library;

#[derive(Debug)]
pub(crate) struct Ptrace;

impl Mechanism for Notify {
    fn name(&self) -> &'static str {
        "notify"
    }

    fn prepare(
        &self,
        policy: &Policy,
        job_directory: &Path,
    ) -> Result<Box<dyn Room>, SandboxError> {
        let plan = namespace::plan(policy, job_directory)?;
        Ok(Box::new(room::SupervisedRoom::new(
            self.name(),
            By::Listener,
            policy,
            plan,
        )))
    }
}

impl Mechanism for Library {
    fn name(&self) -> &'static str {
        "library"
    }

    fn prepare(
        &self,
        policy: &Policy,
        job_directory: &Path,
    ) -> Result<Box<dyn Room>, SandboxError> {
        let plan = namespace::plan(policy, job_directory)?;
        Ok(Box::new(room::SupervisedRoom::new(
            self.name(),
            By::Library,
            policy,
            plan,
        )))
    }
}

impl Mechanism for Ptrace {
    fn name(&self) -> &'static str {
        "ptrace"
    }

    fn prepare(
        &self,
        policy: &Policy,
        job_directory: &Path,
    ) -> Result<Box<dyn Room>, SandboxError> {
        let plan = namespace::plan(policy, job_directory)?;
        Ok(Box::new(room::SupervisedRoom::new(
            self.name(),
            By::Tracer,
            policy,
            plan,
        )))
    }
}
