//! Answering by a seccomp listener: one thread a guest program and all that it starts. What a guest has to do itself, it
//! is made to: its thread is stopped for a moment, and sent on with other words. Not in it: what is answered.

use super::caller::Caller;
use super::serve::{Outcome, nr, serve};
use super::slow::{self, Over};
use super::view::{View, c_string, flag};
use super::{sockets, words};
use crate::library::{Arrivals, Contents};
use kumiko_linux::supervise::listener::{Listener, Notification};
use kumiko_linux::supervise::tracee::{self, Registers, Stop};
use kumiko_linux::supervise::{Call, Errno, calls, spawn};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Answers until no process is left that could ask. `starting`: a guest that executes what was found for it already.
/// `library`: what is put into every program.
pub(super) fn answer(
    listener: Listener,
    view: &View,
    library: Option<Arc<Contents>>,
    starting: i32,
) {
    let mut answering = Answering {
        listener: Arc::new(listener),
        view,
        starting: Some(starting),
        waiting: VecDeque::new(),
        arrivals: library.map(Arrivals::new),
    };
    while let Some(asked) = answering.next() {
        answering.handle(&asked);
    }
}

struct Answering<'a> {
    listener: Arc<Listener>,
    view: &'a View,
    starting: Option<i32>,
    /// Calls that came while another was seen to.
    waiting: VecDeque<Notification>,
    arrivals: Option<Arrivals>,
}

impl Answering<'_> {
    fn next(&mut self) -> Option<Notification> {
        match self.waiting.pop_front() {
            Some(asked) => Some(asked),
            None => self.listener.receive().ok().flatten(),
        }
    }

    fn handle(&mut self, asked: &Notification) {
        if let Some(arrivals) = &mut self.arrivals {
            if let Some(result) = arrivals.asked(asked.tid, &asked.call) {
                return self.listener.answer(asked.id, result.map(|()| 0));
            }
        }
        if asked.call.number == nr::EXECVE && self.starting == Some(asked.tid) {
            self.starting = None;
            return self.executed_as_it_stands(asked);
        }
        if let Some(counts) = self.view.counts() {
            counts.call(asked.tid, &asked.call);
        }
        let caller = Caller {
            view: self.view,
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
                std::thread::spawn(move || {
                    let wanted = || listener.is_waiting(asked.id);
                    match slow::wait(asked.tid, slow, wanted) {
                        Over::Told(outcome) => tell(&listener, asked.id, outcome),
                        Over::BrokenOff => break_off(&listener, &asked),
                        Over::Gone => {}
                    }
                });
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
        if now.starts_with(b"/") && now != meant && self.view.place_of(&now).is_none() {
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

    /// Stops a thread that waits for its answer. An error: it still does.
    fn halt(&mut self, asked: &Notification) -> Result<(Registers, u64), Errno> {
        let tid = asked.tid;
        // A guest that is traced by another guest cannot be stopped by us.
        tracee::seize_alone(tid)?;
        tracee::interrupt(tid)?;
        self.listener.again(asked.id);
        // Gone: it was killed, and needs no answer.
        while let Some((_, stop)) = tracee::wait(tid) {
            match stop {
                Stop::Gone => break,
                Stop::Halted | Stop::Group => {
                    let registers = tracee::registers(tid)?;
                    let blocked = tracee::blocked(tid)?;
                    // No handler is to run in the middle of what follows.
                    tracee::set_blocked(tid, u64::MAX)?;
                    return Ok((registers, blocked));
                }
                Stop::Signal(signal) => tracee::go(tid, signal)?,
                _ => tracee::go(tid, 0)?,
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
        tracee::set_registers(tid, &registers).ok()?;
        tracee::go_to_call(tid, 0).ok()?;
        let mut begun = false;
        loop {
            match tracee::wait(-1)? {
                (_, Stop::Gone) => return None,
                (now, Stop::Executed(_)) => {
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.executed(now);
                    }
                    let _ = tracee::set_blocked(now, blocked);
                    let _ = tracee::detach(now);
                    return None;
                }
                (_, Stop::Call) if begun => {
                    return tracee::registers(tid)
                        .ok()
                        .map(|registers| registers.returned());
                }
                (_, Stop::Call) => {
                    begun = true;
                    tracee::go_to_call(tid, 0).ok()?;
                    // The filter asks about it as about any other.
                    self.carry_on(tid);
                }
                (other, Stop::Signal(signal)) => drop(tracee::go_to_call(other, signal)),
                (other, _) => drop(tracee::go_to_call(other, 0)),
            }
        }
    }

    fn carry_on(&mut self, tid: i32) {
        while let Ok(Some(asked)) = self.listener.receive() {
            if asked.tid == tid {
                return self.listener.carry_on(asked.id);
            }
            self.waiting.push_back(asked);
        }
    }
}

fn tell(listener: &Listener, id: u64, outcome: Result<Outcome, Errno>) {
    match outcome {
        Ok(Outcome::Value(value)) => listener.answer(id, Ok(value)),
        Ok(Outcome::Native) => listener.carry_on(id),
        Ok(Outcome::Give { fd, close_on_exec }) => listener.give(id, fd.as_fd(), close_on_exec),
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
    if tracee::seize_alone(tid)
        .and_then(|()| tracee::interrupt(tid))
        .is_err()
    {
        return listener.answer(asked.id, Err(Errno::EINTR));
    }
    listener.broken_off(asked.id);
    while let Some((_, stop)) = tracee::wait(tid) {
        let (done, over) = match stop {
            Stop::Gone => return,
            Stop::Halted | Stop::Group => (tracee::detach(tid), true),
            Stop::Signal(signal) => (tracee::go(tid, signal), false),
            _ => (tracee::go(tid, 0), false),
        };
        // An error: it was killed.
        if over || done.is_err() {
            return;
        }
    }
}

/// As if the call had just returned this.
fn restore(tid: i32, mut before: Registers, result: Result<i64, Errno>, blocked: u64) {
    before.set_result(result);
    // An error: it was killed.
    let _ = tracee::set_registers(tid, &before);
    let _ = tracee::set_blocked(tid, blocked);
    let _ = tracee::detach(tid);
}
