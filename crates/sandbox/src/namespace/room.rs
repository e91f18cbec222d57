//! A room of the namespace mechanism: one cell of kumiko-linux, made with the first guest.

use super::follow::covers;
use super::plan::{About, Plan, c_string};
use crate::PATH;
use crate::contract::{Dumps, Launch, Room, Streams};
use crate::error::SandboxError;
use crate::guest::Guest;
use crate::machine;
use crate::search;
use kumiko_linux::cell::{
    self, Cell, Cover, Covered, Failure, Filter, Program, Role, Stage, Step, guest_filter,
};
use kumiko_policy::{
    Access, GuestPath, JOB_DIRECTORY, MechanismKind, Network, Policy, follow, unfollowed,
};
use std::io;

/// New files of a guest are its own to write and everybody's to read, as logins have it.
const UMASK: u32 = 0o022;

pub(super) struct NamespaceRoom {
    began: Policy,
    plan: Plan,
    /// None: its guest is to be dumped.
    filter: Option<Filter>,
    network: bool,
    temporary: bool,
    pub(super) cell: Option<Cell>,
    /// What was laid over places, in order.
    covered: Vec<(Cover, Covered)>,
}

/// Behind these come the numbers of processes of a cell whose guest is to be dumped: what restores it elsewhere has smaller ones.
const FIRST_NUMBERS: i32 = 999;

/// Places that are not there, or that a link leads to, which is another's name.
const NOT_THERE: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
const ELOOP: i32 = 40;

impl NamespaceRoom {
    pub(super) fn new(policy: &Policy, plan: Plan) -> NamespaceRoom {
        let filter = guest_filter(
            policy.further_processes(),
            policy.limits.network_kbyte_s.is_some(),
        );
        NamespaceRoom::with(policy, plan, Some(filter))
    }

    /// One whose guest can be dumped (P94).
    pub(super) fn dumped(policy: &Policy, plan: Plan) -> NamespaceRoom {
        NamespaceRoom::with(policy, plan, None)
    }

    fn with(policy: &Policy, plan: Plan, filter: Option<Filter>) -> NamespaceRoom {
        let temporary = GuestPath::new("/tmp")
            .ok()
            .and_then(|path| policy.rule_for(&path).cloned());
        NamespaceRoom {
            began: policy.clone(),
            covered: Vec::new(),
            plan,
            filter,
            network: policy.network() == Network::Host,
            temporary: temporary
                .is_some_and(|rule| matches!(rule.access, Access::Temporary { .. })),
            cell: None,
        }
    }

    fn program<'a>(&'a self, launch: &Launch<'a>) -> Result<Program<'a>, SandboxError> {
        let mut environment = Vec::with_capacity(launch.environment.len() + 3);
        let mut path = None;
        let named = |wanted: &str| launch.environment.iter().find(|(name, _)| name == wanted);
        for (name, value) in [("HOME", JOB_DIRECTORY), ("PATH", PATH), ("TMPDIR", "/tmp")] {
            match named(name) {
                Some((_, value)) if name == "PATH" => path = Some(value.as_str()),
                Some(_) => {}
                None if name == "TMPDIR" && !self.temporary => {}
                None => environment.push(c_string(&format!("{name}={value}"))?),
            }
        }
        for (name, value) in launch.environment {
            environment.push(c_string(&format!("{name}={value}"))?);
        }
        let mut arguments = vec![c_string(launch.program)?];
        for argument in launch.arguments {
            arguments.push(c_string(argument)?);
        }
        let candidates = search::candidates(launch.program, path.unwrap_or(PATH));
        Ok(Program {
            candidates: candidates
                .iter()
                .map(|text| c_string(text))
                .collect::<Result<_, _>>()?,
            arguments,
            environment,
            directory: c_string(&search::directory(launch))?,
            streams: match launch.streams {
                Streams::Given {
                    stdin,
                    stdout,
                    stderr,
                } => cell::Streams::Given([stdin, stdout, stderr]),
                Streams::Terminal { rows, columns } => cell::Streams::Terminal { rows, columns },
            },
            role: Role::Guest {
                filter: self.filter.as_ref(),
            },
            umask: UMASK,
        })
    }

    /// Makes the cell with its first program.
    pub(super) fn begin(
        &self,
        program: &Program<'_>,
        last: i32,
    ) -> Result<(Cell, cell::Child), Failure> {
        let (view, network) = (&self.plan.view, self.network);
        match self.filter {
            Some(_) => Cell::start(view, network, program),
            None => Cell::start_numbered(view, network, program, last),
        }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.plan.view.steps
    }

