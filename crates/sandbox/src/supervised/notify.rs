//! Answering by a seccomp listener: one thread a guest program and all that it starts. What a guest has to do itself, it
//! is made to: its thread is stopped for a moment, and sent on with other words. Not in it: what is answered.

use super::caller::Caller;
use super::processes;
use super::serve::{Outcome, nr, serve};
use super::shown::Shown;
use super::slow::{self, Over};
use super::view::{c_string, flag};
use super::{sockets, words};
use crate::library::Arrivals;
use kumiko_linux::supervise::listener::{Listener, Notification};
use kumiko_linux::supervise::tracee::{self, Registers, Stop};
use kumiko_linux::supervise::{Call, Errno, calls, spawn};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether a thread that is about to ask was killed or stopped before.
const LOOK: Duration = Duration::from_millis(10);

/// Who answers the calls of a guest and of all that it starts.
pub(super) struct Answering {
    listener: Arc<Listener>,
    shown: Arc<Shown>,
    /// A guest that executes what was found for it already, until it has.
    starting: Option<i32>,
    /// Calls that came while another was seen to.
    waiting: VecDeque<Notification>,
    arrivals: Option<Arrivals>,
}

impl Answering {
    pub(super) fn new(listener: Listener, shown: Arc<Shown>, starting: i32) -> Answering {
        Answering {
            listener: Arc::new(listener),
            arrivals: shown.given().map(Arrivals::new),
            shown,
            starting: Some(starting),
            waiting: VecDeque::new(),
        }
    }

    /// Answers until the guest executes its program, or has ended.
    pub(super) fn until_executed(&mut self) {
        while self.starting.is_some() {
            match self.next() {
                Some(asked) => self.handle(&asked),
                None => return,
            }
        }
    }

    /// Answers until no process is left that could ask.
    pub(super) fn run(mut self) {
        while let Some(asked) = self.next() {
            self.handle(&asked);
        }
    }

    fn next(&mut self) -> Option<Notification> {
        match self.waiting.pop_front() {
            Some(asked) => Some(asked),
            None => self.listener.receive().ok().flatten(),
        }
    }

    fn handle(&mut self, asked: &Notification) {
        if let Some(arrivals) = &mut self.arrivals {
            let lend = |fd: BorrowedFd<'_>| self.listener.lend(asked.id, fd);
            if let Some(result) = arrivals.asked(asked.tid, &asked.call, lend) {
                return self.listener.answer(asked.id, result.map(|()| 0));
            }
        }
        if asked.call.number == nr::EXECVE && self.starting == Some(asked.tid) {
            self.starting = None;
            return self.executed_as_it_stands(asked);
        }
        let view = self.shown.view();
        if let Some(counts) = view.counts() {
            counts.call(asked.tid, &asked.call);
        }
        let caller = Caller {
            view: &view,
            tid: asked.tid,
            call: asked.call,
        };
        match serve(&caller).and_then(|outcome| by_us(&caller, outcome)) {
            Ok(Outcome::Enter { real, directory }) => {
                let same = caller.path(0).is_ok_and(|words| {
                    words == real || caller.is_same_on_host(flag::AT_CWD, &words, &directory)
                });
                if same {
                    return self.listener.carry_on(asked.id);
                }
                let enter = |before: &Registers| {
                    let at = words::put_path(asked.tid, before, &real)?;
                    Ok(Call {
                        number: nr::CHDIR,
                        arguments: [at, 0, 0, 0, 0, 0],
                    })
                };
                self.made_by_itself(asked, enter, |_| Some(("cwd".to_owned(), real.clone())));
            }
            Ok(Outcome::Execute(execution)) => {
                let execute = |before: &Registers| {
                    let path = words::put_path(asked.tid, before, &execution.program.real)?;
                    words::put(&caller, before, &execution, path)
                };
                self.made_by_itself(asked, execute, |_| None);
            }
            Ok(Outcome::Path { real, flags }) => {
                let open = |before: &Registers| {
                    let at = words::put_path(asked.tid, before, &real)?;
                    Ok(Call {
                        number: nr::OPENAT,
                        arguments: [flag::AT_CWD as i64 as u64, at, flags as u32 as u64, 0, 0, 0],
                    })
                };
                self.made_by_itself(asked, open, |fd| Some((format!("fd/{fd}"), real.clone())));
            }
            Ok(Outcome::Native) if matches!(asked.call.number, nr::EXECVE | nr::EXECVEAT) => {
                self.executed_as_it_stands(asked);
            }
            Ok(Outcome::Slow(slow)) => {
                let (listener, asked) = (Arc::clone(&self.listener), *asked);
                let waiting = slow::thread(move || {
                    let wanted = || listener.is_waiting(asked.id);
                    match slow::wait(asked.tid, slow, wanted) {
                        Over::Told(outcome) => tell(&listener, asked.id, outcome),
                        Over::BrokenOff => break_off(&listener, &asked),
                        Over::Gone => {}
                    }
                });
                if let Err(errno) = waiting {
                    self.listener.answer(asked.id, Err(errno));
                }
            }
            outcome => tell(&self.listener, asked.id, outcome),
        }
    }

