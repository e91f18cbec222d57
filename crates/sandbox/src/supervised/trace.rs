//! Answering by ptrace(2): a thread of ours traces a guest program and all that it starts, and is told of the calls that
//! the filter picks. What we can do in the guest's place is done and its result put in place of the call; files are
//! opened, directories entered, programs executed and sockets used by the guest itself, with the words of the host in
//! place of its own, which stand where it cannot change them, and no farther than its domain lets it. Not in it: what is
//! answered.

use super::caller::Caller;
use super::open::{self, Opening};
use super::processes;
use super::resolve::{join, last_name};
use super::serve::{Outcome, Slow, nr, serve};
use super::shown::Shown;
use super::slow::{self, Over};
use super::view::{Kind, TERMINALS, flag};
use super::words;
use kumiko_linux::supervise::breakable::Waiting;
use kumiko_linux::supervise::sealed::{Arrival, Place, Places};
use kumiko_linux::supervise::stub::Stub;
use kumiko_linux::supervise::tracee::{self, Registers, Stop};
use kumiko_linux::supervise::{Call, Errno, calls, memory, spawn};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// The thread that traces may be about to wait when it is called: it is called again until it has heard.
const CALL_AGAIN: Duration = Duration::from_millis(10);

/// Traces a guest that waits to be traced, to its end, in a thread of its own.
pub(super) fn begin(pid: i32, shown: Arc<Shown>) -> Result<(), Errno> {
    let (tell, told) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let seized = tracee::seize(pid);
        let begun = seized.is_ok();
        let _ = tell.send(seized);
        if begun {
            let (tell_over, over) = mpsc::channel();
            Tracing {
                shown,
                under_way: HashMap::new(),
                stubs: HashMap::new(),
                last: HashMap::new(),
                started_by: pid,
                arriving: HashMap::new(),
                places: Places::default(),
                taken: HashMap::new(),
                waiting: HashMap::new(),
                broken_off: HashMap::new(),
                this: Waiting::this(),
                tell_over,
                over,
            }
            .run();
        }
    })?;
    told.recv().unwrap_or(Err(Errno::EIO))
}

struct Tracing {
    shown: Arc<Shown>,
    /// Threads that make a call with other words than their own: their registers before.
    under_way: HashMap<i32, UnderWay>,
    /// Where a thread's program gets a register back by itself.
    stubs: HashMap<i32, Stub>,
    /// Registers before the last call that was changed so.
    last: HashMap<i32, Registers>,
    /// The guest that executes what was found for it already, until it has.
    started_by: i32,
    /// Programs that make the pages of their words.
    arriving: HashMap<i32, Arrival>,
    places: Places,
    /// Where threads have their words.
    taken: HashMap<i32, Place>,
    /// Threads whose call waits for somebody: their registers, and that it is wanted.
    waiting: HashMap<i32, (Registers, Arc<()>)>,
    /// Those whose call was broken off, on their way to the signal that it was broken off for: as that is to find them.
    broken_off: HashMap<i32, Registers>,
    this: Waiting,
    tell_over: Sender<Told>,
    over: Receiver<Told>,
}

/// What became of a call that waited, and for which one; whoever tells it is held until it is taken.
struct Told {
    tid: i32,
    wanted: Weak<()>,
    over: Over,
    _heard: Sender<()>,
}

struct UnderWay {
    before: Registers,
    after: After,
}

/// What is to be done when it is over.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    /// What is opened is a terminal's master.
    Terminal,
    /// The count that it returned goes there, and it returns one.
    Count(u64),
}

