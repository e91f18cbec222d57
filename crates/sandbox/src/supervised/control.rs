//! The supervisor's process: it makes the view, starts guests as it is ordered to, and answers for them, a thread a
//! guest. It ends with the room. Not in it: what is answered.

use super::caller::Caller;
use super::counts::Counts;
use super::execute::{self, Missing};
use super::filter::{By, filter};
use super::notify;
use super::protocol::{CHANGE, KILL, LAUNCH, Order, Reply, next, read_change};
use super::resolve::End;
use super::shown::Shown;
use super::view::{Kind, View, c_string, flag};
use super::{build, processes, rules, trace};
use crate::limits::Inside;
use kumiko_linux::cell::{Failure, Filter, Stage, View as Steps};
use kumiko_linux::packets::Packets;
use kumiko_linux::supervise::listener::Listener;
use kumiko_linux::supervise::spawn::{self, GuestProgram, OpenFiles, Reach};
use kumiko_linux::supervise::{Call, Errno, calls, domain};
use kumiko_policy::{Network, Reach as Addresses};
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// New files of a guest are its own to write and everybody's to read, as logins have it.
const UMASK: u32 = 0o022;

/// What the supervisor of a room is to know.
#[derive(Debug)]
pub(super) struct Charge {
    pub by: By,
    pub steps: Steps,
    pub network: Network,
    pub reach: Vec<Addresses>,
    /// Of the job's sockets to begin with, bytes a second.
    pub pace: Option<u64>,
    /// Where the library keeps the rate instead.
    pub inside: Option<Inside>,
    pub further_processes: bool,
    /// The room's own directory: there, and empty.
    pub scratch: PathBuf,
    pub counts: Option<Arc<Counts>>,
}

/// Does all of it, and ends this process.
pub(super) fn run(charge: &Charge, packets: &Packets, files: OpenFiles) {
    let Ok((warden, _life)) = spawn::warden(packets.as_fd()) else {
        return;
    };
    processes::WARDEN.store(warden, Ordering::Relaxed);
    match Supervisor::new(charge, files) {
        Ok(supervisor) => {
            let done = Reply::Done {
                pid: 0,
                terminal: None,
            };
            if done.send(packets).is_ok() {
                supervisor.obey(packets);
            }
        }
        Err(failure) => drop(Reply::Failed { pid: 0, failure }.send(packets)),
    }
    if domain::end_room().is_ok() {
        spawn::reap(warden);
    }
    super::build::remove(&charge.scratch);
}

struct Supervisor {
    shown: Arc<Shown>,
    by: By,
    filter: Filter,
    domain: OwnedFd,
    files: OpenFiles,
}

fn failed(stage: Stage) -> impl Fn(Errno) -> Failure {
    move |Errno(errno)| Failure {
        stage,
        index: 0,
        errno,
    }
}

impl Supervisor {
    fn new(charge: &Charge, files: OpenFiles) -> Result<Supervisor, Failure> {
        let mut view = build::build(&charge.steps.steps, &charge.scratch)?;
        view.set_reach(charge.reach.clone());
        view.set_pace(charge.pace);
        if let Some(counts) = &charge.counts {
            view.count_in(Arc::clone(counts));
        }
        if charge.by != By::Listener {
            view.keep_code();
        }
        let domain = rules::domain(&view, charge.by, None)
            .map_err(|error| failed(Stage::Privileges)(Errno::from(error)))?;
        let filter = filter(
            charge.by,
            charge.network,
            !charge.reach.is_empty(),
            charge.pace.is_some(),
            charge.further_processes,
        );
        Ok(Supervisor {
            shown: Arc::new(Shown::new(
                view,
                charge.by == By::Library,
                charge.inside.clone(),
            )),
            by: charge.by,
            filter,
            domain,
            files,
        })
    }

    fn obey(&self, packets: &Packets) {
        let mut word = [0; 16];
        while let Ok(Some((count, fd))) = next(packets, &mut word) {
            let reply = match (word.get(..count), fd) {
                (Some(LAUNCH), Some(text)) => match self.start(packets, text) {
                    Ok(reply) => reply,
                    Err((pid, failure)) => Reply::Failed { pid, failure },
                },
                (Some(CHANGE), Some(text)) => {
                    // Nobody waits to be told.
                    if let Some(followed) = read_all(text).ok().and_then(|text| read_change(&text))
                    {
                        self.shown.change(&followed);
                    }
                    continue;
                }
                (Some(KILL), _) => return,
                _ => continue,
            };
            if reply.send(packets).is_err() {
                return;
            }
        }
    }

