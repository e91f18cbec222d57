//! A room without namespaces, on the side of who has it: its supervisor is a process beside this one, started with the
//! first guest. Not in it: what the supervisor does.

use super::control::{self, Charge};
use super::counts::Counts;
use super::filter::By;
use super::protocol::{KILL, Order, Reply, send_change, send_order};
use crate::PATH;
use crate::contract::{Cost, Launch, Room, Streams};
use crate::error::SandboxError;
use crate::guest::Guest;
use crate::limits::Inside;
use crate::namespace::{About, Plan};
use crate::search;
use kumiko_linux::cell::{Failure, Stage};
use kumiko_linux::limits::usage;
use kumiko_linux::packets::Packets;
use kumiko_linux::process;
use kumiko_linux::supervise::spawn;
use kumiko_policy::choice::Profile;
use kumiko_policy::{
    Access, GuestPath, JOB_DIRECTORY, Network, NetworkLimiter, Policy, Reach, follow, unfollowed,
};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct SupervisedRoom {
    name: &'static str,
    by: By,
    began: Policy,
    plan: Option<Plan>,
    about: Vec<About>,
    network: Network,
    reach: Vec<Reach>,
    pace: Option<u64>,
    inside: Option<Inside>,
    further_processes: bool,
    temporary: bool,
    running: Option<Running>,
    killed: bool,
    /// None: there is no memory for it.
    counts: Option<Arc<Counts>>,
}

struct Running {
    supervisor: i32,
    packets: Packets,
    scratch: PathBuf,
}

impl SupervisedRoom {
    pub(super) fn new(
        name: &'static str,
        by: By,
        policy: &Policy,
        mut plan: Plan,
    ) -> SupervisedRoom {
        let temporary = GuestPath::new("/tmp")
            .ok()
            .and_then(|path| policy.rule_for(&path).cloned());
        SupervisedRoom {
            name,
            by,
            began: policy.clone(),
            about: std::mem::take(&mut plan.about),
            plan: Some(plan),
            network: policy.network(),
            reach: policy.reach.clone(),
            pace: pace_of(policy),
            inside: None,
            further_processes: policy.further_processes(),
            temporary: temporary
                .is_some_and(|rule| matches!(rule.access, Access::Temporary { .. })),
            running: None,
            killed: false,
            counts: Counts::new().ok().map(Arc::new),
        }
    }

    /// Starts the supervisor, which will say whether the view stands.
    fn begin(&mut self) -> Result<(), SandboxError> {
        let kernel = |step| {
            move |error: io::Error| SandboxError::Kernel {
                step,
                cause: error.to_string(),
            }
        };
        let Some(plan) = self.plan.take() else {
            return Err(SandboxError::Kernel {
                step: "starting a guest",
                cause: "the room has ended".to_owned(),
            });
        };
        if self.by == By::Library {
            self.inside = Inside::of(&self.began).map_err(kernel("making ready its limiter"))?;
        }
        let scratch = scratch().map_err(kernel("making the room's own directory"))?;
        let (packets, theirs) = Packets::pair().map_err(kernel("making ready"))?;
        let charge = Charge {
            by: self.by,
            steps: plan.view,
            network: self.network,
            reach: self.reach.clone(),
            pace: self.pace,
            inside: self.inside.clone(),
            further_processes: self.further_processes,
            scratch: scratch.clone(),
            counts: self.counts.clone(),
        };
        let theirs_too = self.inside.as_ref().map(AsFd::as_fd);
        let keep: Vec<_> = [theirs.as_fd()].into_iter().chain(theirs_too).collect();
        let started = spawn::supervisor(&keep, |files| control::run(&charge, &theirs, files));
        let supervisor = started.map_err(kernel("starting the supervisor"))?;
        drop(theirs);
        self.running = Some(Running {
            supervisor,
            packets,
            scratch,
        });
        Ok(())
    }

