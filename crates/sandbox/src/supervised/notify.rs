//! Answering by a seccomp listener: one thread a guest program and all that it starts. What a guest has to do itself, it
//! is made to: its thread is stopped for a moment, and sent on with other words. Not in it: what is answered.

use super::caller::Caller;
use super::serve::{Execution, Outcome, also, nr, serve};
use super::view::View;
use kumiko_linux::supervise::listener::{Listener, Notification};
use kumiko_linux::supervise::tracee::{self, Registers, Stop};
use kumiko_linux::supervise::{Call, Errno};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Answers until no process is left that could ask. `starting`: a guest that executes what was found for it already.
pub(super) fn answer(listener: Listener, view: &View, starting: i32) {
    let mut answering = Answering {
        listener: Arc::new(listener),
        view,
        starting: Some(starting),
        waiting: VecDeque::new(),
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
}

impl Answering<'_> {
    fn next(&mut self) -> Option<Notification> {
        match self.waiting.pop_front() {
            Some(asked) => Some(asked),
            None => self.listener.receive().ok().flatten(),
        }
    }

    fn handle(&mut self, asked: &Notification) {
        if asked.call.number == nr::EXECVE && self.starting == Some(asked.tid) {
            self.starting = None;
            return self.listener.carry_on(asked.id);
        }
        let caller = Caller {
            view: self.view,
            tid: asked.tid,
            call: asked.call,
        };
        match serve(&caller) {
            Ok(Outcome::Enter { real, directory }) => {
                let same = caller.path(0).is_ok_and(|words| {
                    words == real
                        || caller.is_same_on_host(super::view::flag::AT_CWD, &words, &directory)
                });
                if same {
                    return self.listener.carry_on(asked.id);
                }
                let entered = self
                    .listener
                    .put(asked.id, directory.as_fd())
                    .and_then(|fd| self.enter(asked, fd));
                if let Err(errno) = entered {
                    self.listener.answer(asked.id, Err(errno));
                }
            }
            Ok(Outcome::Execute(execution)) => {
                if let Err(errno) = self.execute(asked, &caller, &execution) {
                    self.listener.answer(asked.id, Err(errno));
                }
            }
            Ok(Outcome::Slow(slow)) => {
                let (listener, id) = (Arc::clone(&self.listener), asked.id);
                std::thread::spawn(move || tell(&listener, id, slow()));
            }
            outcome => tell(&self.listener, asked.id, outcome),
        }
    }

    /// Has the thread work in the directory that it was handed, and give that up. An error: it still waits for its answer.
    fn enter(&mut self, asked: &Notification, fd: i32) -> Result<(), Errno> {
        let (before, blocked) = self.halt(asked)?;
        let call = |number| Call {
            number,
            arguments: [fd as u64, 0, 0, 0, 0, 0],
        };
        let entered = made(asked.tid, &before, &call(also::FCHDIR));
        let _ = made(asked.tid, &before, &call(also::CLOSE));
        restore(asked.tid, before, entered, blocked);
        Ok(())
    }

    fn execute(
        &mut self,
        asked: &Notification,
        caller: &Caller<'_>,
        execution: &Execution,
    ) -> Result<(), Errno> {
        let (before, blocked) = self.halt(asked)?;
        let tid = asked.tid;
        let call = super::words::put(caller, &before, execution);
        let failed = match call {
            Err(errno) => errno,
            Ok(call) => match self.executed(tid, &before, &call, blocked) {
                None => return Ok(()),
                Some(errno) => errno,
            },
        };
        restore(tid, before, Err(failed), blocked);
        Ok(())
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

    /// Executes; what is not executed is told.
    fn executed(
        &mut self,
        tid: i32,
        before: &Registers,
        call: &Call,
        blocked: u64,
    ) -> Option<Errno> {
        let mut registers = *before;
        registers.set_call_again(call);
        if tracee::set_registers(tid, &registers)
            .and_then(|()| tracee::go_to_call(tid, 0))
            .is_err()
        {
            return None; // killed
        }
        let mut begun = false;
        loop {
            match tracee::wait(-1) {
                None | Some((_, Stop::Gone)) => return None,
                Some((now, Stop::Executed(_))) => {
                    let _ = tracee::set_blocked(now, blocked);
                    let _ = tracee::detach(now);
                    return None;
                }
                Some((_, Stop::Call)) if begun => {
                    return tracee::registers(tid)
                        .ok()
                        .and_then(|registers| registers.returned().err());
                }
                Some((_, Stop::Call)) => {
                    begun = true;
                    if tracee::go_to_call(tid, 0).is_err() {
                        return None;
                    }
                    // The filter asks about it as about any other.
                    self.carry_on(tid);
                }
                Some((other, Stop::Signal(signal))) => drop(tracee::go_to_call(other, signal)),
                Some((other, _)) => drop(tracee::go_to_call(other, 0)),
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
        Ok(Outcome::Slow(_) | Outcome::Enter { .. } | Outcome::Execute(_)) => {
            listener.answer(id, Err(Errno::EIO))
        }
        Err(errno) => listener.answer(id, Err(errno)),
    }
}

/// One call of a stopped thread, and what it returned. The filter lets it be made.
fn made(tid: i32, before: &Registers, call: &Call) -> Result<i64, Errno> {
    let mut registers = *before;
    registers.set_call_again(call);
    tracee::set_registers(tid, &registers)?;
    for _ in 0..2 {
        tracee::go_to_call(tid, 0)?;
        loop {
            match tracee::wait(tid) {
                Some((_, Stop::Call)) => break,
                None | Some((_, Stop::Gone)) => return Err(Errno::ESRCH),
                Some(_) => tracee::go_to_call(tid, 0)?,
            }
        }
    }
    tracee::registers(tid)?.returned()
}

/// As if the call had just returned this.
fn restore(tid: i32, mut before: Registers, result: Result<i64, Errno>, blocked: u64) {
    before.set_result(result);
    // An error: it was killed.
    let _ = tracee::set_registers(tid, &before);
    let _ = tracee::set_blocked(tid, blocked);
    let _ = tracee::detach(tid);
}
