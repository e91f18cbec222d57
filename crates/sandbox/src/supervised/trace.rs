//! Answering by ptrace(2): a thread of ours traces a guest program and all that it starts, and is told of the calls that
//! the filter picks. What we can do in the guest's place is done and its result put in place of the call; files are
//! opened, directories entered and programs executed by the guest itself, with the words of the host in place of its
//! own, and no farther than its domain lets it. Not in it: what is answered.

use super::caller::Caller;
use super::open::{self, Opening};
use super::resolve::join;
use super::serve::{Outcome, nr, serve};
use super::view::{Kind, TERMINALS, View, flag};
use super::words;
use kumiko_linux::supervise::stub::Stub;
use kumiko_linux::supervise::tracee::{self, Registers, Stop};
use kumiko_linux::supervise::{Call, Errno, calls};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, mpsc};

/// Traces a guest that waits to be traced, to its end, in a thread of its own.
pub(super) fn begin(pid: i32, view: Arc<View>) -> Result<(), Errno> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let seized = tracee::seize(pid);
        let begun = seized.is_ok();
        let _ = tell.send(seized);
        if begun {
            Tracing {
                view: &view,
                under_way: HashMap::new(),
                stubs: HashMap::new(),
                last: HashMap::new(),
                started_by: pid,
            }
            .run();
        }
    });
    told.recv().unwrap_or(Err(Errno::EIO))
}

struct Tracing<'a> {
    view: &'a View,
    /// Threads that make a call with other words than their own: their registers before.
    under_way: HashMap<i32, UnderWay>,
    /// Where a thread's program gets a register back by itself.
    stubs: HashMap<i32, Stub>,
    /// Registers before the last call that was changed so.
    last: HashMap<i32, Registers>,
    /// The guest that executes what was found for it already, until it has.
    started_by: i32,
}

struct UnderWay {
    before: Registers,
    /// What is opened is a terminal's master.
    terminal: bool,
}