    fn start(&self, packets: &Packets, text: OwnedFd) -> Result<Reply, (i32, Failure)> {
        let none = |stage: Stage| move |errno: Errno| (0, failed(stage)(errno));
        let bytes = read_all(text).map_err(none(Stage::Prepare))?;
        let order = Order::read(&bytes).ok_or((0, failed(Stage::Prepare)(Errno::EINVAL)))?;
        let (streams, terminal) = self.streams(packets, &order)?;
        // Nobody asks yet: what depends on the asking process is not there.
        let nobody = Call {
            number: 0,
            arguments: [0; 6],
        };
        let view = self.shown.view();
        let caller = Caller {
            view: &view,
            tid: std::process::id() as i32,
            call: nobody,
        };
        let directory = match caller.end(flag::AT_CWD, order.directory.as_bytes(), true) {
            Ok(End::There {
                handle,
                directory: true,
                ..
            }) => handle,
            Ok(End::Missing { .. }) => return Err(none(Stage::Directory)(Errno::ENOENT)),
            Ok(_) => return Err(none(Stage::Directory)(Errno::ENOTDIR)),
            Err(errno) => return Err(none(Stage::Directory)(errno)),
        };
        let found = find(&caller, &order).map_err(|failure| (0, failure))?;
        let c_strings =
            |texts: &mut dyn Iterator<Item = &[u8]>| -> Result<Vec<CString>, (i32, Failure)> {
                texts
                    .map(|text| c_string(text).map_err(none(Stage::Execute)))
                    .collect()
            };
        let given = order.arguments.iter().map(String::as_bytes);
        let arguments = match &found.before {
            None => c_strings(&mut given.into_iter())?,
            Some(before) => c_strings(&mut before.iter().map(Vec::as_slice).chain(given.skip(1)))?,
        };
        let [stdin, stdout, stderr] = &streams;
        let own = match (&terminal, self.by) {
            (Some(_), By::Tracer) => rules::domain(&view, self.by, Some(stdin)).map(Some),
            _ => Ok(None),
        };
        let own = own.map_err(|error| none(Stage::Privileges)(Errno::from(error)))?;
        let program = GuestProgram {
            path: c_string(&found.real).map_err(none(Stage::Execute))?,
            arguments,
            environment: c_strings(&mut order.environment.iter().map(String::as_bytes))?,
            directory: directory.as_fd(),
            streams: [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            terminal: terminal.is_some(),
            umask: UMASK,
            files: &self.files,
            domain: own.as_ref().unwrap_or(&self.domain).as_fd(),
            filter: &self.filter,
            reach: match self.by {
                By::Listener | By::Library => Reach::Notify,
                By::Tracer => Reach::Trace,
            },
        };
        let pid = match self.by {
            By::Listener | By::Library => {
                let mut starting = spawn::guest(&program)?;
                let pid = starting.pid;
                let listener = starting
                    .listener
                    .take()
                    .ok_or((pid, failed(Stage::Filter)(Errno::EIO)))?;
                let shown = Arc::clone(&self.shown);
                let mut answering = notify::Answering::new(Listener::new(listener), shown, pid);
                // By this thread: another one would have to be woken for it.
                answering.until_executed();
                if let Err(error) = thread::Builder::new().spawn(move || answering.run()) {
                    let _ = spawn::kill(pid);
                    return Err((pid, failed(Stage::Program)(error.into())));
                }
                starting.executed().map_err(|failure| (pid, failure))?;
                pid
            }
            By::Tracer => {
                let starting = spawn::guest(&program)?;
                let pid = starting.pid;
                if let Err(errno) = trace::begin(pid, Arc::clone(&self.shown)) {
                    let _ = spawn::kill(pid);
                    // Unless it has said why.
                    let told = starting.executed().err();
                    return Err((pid, told.unwrap_or(failed(Stage::Program)(errno))));
                }
                starting.go();
                starting.executed().map_err(|failure| (pid, failure))?;
                pid
            }
        };
        Ok(Reply::Done { pid, terminal })
    }

    /// What the guest's three streams are, and the master where they are a terminal.
    #[allow(clippy::type_complexity)] // three and one
    fn streams(
        &self,
        packets: &Packets,
        order: &Order,
    ) -> Result<([OwnedFd; 3], Option<OwnedFd>), (i32, Failure)> {
        let terminal = |errno: Errno| (0, failed(Stage::Terminal)(errno));
        if let Some((rows, columns)) = order.terminal {
            let (master, slave) = kumiko_linux::terminal::open(rows, columns)
                .map_err(|error| terminal(error.into()))?;
            let number = calls::terminal_number(master.as_fd()).map_err(terminal)?;
            self.shown.view().add_terminal(number);
            let another = || slave.try_clone().map_err(|error| terminal(error.into()));
            return Ok(([another()?, another()?, another()?], Some(master)));
        }
        let stream = || -> Result<OwnedFd, (i32, Failure)> {
            let mut word = [0; 16];
            let got = next(packets, &mut word)
                .map_err(|error| (0, failed(Stage::Descriptors)(error.into())))?;
            got.and_then(|(_, fd)| fd)
                .ok_or((0, failed(Stage::Descriptors)(Errno::EMFILE)))
        };
        Ok(([stream()?, stream()?, stream()?], None))
    }
}

fn read_all(text: OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    File::from(text).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As execvp(3): the first that is there; one that may not be executed is told only when no later one is there.
fn find(caller: &Caller<'_>, order: &Order) -> Result<execute::Program, Failure> {
    let mut told = failed(Stage::Execute)(Errno::ENOENT);
    for (index, candidate) in order.candidates.iter().enumerate() {
        let at = |stage, Errno(errno): Errno| Failure {
            stage,
            index,
            errno,
        };
        match execute::find(caller, flag::AT_CWD, candidate.as_bytes(), 0) {
            Ok(program) => return Ok(program),
            Err(Missing::Program(Errno::EACCES) | Missing::Interpreter(Errno::EACCES)) => {
                told = at(Stage::Execute, Errno::EACCES);
            }
            Err(Missing::Interpreter(errno)) => return Err(at(Stage::Interpreter, errno)),
            Err(Missing::Program(
                Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG,
            )) => {}
            Err(Missing::Program(errno)) => return Err(at(Stage::Execute, errno)),
        }
    }
    Err(told)
}

impl View {
    /// Something of the host is mounted there.
    pub(super) fn trees(&self) -> impl Iterator<Item = &super::view::Mount> {
        self.mounts()
            .filter(|mount| mount.kind == Kind::Tree && !mount.blank)
    }
}