    /// Another thread may have changed the words that this one made its call with: what it has now must be what was
    /// meant, or shown.
    fn look_again(&self, tid: i32, what: &str, meant: &[u8]) {
        let now = c_string(format!("/proc/{tid}/{what}").as_bytes());
        let Ok(now) = now.and_then(|path| calls::read_link(&path)) else {
            return; // it has ended
        };
        if now.starts_with(b"/") && now != meant && self.shown.view().place_of(&now).is_none() {
            // An error: it has ended.
            let _ = spawn::kill(tid);
        }
    }

    /// Another thread may have changed the words that a program was executed by. Where a library goes into it no domain
    /// is behind them: then it must be made of what is shown.
    fn executed(&mut self, tid: i32) {
        let Some(arrivals) = &mut self.arrivals else {
            return;
        };
        if processes::is_made_of_shown(&self.shown.view(), tid) {
            arrivals.executed(tid);
        } else {
            // An error: it has ended.
            let _ = spawn::kill(tid);
        }
    }

    /// Lets a program be executed that the kernel finds by the guest's own words. Where a library goes into it, its
    /// thread is stopped; one that another guest traces cannot be, and executes nothing.
    fn executed_as_it_stands(&mut self, asked: &Notification) {
        if self.arrivals.is_none() {
            return self.listener.carry_on(asked.id);
        }
        match self.halt(asked) {
            Ok((before, blocked)) => {
                if let Some(result) = self.made(asked.tid, &before, &asked.call, blocked) {
                    restore(asked.tid, before, result, blocked);
                }
            }
            Err(errno) => self.listener.answer(asked.id, Err(errno)),
        }
    }

    /// Has the thread make another call in place of the one that it waits for. `look`: which link of its own in /proc
    /// says what it has then, and what that is to be.
    fn made_by_itself(
        &mut self,
        asked: &Notification,
        call: impl FnOnce(&Registers) -> Result<Call, Errno>,
        look: impl FnOnce(i64) -> Option<(String, Vec<u8>)>,
    ) {
        let tid = asked.tid;
        match self.halt(asked) {
            Ok((before, blocked)) => {
                let done = match call(&before) {
                    Ok(call) => self.made(tid, &before, &call, blocked),
                    Err(errno) => Some(Err(errno)),
                };
                if let Some(result) = done {
                    if let Some((what, meant)) = result.ok().and_then(look) {
                        self.look_again(tid, &what, &meant);
                    }
                    restore(tid, before, result, blocked);
                }
            }
            Err(errno) => self.listener.answer(asked.id, Err(errno)),
        }
    }

    /// Stops a thread that waits for its answer. An error: it still does, or was killed.
    fn halt(&mut self, asked: &Notification) -> Result<(Registers, u64), Errno> {
        let tid = asked.tid;
        // A guest that is traced by another guest cannot be stopped by us.
        tracee::seize_alone(tid)?;
        if let Err(errno) = tracee::interrupt(tid) {
            tracee::let_go(tid);
            return Err(errno);
        }
        self.listener.again(asked.id);
        while let Some((_, stop)) = tracee::wait(tid) {
            match stop {
                Stop::Gone => break,
                Stop::Halted | Stop::Group => {
                    return halted(tid).inspect_err(|_| tracee::let_go(tid));
                }
                // An error: it was killed, and is told of next.
                Stop::Signal(signal) => drop(tracee::go(tid, signal)),
                _ => drop(tracee::go(tid, 0)),
            }
        }
        Err(Errno::ESRCH)
    }