    fn order(&self, launch: &Launch<'_>) -> Result<Order, SandboxError> {
        let mut environment = Vec::with_capacity(launch.environment.len() + 3);
        let mut path = PATH;
        for (name, value) in [("HOME", JOB_DIRECTORY), ("PATH", PATH), ("TMPDIR", "/tmp")] {
            match launch.environment.iter().find(|(given, _)| given == name) {
                Some((_, value)) if name == "PATH" => path = value,
                Some(_) => {}
                None if name == "TMPDIR" && !self.temporary => {}
                None => environment.push(format!("{name}={value}")),
            }
        }
        environment.extend(
            launch
                .environment
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        let directory = match launch.directory {
            Some(directory) if directory.contains('\0') => {
                return Err(SandboxError::ZeroByte {
                    what: format!("{directory:?}"),
                });
            }
            _ => search::directory(launch),
        };
        let program = launch.program;
        let absolute = |candidate: String| match candidate.starts_with('/') {
            true => candidate,
            false => format!("{directory}/{candidate}"),
        };
        let candidates = search::candidates(program, path);
        let candidates = candidates.into_iter().map(absolute).collect();
        let arguments = std::iter::once(program.to_owned())
            .chain(launch.arguments.iter().cloned())
            .collect();
        let terminal = match launch.streams {
            Streams::Given { .. } => None,
            Streams::Terminal { rows, columns } => Some((rows, columns)),
        };
        let order = Order {
            candidates,
            directory,
            arguments,
            environment,
            terminal,
        };
        let mut texts = order
            .candidates
            .iter()
            .chain(&order.arguments)
            .chain(&order.environment);
        if let Some(text) = texts.find(|text| text.contains('\0')) {
            return Err(SandboxError::ZeroByte {
                what: format!("{text:?}"),
            });
        }
        Ok(order)
    }

    fn told(&self, failure: &Failure, launch: Option<&Launch<'_>>) -> SandboxError {
        let cause = failure.cause();
        let none = About::default();
        let about = self.about.get(failure.index).unwrap_or(&none);
        let kernel = |step| SandboxError::Kernel {
            step,
            cause: cause.to_string(),
        };
        let program = launch.map_or("", |launch| launch.program).to_owned();
        match failure.stage {
            Stage::Real | Stage::Link | Stage::Tree => about.real(&cause),
            Stage::Place | Stage::Mount => about.place(cause.to_string()),
            Stage::Directory => SandboxError::Directory {
                directory: launch
                    .and_then(|launch| launch.directory)
                    .unwrap_or(JOB_DIRECTORY)
                    .to_owned(),
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
            Stage::Root => kernel("making the root of the view"),
            Stage::Privileges => kernel("entering its domain"),
            Stage::Filter => SandboxError::Machine {
                mechanism: self.name.to_owned(),
                why: format!(
                    "its filter was not taken ({cause}): is this a sandbox of the same kind already?"
                ),
            },
            Stage::Terminal => kernel("making its terminal"),
            Stage::Descriptors => kernel("setting up its descriptors"),
            Stage::Program => kernel("starting a process"),
            _ => kernel("starting a guest"),
        }
    }
}

/// All of the job's rate: how many sockets it has is not known when one is connected.
fn pace_of(policy: &Policy) -> Option<u64> {
    let rate = policy.limits.network_kbyte_s;
    let paced = policy.network() == Network::Host && policy.limiter() == NetworkLimiter::Outside;
    let rate = rate.filter(|_| paced)?;
    Some(rate.saturating_mul(1_000))
}

impl Running {
    fn reply(&self) -> Result<Reply, SandboxError> {
        let lost = |cause: String| SandboxError::Kernel {
            step: "the supervisor of the room",
            cause,
        };
        match Reply::receive(&self.packets) {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(lost("it has ended".to_owned())),
            Err(error) => Err(lost(error.to_string())),
        }
    }
}

impl Room for SupervisedRoom {
    fn start(&mut self, launch: &Launch<'_>) -> Result<Guest, SandboxError> {
        let order = self.order(launch)?;
        let is_first = self.running.is_none();
        if is_first {
            self.begin()?;
        }
        let Some(running) = self.running.as_ref().filter(|_| !self.killed) else {
            return Err(SandboxError::Kernel {
                step: "starting a guest",
                cause: "the room has ended".to_owned(),
            });
        };
        let kernel = |error: io::Error| SandboxError::Kernel {
            step: "telling the supervisor",
            cause: error.to_string(),
        };
        let streams = match &launch.streams {
            Streams::Given {
                stdin,
                stdout,
                stderr,
            } => vec![*stdin, *stdout, *stderr],
            Streams::Terminal { .. } => Vec::new(),
        };
        // While it makes the view: what is ordered then waits for it, and nobody is woken for that.
        let sent = send_order(&running.packets, &order, &streams);
        if is_first {
            if let Reply::Failed { failure, .. } = running.reply()? {
                let told = self.told(&failure, None);
                self.running = None;
                return Err(told);
            }
        }
        sent.map_err(kernel)?;
        match running.reply()? {
            Reply::Done { pid, terminal } => {
                let pidfd = process::pidfd(pid).map_err(kernel)?;
                Ok(Guest::new(pid, pidfd, terminal))
            }
            Reply::Failed { pid, failure } => {
                if pid > 0 {
                    spawn::reap(pid);
                }
                Err(self.told(&failure, Some(launch)))
            }
        }
    }

    fn follow(&mut self, now: &Policy) -> Result<Vec<String>, SandboxError> {
        let Some(running) = self.running.as_ref().filter(|_| !self.killed) else {
            return Err(SandboxError::Kernel {
                step: "following another policy",
                cause: "the room has no guest".to_owned(),
            });
        };
        let followed = follow(&self.began, now);
        send_change(&running.packets, &followed).map_err(|error| SandboxError::Kernel {
            step: "telling the supervisor",
            cause: error.to_string(),
        })?;
        Ok(unfollowed(&self.began, now, self.by.kind()))
    }

    fn inside(&self) -> Option<Inside> {
        self.inside.clone()
    }

    fn cost(&self) -> Cost {
        let supervisor = self.running.as_ref().map(|running| running.supervisor);
        // An error: it has ended.
        let cpu = supervisor.and_then(|pid| usage::cpu(pid).ok());
        let counts = self.counts.as_deref();
        // A library answers in the guest, where nobody counts.
        let counted = counts.filter(|_| self.by != By::Library);
        Cost {
            supervisor_cpu: cpu.map(|cpu| cpu.own),
            answered: counts.map(Counts::answered),
            profile: counted.map(|counts| Profile {
                under: Some(self.by.kind()),
                ..counts.profile(self.by == By::Tracer)
            }),
        }
    }

    fn kill_all(&mut self) {
        self.killed = true;
        if let Some(running) = &self.running {
            // An error: it has ended, and the room with it.
            let _ = running.packets.send(KILL, None);
            spawn::go_on(running.supervisor);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.packets.send(KILL, None);
        spawn::reap_supervisor(self.supervisor);
        // Gone already, unless the supervisor was killed.
        super::build::remove(&self.scratch);
    }
}

/// Where memory is a file system, if anywhere: what a room makes for itself is many small files for a short time.
const MEMORY: &str = "/dev/shm";

/// A directory of the room's own, and that of its temporary places ([`temporary_of`]).
fn scratch() -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kumiko-room-{}-{number}", std::process::id());
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let (memory, disk) = (Path::new(MEMORY), std::env::temp_dir());
        let mut made = make(&memory.join(&name)).map(|()| memory.join(&name));
        if made
            .as_ref()
            .is_err_and(|error| error.kind() != io::ErrorKind::AlreadyExists)
        {
            made = make(&disk.join(&name)).map(|()| disk.join(&name));
        }
        match made {
            Ok(path) => {
                // As the kernel names it: no link on the way.
                let path = path.canonicalize()?;
                match make(&temporary_of(&path)) {
                    Ok(()) => return Ok(path),
                    Err(error) => {
                        std::fs::remove_dir(&path)?;
                        if error.kind() != io::ErrorKind::AlreadyExists {
                            return Err(error);
                        }
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Where the temporary places of a room are: on disk, as their sizes are not enforced.
pub(super) fn temporary_of(scratch: &Path) -> PathBuf {
    let disk = std::env::temp_dir();
    let disk = disk.canonicalize().unwrap_or(disk);
    match scratch.file_name() {
        Some(name) if scratch.parent() != Some(&disk) => disk.join(name),
        _ => scratch.join("temporary"),
    }
}