impl Tracing {
    fn run(&mut self) {
        loop {
            while let Ok(told) = self.over.try_recv() {
                // An error: it was killed meanwhile, as below.
                let _ = self.told(told);
            }
            match tracee::wait_once(-1) {
                Ok((tid, stop)) => drop(self.stopped(tid, stop)),
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn stopped(&mut self, tid: i32, stop: Stop) -> Result<(), Errno> {
        match stop {
            Stop::Filtered => self.filtered(tid),
            Stop::Call => self.returned(tid),
            Stop::Executed(before) => {
                if tid == self.started_by {
                    self.started_by = 0;
                }
                self.forget(before);
                self.forget(tid);
                let stub = Stub::put(tid);
                self.stubs.extend(stub.map(|stub| (tid, stub)));
                match Arrival::begin(tid, stub.as_ref()) {
                    Ok(arrival) => self.arriving.extend(arrival.map(|arrival| (tid, arrival))),
                    // Without it, words would be put where something else lies. An error: it has ended.
                    Err(_) => drop(spawn::kill(tid)),
                }
                tracee::go(tid, 0)
            }
            Stop::Started(_) => {
                let view = self.shown.view();
                if let Some(counts) = view.counts().filter(|_| makes_a_process(tid)) {
                    counts.process();
                }
                tracee::go(tid, 0)
            }
            Stop::Halted => {
                if let Some(registers) = self.broken_off.remove(&tid) {
                    tracee::set_registers(tid, &registers)?;
                }
                // A new one tells so itself: what its parent is told of it may come later than what it does.
                if !self.stubs.contains_key(&tid) {
                    self.stubs
                        .extend(Stub::inherited(tid).map(|stub| (tid, stub)));
                }
                tracee::go(tid, 0)
            }
            Stop::Group => tracee::listen(tid),
            Stop::Signal(signal) => tracee::go(tid, signal),
            Stop::Gone => {
                self.forget(tid);
                Ok(())
            }
        }
    }

    fn forget(&mut self, tid: i32) {
        self.under_way.remove(&tid);
        self.stubs.remove(&tid);
        self.last.remove(&tid);
        self.arriving.remove(&tid);
        self.waiting.remove(&tid);
        self.broken_off.remove(&tid);
        if let Some(place) = self.taken.remove(&tid) {
            self.places.give_back(&place);
        }
    }

    /// Where a thread has its words.
    fn place(&mut self, tid: i32) -> Result<&Place, Errno> {
        Ok(match self.taken.entry(tid) {
            Entry::Occupied(taken) => taken.into_mut(),
            Entry::Vacant(free) => free.insert(self.places.take(tid)?),
        })
    }

    fn put_path(&mut self, tid: i32, real: &[u8]) -> Result<u64, Errno> {
        let path = words::path(real)?;
        self.place(tid)?.put(&path)
    }

    /// Has a call made that waits for somebody; the thread stays where it is until that is over.
    fn wait_for(&mut self, tid: i32, before: Registers, slow: Slow) -> Result<(), Errno> {
        let wanted = Arc::new(());
        let (weak, tell, this) = (Arc::downgrade(&wanted), self.tell_over.clone(), self.this);
        slow::thread(move || {
            let over = slow::wait(tid, slow, || weak.strong_count() > 0);
            let (heard, hear) = mpsc::channel();
            let told = Told {
                tid,
                wanted: weak,
                over,
                _heard: heard,
            };
            if tell.send(told).is_err() {
                return; // nobody traces any more
            }
            while let Err(RecvTimeoutError::Timeout) = hear.recv_timeout(Duration::ZERO) {
                this.wake();
                if let Err(RecvTimeoutError::Disconnected) = hear.recv_timeout(CALL_AGAIN) {
                    return;
                }
            }
        })?;
        self.waiting.insert(tid, (before, wanted));
        Ok(())
    }

    fn told(&mut self, told: Told) -> Result<(), Errno> {
        let Told { tid, over, .. } = told;
        let same = |(_, wanted): &(Registers, Arc<()>)| {
            std::ptr::eq(Arc::as_ptr(wanted), told.wanted.as_ptr())
        };
        if !self.waiting.get(&tid).is_some_and(same) {
            return Ok(());
        }
        let Some((before, _)) = self.waiting.remove(&tid) else {
            return Ok(());
        };
        match over {
            Over::Told(Ok(Outcome::Value(value))) => skip(tid, before, Ok(value)),
            Over::Told(Ok(_)) | Over::Gone => skip(tid, before, Err(Errno::EIO)),
            Over::Told(Err(errno)) => skip(tid, before, Err(errno)),
            Over::BrokenOff => {
                let mut then = before;
                then.set_returned(Err(Errno::BROKEN_OFF));
                self.broken_off.insert(tid, then);
                tracee::interrupt(tid)?;
                skip(tid, before, Err(Errno::EINTR))
            }
        }
    }

    fn filtered(&mut self, tid: i32) -> Result<(), Errno> {
        let mut before = tracee::registers(tid)?;
        let stub = self.stubs.get(&tid).copied();
        if stub.is_some_and(|stub| stub.is_again(&before)) {
            // Broken off for a signal, and made again with our words: its own are answered anew.
            match self.last.get(&tid) {
                Some(last) => before = *last,
                None => return skip(tid, before, Err(Errno::EINTR)),
            }
        }
        let call = before.call();
        if call.number == nr::EXECVE && tid == self.started_by {
            return tracee::go(tid, 0);
        }
        if let Some(arrival) = self.arriving.remove(&tid) {
            // What is not there when a program begins, it can put there itself. An error: it has ended.
            if arrival.end(tid, &call).is_err() {
                let _ = spawn::kill(tid);
            }
            return tracee::go(tid, 0);
        }
        let view = self.shown.view();
        if let Some(counts) = view.counts() {
            counts.call(tid, &call);
        }
        let caller = Caller {
            view: &view,
            tid,
            call,
        };
        if let Some(stub) = stub {
            if let Some((second, real)) = plain_open(&caller) {
                let at = match self.put_path(tid, &real) {
                    Ok(at) => at,
                    Err(errno) => return skip(tid, before, Err(errno)),
                };
                let mut registers = before;
                stub.set_argument(&mut registers, second, at);
                tracee::set_registers(tid, &registers)?;
                self.last.insert(tid, before);
                return tracee::go(tid, 0);
            }
        }
        match self.decide(&caller, &before) {
            Ok(Way::Native) => tracee::go(tid, 0),
            Ok(Way::Value(value)) => skip(tid, before, Ok(value)),
            Ok(Way::Instead { call, after }) => {
                let mut registers = before;
                registers.set_call(&call);
                tracee::set_registers(tid, &registers)?;
                self.under_way.insert(tid, UnderWay { before, after });
                tracee::go_to_call(tid, 0)
            }
            Ok(Way::Wait(slow)) => self
                .wait_for(tid, before, slow)
                .or_else(|errno| skip(tid, before, Err(errno))),
            Err(errno) => skip(tid, before, Err(errno)),
        }
    }

    fn decide(&mut self, caller: &Caller<'_>, before: &Registers) -> Result<Way, Errno> {
        let wanted = match caller.call.number {
            nr::OPENAT => open::wanted_at(caller)?,
            nr::OPEN => open::wanted(caller)?,
            nr::OPENAT2 => open::wanted_how(caller)?,
            nr::CREAT => open::wanted_creat(caller)?,
            _ => return self.decide_other(caller, before),
        };
        let mut after = After::Nothing;
        let (path, flags, mode) = match open::decide(caller, &wanted)? {
            Opening::New {
                directory,
                name,
                flags,
                mode,
            } => (join(&caller.real_of(&directory)?, &name), flags, mode),
            Opening::There { place, flags, .. } => {
                let (mount, rest) = caller.view.mount_of(&place)?;
                match mount.kind {
                    Kind::Terminals if rest.is_empty() => {
                        let list = caller.view.terminal_list().as_os_str().as_bytes();
                        (list.to_vec(), flags, 0)
                    }
                    Kind::Terminals if rest == b"ptmx" => {
                        after = After::Terminal;
                        (TERMINALS.to_bytes().to_vec(), flags, 0)
                    }
                    Kind::Terminals => (join(b"/dev/pts", rest), flags, 0),
                    // Its list of processes is one of our own making.
                    Kind::Processes if rest.is_empty() => (
                        calls::read_link(&calls::own_path(caller.view.list()?.as_fd()))?,
                        flags,
                        0,
                    ),
                    _ => (caller.real_of(&place)?, flags, 0),
                }
            }
            Opening::Nameless {
                place, flags, mode, ..
            } => (caller.real_of(&place)?, flags, mode),
            Opening::Path { place, flags, .. } => (caller.real_of(&place)?, flags, 0),
            Opening::Made(content) => (caller.view.made_file(&content)?, wanted.flags, 0),
            Opening::Terminal { flags, .. } => (b"/dev/tty".to_vec(), flags, 0),
            Opening::Alone {
                place,
                handle,
                flags,
            } => match given_again(caller, &place, &handle, flags)? {
                Some(call) => return Ok(Way::Instead { call, after }),
                None => (place, flags, 0),
            },
        };
        let at = self.put_path(caller.tid, &path)?;
        let arguments = [
            flag::AT_CWD as i64 as u64,
            at,
            flags as u32 as u64,
            mode.into(),
            0,
            0,
        ];
        Ok(Way::Instead {
            call: Call {
                number: nr::OPENAT,
                arguments,
            },
            after,
        })
    }

    fn decide_other(&mut self, caller: &Caller<'_>, before: &Registers) -> Result<Way, Errno> {
        let tid = caller.tid;
        let instead = |call| {
            Ok(Way::Instead {
                call,
                after: After::Nothing,
            })
        };
        match serve(caller)? {
            Outcome::Value(value) => Ok(Way::Value(value)),
            Outcome::Native => Ok(Way::Native),
            Outcome::Slow(slow) => Ok(Way::Wait(slow)),
            Outcome::Connect(address) => {
                let mut call = caller.call;
                call.arguments[1] = self.place(tid)?.put(&address)?;
                call.arguments[2] = address.len() as u64;
                instead(call)
            }
            Outcome::Send(message) => {
                let place = self.place(tid)?;
                let (call, count) =
                    message.instead(caller, place.address(), |bytes| place.put(bytes))?;
                let after = count.map_or(After::Nothing, After::Count);
                Ok(Way::Instead { call, after })
            }
            Outcome::Enter { real, .. } => {
                let arguments = [self.put_path(tid, &real)?, 0, 0, 0, 0, 0];
                instead(Call {
                    number: nr::CHDIR,
                    arguments,
                })
            }
            Outcome::Execute(execution) => {
                let path = self.put_path(tid, &execution.program.real)?;
                instead(words::put(caller, before, &execution, path)?)
            }
            Outcome::Give { .. } | Outcome::GiveAway { .. } | Outcome::Path { .. } => {
                Err(Errno::EIO)
            }
        }
    }

    /// A call with other words is over: the thread gets its own registers again, and what it returned.
    fn returned(&mut self, tid: i32) -> Result<(), Errno> {
        if let Some(UnderWay { mut before, after }) = self.under_way.remove(&tid) {
            let mut returned = tracee::registers(tid)?.returned();
            match (after, returned) {
                (After::Terminal, Ok(fd)) => {
                    let number = calls::descriptor_of(tid, fd as i32)
                        .and_then(|fd| calls::terminal_number(fd.as_fd()));
                    if let Ok(number) = number {
                        self.shown.view().add_terminal(number);
                    }
                }
                (After::Count(at), Ok(count)) => {
                    let put = memory::write(tid, at, &(count as u32).to_ne_bytes());
                    returned = put.map(|()| 1);
                }
                _ => {}
            }
            // One that was broken off for a signal is made again from its own words.
            before.set_returned(returned);
            tracee::set_registers(tid, &before)?;
        }
        tracee::go(tid, 0)
    }
}

/// A thread stands after a call that started something: was it a process?
fn makes_a_process(tid: i32) -> bool {
    const CLONE: i32 = 56;
    const CLONE_THREAD: u64 = 0x0001_0000;
    tracee::registers(tid).is_ok_and(|registers| {
        let call = registers.call();
        let [flags, ..] = call.arguments;
        call.number != CLONE || flags & CLONE_THREAD == 0
    })
}

/// A file that the guest was given and is not shown: its domain lets it open nothing of the kind, so that it gets another
/// descriptor of what it has.
fn given_again(
    caller: &Caller<'_>,
    place: &[u8],
    handle: &OwnedFd,
    flags: i32,
) -> Result<Option<Call>, Errno> {
    const FCNTL: i32 = 72;
    /// F_DUPFD, F_DUPFD_CLOEXEC.
    const ANOTHER: [u64; 2] = [0, 1030];
    let real = calls::read_link(&calls::own_path(handle.as_fd()))?;
    if !real.starts_with(b"/") || processes::is_shown(caller.view, &real) {
        return Ok(None);
    }
    let own = format!("/proc/{}/", processes::process_of(caller.tid)?);
    let number = processes::number(last_name(place)).filter(|_| place.starts_with(own.as_bytes()));
    let number = number.ok_or(Errno::EACCES)?;
    let another = ANOTHER[usize::from(flags & flag::CLOSE_ON_EXEC != 0)];
    Ok(Some(Call {
        number: FCNTL,
        arguments: [number as u64, another, 0, 0, 0, 0],
    }))
}

/// Most files that are opened are plainly there: one word of the call is changed, and it need not be stopped again.
/// Is that argument the second (or the first), and the path that it is to be.
fn plain_open(caller: &Caller<'_>) -> Option<(bool, Vec<u8>)> {
    let (second, wanted) = match caller.call.number {
        nr::OPENAT => (true, open::wanted_at(caller).ok()?),
        nr::OPEN => (false, open::wanted(caller).ok()?),
        _ => return None,
    };
    Some((second, open::plain_real(caller, &wanted)?))
}

enum Way {
    Native,
    Value(i64),
    Instead { call: Call, after: After },
    Wait(Slow),
}

fn skip(tid: i32, mut registers: Registers, result: Result<i64, Errno>) -> Result<(), Errno> {
    registers.set_result(result);
    tracee::set_registers(tid, &registers)?;
    tracee::go(tid, 0)
}