    pub(super) fn told(&self, failure: &Failure, launch: &Launch<'_>) -> SandboxError {
        let cause = failure.cause();
        let none = About::default();
        let about = self.plan.about.get(failure.index).unwrap_or(&none);
        let kernel = |step| SandboxError::Kernel {
            step,
            cause: cause.to_string(),
        };
        let program = launch.program.to_owned();
        let own = [Stage::Execute, Stage::Filter].contains(&failure.stage);
        if kumiko_linux::is_missing_call(&cause) && !own {
            return SandboxError::Machine {
                mechanism: "namespace".to_owned(),
                why: "its kernel is older than Linux 5.12".to_owned(),
            };
        }
        match failure.stage {
            Stage::Unshare | Stage::Map => machine::Obstacle::from_errno(&cause).into(),
            Stage::Real | Stage::Link | Stage::Tree => about.real(&cause),
            Stage::Place | Stage::Mount => about.place(cause.to_string()),
            Stage::Directory => SandboxError::Directory {
                directory: launch.directory.unwrap_or(JOB_DIRECTORY).to_owned(),
                cause: cause.to_string(),
            },
            Stage::Interpreter => SandboxError::Interpreter { program },
            Stage::Execute => match cause.kind() {
                io::ErrorKind::NotFound => SandboxError::NoExecutable { program },
                io::ErrorKind::ArgumentListTooLong => SandboxError::TooLong,
                _ => SandboxError::NotExecutable {
                    program,
                    cause: cause.to_string(),
                },
            },
            Stage::Prepare => kernel("making ready"),
            Stage::Init => kernel("starting process 1"),
            Stage::Loopback => kernel("bringing up the loopback"),
            Stage::Root => kernel("making the root of the view"),
            Stage::Pivot => kernel("leaving the host's root"),
            Stage::Enter => kernel("joining the room"),
            Stage::Program => kernel("starting a process"),
            Stage::Descriptors => kernel("setting up its descriptors"),
            Stage::Terminal => kernel("making its terminal"),
            Stage::Privileges => kernel("giving up rights"),
            Stage::Filter => kernel("installing the system call filter"),
            Stage::Lost => kernel("a helper process ended without a word: it"),
        }
    }
}

impl Room for NamespaceRoom {
    fn start(&mut self, launch: &Launch<'_>) -> Result<Guest, SandboxError> {
        let program = self.program(launch)?;
        let started = match &self.cell {
            Some(cell) => cell.start_more(&program),
            None => self.begin(&program, FIRST_NUMBERS).map(|(cell, child)| {
                self.cell = Some(cell);
                child
            }),
        };
        match started {
            Ok(child) => Ok(Guest::new(child.pid, child.pidfd, child.terminal)),
            Err(failure) => Err(self.told(&failure, launch)),
        }
    }

    fn follow(&mut self, now: &Policy) -> Result<Vec<String>, SandboxError> {
        let failed = |cause: String| SandboxError::Kernel {
            step: "following another policy",
            cause,
        };
        let Some(cell) = &self.cell else {
            return Err(failed("the room has no guest".to_owned()));
        };
        let followed = follow(&self.began, now);
        let wanted = covers(&self.plan.view.steps, &followed);
        // What was laid stays where nothing comes beneath it; else all is laid anew.
        let stays = self.covered.iter().all(|(cover, _)| wanted.contains(cover));
        let is_new = |cover: &&Cover| self.covered.iter().all(|(laid, _)| laid != *cover);
        let new: Vec<Cover> = wanted.iter().filter(is_new).cloned().collect();
        let beneath = |cover: &Cover| {
            let above = cover.at.to_bytes();
            self.covered
                .iter()
                .any(|(laid, _)| laid.at.to_bytes().starts_with(above))
        };
        let (lift, lay) = match stays && !new.iter().any(beneath) {
            true => (Vec::new(), new),
            false => {
                let laid = std::mem::take(&mut self.covered);
                (laid.into_iter().map(|(_, laid)| laid).collect(), wanted)
            }
        };
        let told = match lift.is_empty() && lay.is_empty() {
            true => Vec::new(),
            false => cell
                .cover(&lift, &lay)
                .map_err(|failure| failed(failure.cause().to_string()))?,
        };
        let mut not = unfollowed(&self.began, now, MechanismKind::Namespace);
        for (cover, told) in lay.into_iter().zip(told) {
            match told {
                Ok(covered) => self.covered.push((cover, covered)),
                Err(failure) if NOT_THERE.contains(&failure.cause().kind()) => {}
                Err(failure) if failure.errno == ELOOP => {}
                Err(failure) => {
                    let place = cover.at.to_string_lossy().into_owned();
                    not.push(format!("/{place}: {}", failure.cause()));
                }
            }
        }
        Ok(not)
    }

    fn dumps(&mut self) -> Option<&mut dyn Dumps> {
        match self.filter {
            Some(_) => None,
            None => Some(self),
        }
    }

    fn kill_all(&mut self) {
        if let Some(cell) = &self.cell {
            cell.kill();
        }
    }
}