impl Tracing<'_> {
    fn run(&mut self) {
        while let Some((tid, stop)) = tracee::wait(-1) {
            // An error: it was killed meanwhile, and is told of again.
            let _ = match stop {
                Stop::Filtered => self.filtered(tid),
                Stop::Call => self.returned(tid),
                Stop::Executed(before) => {
                    self.under_way.remove(&before);
                    self.under_way.remove(&tid);
                    if tid == self.started_by {
                        self.started_by = 0;
                    }
                    self.stubs.remove(&before);
                    self.stubs.remove(&tid);
                    self.stubs.extend(Stub::put(tid).map(|stub| (tid, stub)));
                    tracee::go(tid, 0)
                }
                Stop::Started(_) => {
                    let counts = self.view.counts();
                    if let Some(counts) = counts.filter(|_| makes_a_process(tid)) {
                        counts.process();
                    }
                    tracee::go(tid, 0)
                }
                Stop::Halted => {
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
                    self.under_way.remove(&tid);
                    self.stubs.remove(&tid);
                    self.last.remove(&tid);
                    Ok(())
                }
            };
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
        if let Some(counts) = self.view.counts() {
            counts.call(tid, &call);
        }
        let caller = Caller {
            view: self.view,
            tid,
            call,
        };
        if let Some(stub) = stub {
            if let Some((second, at)) = plain_open(&caller, &before) {
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
            Ok(Way::Instead { call, terminal }) => {
                let mut registers = before;
                registers.set_call(&call);
                tracee::set_registers(tid, &registers)?;
                self.under_way.insert(tid, UnderWay { before, terminal });
                tracee::go_to_call(tid, 0)
            }
            Err(errno) => skip(tid, before, Err(errno)),
        }
    }

    fn decide(&self, caller: &Caller<'_>, before: &Registers) -> Result<Way, Errno> {
        let wanted = match caller.call.number {
            nr::OPENAT => open::wanted_at(caller)?,
            nr::OPEN => open::wanted(caller)?,
            nr::OPENAT2 => open::wanted_how(caller)?,
            nr::CREAT => open::wanted_creat(caller)?,
            _ => return self.decide_other(caller, before),
        };
        let (path, flags, mode, terminal) = match open::decide(caller, &wanted)? {
            Opening::New {
                directory,
                name,
                flags,
                mode,
            } => (
                join(&caller.real_of(&directory)?, &name),
                flags,
                mode,
                false,
            ),
            Opening::There { place, flags, .. } => {
                let (mount, rest) = caller.view.mount_of(&place)?;
                match mount.kind {
                    Kind::Terminals if rest.is_empty() => {
                        let list = self.view.terminal_list().as_os_str().as_bytes();
                        (list.to_vec(), flags, 0, false)
                    }
                    Kind::Terminals if rest == b"ptmx" => {
                        (TERMINALS.to_bytes().to_vec(), flags, 0, true)
                    }
                    Kind::Terminals => (join(b"/dev/pts", rest), flags, 0, false),
                    // Its list of processes is one of our own making.
                    Kind::Processes if rest.is_empty() => (
                        calls::read_link(&calls::own_path(caller.view.list()?.as_fd()))?,
                        flags,
                        0,
                        false,
                    ),
                    _ => (caller.real_of(&place)?, flags, 0, false),
                }
            }
            Opening::Nameless {
                place, flags, mode, ..
            } => (caller.real_of(&place)?, flags, mode, false),
            Opening::Path { place, flags, .. } => (caller.real_of(&place)?, flags, 0, false),
            Opening::Made(content) => (self.view.made_file(&content)?, wanted.flags, 0, false),
            Opening::Terminal { flags, .. } => (b"/dev/tty".to_vec(), flags, 0, false),
            Opening::Alone { place, flags, .. } => (place, flags, 0, false),
        };
        let at = words::put_path(caller.tid, before, &path)?;
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
            terminal,
        })
    }

    fn decide_other(&self, caller: &Caller<'_>, before: &Registers) -> Result<Way, Errno> {
        let mut outcome = serve(caller)?;
        if let Outcome::Slow(slow) = outcome {
            outcome = slow()?;
        }
        match outcome {
            Outcome::Value(value) => Ok(Way::Value(value)),
            Outcome::Native => Ok(Way::Native),
            Outcome::Enter { real, .. } => {
                let arguments = [words::put_path(caller.tid, before, &real)?, 0, 0, 0, 0, 0];
                Ok(Way::Instead {
                    call: Call {
                        number: nr::CHDIR,
                        arguments,
                    },
                    terminal: false,
                })
            }
            Outcome::Execute(execution) => {
                let call = words::put(caller, before, &execution)?;
                Ok(Way::Instead {
                    call,
                    terminal: false,
                })
            }
            Outcome::Give { .. } | Outcome::Slow(_) | Outcome::Path { .. } => Err(Errno::EIO),
        }
    }

    /// A call with other words is over: the thread gets its own registers again, and what it returned.
    fn returned(&mut self, tid: i32) -> Result<(), Errno> {
        if let Some(UnderWay {
            mut before,
            terminal,
        }) = self.under_way.remove(&tid)
        {
            let returned = tracee::registers(tid)?.returned();
            if let (true, Ok(fd)) = (terminal, returned) {
                let number = calls::descriptor_of(tid, fd as i32)
                    .and_then(|fd| calls::terminal_number(fd.as_fd()));
                if let Ok(number) = number {
                    self.view.add_terminal(number);
                }
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

/// Most files that are opened are plainly there: one word of the call is changed, and it need not be stopped again.
/// Which argument that is (the second, or the first), and the new word.
fn plain_open(caller: &Caller<'_>, before: &Registers) -> Option<(bool, u64)> {
    let (second, wanted) = match caller.call.number {
        nr::OPENAT => (true, open::wanted_at(caller).ok()?),
        nr::OPEN => (false, open::wanted(caller).ok()?),
        _ => return None,
    };
    let real = open::plain_real(caller, &wanted)?;
    let at = words::put_path(caller.tid, before, &real).ok()?;
    Some((second, at))
}

enum Way {
    Native,
    Value(i64),
    Instead { call: Call, terminal: bool },
}

fn skip(tid: i32, mut registers: Registers, result: Result<i64, Errno>) -> Result<(), Errno> {
    registers.set_result(result);
    tracee::set_registers(tid, &registers)?;
    tracee::go(tid, 0)
}