    /// One call of a stopped thread, and what it returned; None: it executes another program, or was killed.
    fn made(
        &mut self,
        tid: i32,
        before: &Registers,
        call: &Call,
        blocked: u64,
    ) -> Option<Result<i64, Errno>> {
        let mut registers = *before;
        registers.set_call_again(call);
        let begin = || {
            let set = tracee::set_registers(tid, &registers);
            // An error: it was killed, and is told of next.
            let _ = set.and_then(|()| tracee::go_to_call(tid, 0));
        };
        begin();
        let mut begun = false;
        loop {
            match tracee::wait(-1)? {
                (_, Stop::Gone) => return None,
                (now, Stop::Executed(_)) => {
                    self.executed(now);
                    let _ = tracee::set_blocked(now, blocked);
                    tracee::let_go(now);
                    return None;
                }
                (_, Stop::Call) if begun => match tracee::registers(tid) {
                    // It was stopped before we had heard of it.
                    Ok(registers) if registers.returned() == Err(Errno::BROKEN_OFF) => {
                        begun = false;
                        begin();
                    }
                    Ok(registers) => return Some(registers.returned()),
                    Err(_) => {}
                },
                (_, Stop::Call) => {
                    begun = true;
                    if tracee::go_to_call(tid, 0).is_ok() {
                        // The filter asks about it as about any other.
                        self.carry_on(tid);
                    }
                }
                (other, Stop::Signal(signal)) => drop(tracee::go_to_call(other, signal)),
                (other, _) => drop(tracee::go_to_call(other, 0)),
            }
        }
    }

    /// Lets the call of this thread be made, unless it is killed or stopped before it asks. Others wait.
    fn carry_on(&mut self, tid: i32) {
        loop {
            match self.listener.receive_within(LOOK) {
                Ok(Some(asked)) if asked.tid == tid => return self.listener.carry_on(asked.id),
                Ok(Some(asked)) => self.waiting.push_back(asked),
                Ok(None) | Err(_) if tracee::is_told_of(tid) => return,
                Ok(None) | Err(_) => {}
            }
        }
    }
}

/// Of a thread that has just stopped: what it has, and that no handler runs in the middle of what follows.
fn halted(tid: i32) -> Result<(Registers, u64), Errno> {
    let registers = tracee::registers(tid)?;
    let blocked = tracee::blocked(tid)?;
    tracee::set_blocked(tid, u64::MAX)?;
    Ok((registers, blocked))
}

fn tell(listener: &Listener, id: u64, outcome: Result<Outcome, Errno>) {
    match outcome {
        Ok(Outcome::Value(value)) => listener.answer(id, Ok(value)),
        Ok(Outcome::Native) => listener.carry_on(id),
        Ok(Outcome::Give { fd, close_on_exec }) => listener.give(id, fd.as_fd(), close_on_exec),
        Ok(Outcome::GiveAway { fd, close_on_exec }) => listener.give_away(id, fd, close_on_exec),
        Ok(_) => listener.answer(id, Err(Errno::EIO)),
        Err(errno) => listener.answer(id, Err(errno)),
    }
}

/// What is done in a guest's place on a socket of its own.
fn by_us(caller: &Caller<'_>, outcome: Outcome) -> Result<Outcome, Errno> {
    match outcome {
        Outcome::Connect(address) => sockets::connected(caller, address, None),
        Outcome::Send(message) => message.sent(caller),
        outcome => Ok(outcome),
    }
}

/// Has the kernel see to the signal that a thread waits with, and to what that does to its call. One that another guest
/// traces cannot be halted: it gets no more than EINTR.
fn break_off(listener: &Listener, asked: &Notification) {
    let tid = asked.tid;
    if tracee::seize_alone(tid).is_err() {
        return listener.answer(asked.id, Err(Errno::EINTR));
    }
    if tracee::interrupt(tid).is_err() {
        return tracee::let_go(tid); // it was killed
    }
    listener.broken_off(asked.id);
    while let Some((_, stop)) = tracee::wait(tid) {
        match stop {
            Stop::Gone => return,
            Stop::Halted | Stop::Group => return tracee::let_go(tid),
            // An error: it was killed, and is told of next.
            Stop::Signal(signal) => drop(tracee::go(tid, signal)),
            _ => drop(tracee::go(tid, 0)),
        }
    }
}

/// As if the call had just returned this.
fn restore(tid: i32, mut before: Registers, result: Result<i64, Errno>, blocked: u64) {
    before.set_result(result);
    // An error: it was killed.
    let _ = tracee::set_registers(tid, &before);
    let _ = tracee::set_blocked(tid, blocked);
    tracee::let_go(tid);
}
