//! Threads that are traced (ptrace(2)): stopped, looked at, sent on another way. All of it from the one thread that
//! seized them. x86_64 alone: registers are its own.

use super::Call;
use super::errno::{Errno, check};
use std::ffi::c_void;

/// Why a traced thread stands still, or that it does not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before a call that the filter wants looked at.
    Filtered,
    /// Before or after a call, when it was sent on with [`go_to_call`].
    Call,
    /// It started a process or thread, of this number.
    Started(i32),
    /// It executes another program; the number that it had before, when it was not the first thread.
    Executed(i32),
    /// It was stopped by us, or is new.
    Halted,
    /// Its whole process is stopped by a signal.
    Group,
    /// A signal is about to reach it.
    Signal(i32),
    Gone,
}

/// A guest dies with its tracer, and tells of all that it starts.
const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP;

/// Registers of a stopped thread.
#[derive(Clone, Copy, Debug)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    pub fn call(&self) -> Call {
        let r = &self.0;
        Call {
            number: r.orig_rax as i32,
            arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
        }
    }

    /// Another call in its place; at a stop before the call.
    pub fn set_call(&mut self, call: &Call) {
        self.0.orig_rax = call.number as u64;
        let r = &mut self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = call.arguments;
    }

    /// As [`Registers::set_call`], at a stop that is not in a call: the instruction before, which made the call that was
    /// given up, is executed again.
    pub fn set_call_again(&mut self, call: &Call) {
        /// Length of the instruction `syscall`.
        const INSTRUCTION_BYTES: u64 = 2;
        self.set_call(call);
        self.0.orig_rax = u64::MAX; // nothing for the kernel to restart
        self.0.rax = call.number as u64;
        self.0.rip = self.0.rip.wrapping_sub(INSTRUCTION_BYTES);
    }

    /// The call is not made and returns this; at a stop before it.
    pub fn set_result(&mut self, result: Result<i64, Errno>) {
        self.0.orig_rax = u64::MAX;
        self.set_returned(result);
    }

    /// What the call returned; at a stop after it.
    pub fn set_returned(&mut self, result: Result<i64, Errno>) {
        self.0.rax = match result {
            Ok(value) => value as u64,
            Err(Errno(errno)) => (-i64::from(errno)) as u64,
        };
    }

    pub fn returned(&self) -> Result<i64, Errno> {
        match self.0.rax as i64 {
            value @ -4095..=-1 => Err(Errno(-value as i32)),
            value => Ok(value),
        }
    }

    /// See [`super::stub::Stub`]: the old argument and the old way on are left where a call leaves nothing of use.
    pub(super) fn set_argument_and_way_back(&mut self, second: bool, value: u64, way: u64) {
        let r = &mut self.0;
        let argument = if second { &mut r.rsi } else { &mut r.rdi };
        r.r11 = std::mem::replace(argument, value);
        r.rcx = std::mem::replace(&mut r.rip, way);
    }

    /// Where it goes on.
    pub fn instruction(&self) -> u64 {
        self.0.rip
    }

    pub(super) fn set_instruction(&mut self, at: u64) {
        self.0.rip = at;
    }

    /// Does it execute code of 64 bits?
    pub fn is_wide(&self) -> bool {
        /// __USER_CS.
        const WIDE: u64 = 0x33;
        self.0.cs == WIDE
    }

    /// Below what the thread uses of its stack, the red zone included, room for this much; aligned.
    pub fn scratch(&self, bytes: usize) -> u64 {
        const RED_ZONE: u64 = 128;
        self.0.rsp.wrapping_sub(RED_ZONE + bytes as u64) & !63
    }
}

fn request(
    what: libc::c_uint,
    tid: i32,
    address: *mut c_void,
    data: *mut c_void,
) -> Result<i64, Errno> {
    // SAFETY: only this module calls it: with numbers, or with live locals of the type that the request fills or reads.
    check(unsafe { libc::ptrace(what, tid, address, data) })
}

fn number(what: libc::c_uint, tid: i32, number: i64) -> Result<(), Errno> {
    request(what, tid, std::ptr::null_mut(), number as *mut c_void).map(drop)
}

/// Begins to trace a thread, and all that it starts from now on.
pub fn seize(tid: i32) -> Result<(), Errno> {
    number(libc::PTRACE_SEIZE, tid, OPTIONS.into())
}

/// As [`seize`], of this thread alone and for a moment: those that it starts are not traced.
pub fn seize_alone(tid: i32) -> Result<(), Errno> {
    number(
        libc::PTRACE_SEIZE,
        tid,
        (libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC).into(),
    )
}

/// Asks a running thread to halt.
pub fn interrupt(tid: i32) -> Result<(), Errno> {
    number(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Lets a thread run, with this signal if not 0.
pub fn go(tid: i32, signal: i32) -> Result<(), Errno> {
    number(libc::PTRACE_CONT, tid, signal.into())
}

/// As [`go`], to the next beginning or end of a call.
pub fn go_to_call(tid: i32, signal: i32) -> Result<(), Errno> {
    number(libc::PTRACE_SYSCALL, tid, signal.into())
}

/// Leaves a thread stopped with its process, and hears when that ends.
pub fn listen(tid: i32) -> Result<(), Errno> {
    number(libc::PTRACE_LISTEN, tid, 0)
}

pub fn detach(tid: i32) -> Result<(), Errno> {
    number(libc::PTRACE_DETACH, tid, 0)
}

pub fn registers(tid: i32) -> Result<Registers, Errno> {
    // SAFETY: all zeros are registers; the kernel overwrites them.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(
        libc::PTRACE_GETREGS,
        tid,
        std::ptr::null_mut(),
        (&raw mut registers).cast(),
    )?;
    Ok(Registers(registers))
}

pub fn set_registers(tid: i32, registers: &Registers) -> Result<(), Errno> {
    let mut registers = registers.0;
    request(
        libc::PTRACE_SETREGS,
        tid,
        std::ptr::null_mut(),
        (&raw mut registers).cast(),
    )
    .map(drop)
}

/// Writes a word into a traced program, over what it may not write itself as well.
pub(super) fn poke(tid: i32, at: u64, word: u64) -> Result<(), Errno> {
    let (at, word) = (at as *mut c_void, word as *mut c_void);
    request(libc::PTRACE_POKEDATA, tid, at, word).map(drop)
}

/// Bytes of the kernel's sigset_t.
const SET_BYTES: usize = 8;

/// Which signals the thread has blocked, a bit each.
pub fn blocked(tid: i32) -> Result<u64, Errno> {
    let mut set = 0u64;
    request(
        libc::PTRACE_GETSIGMASK,
        tid,
        SET_BYTES as *mut c_void,
        (&raw mut set).cast(),
    )?;
    Ok(set)
}

pub fn set_blocked(tid: i32, mut set: u64) -> Result<(), Errno> {
    request(
        libc::PTRACE_SETSIGMASK,
        tid,
        SET_BYTES as *mut c_void,
        (&raw mut set).cast(),
    )
    .map(drop)
}

/// Lets a stopped thread go. One that was killed meanwhile is waited for: its parent hears of its end only after us.
pub fn let_go(tid: i32) {
    while detach(tid).is_err() {
        match wait(tid) {
            None | Some((_, Stop::Gone)) => return,
            Some(_) => {}
        }
    }
}

/// Is there something to be told of a traced thread? It is still told afterwards.
pub fn is_told_of(tid: i32) -> bool {
    let options = libc::WNOHANG | libc::WNOWAIT | libc::WEXITED | libc::WSTOPPED | libc::__WALL;
    // SAFETY: all zeros is a siginfo, which the kernel overwrites; it is a live local.
    let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let done = unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, &raw mut told, options) };
    // SAFETY: zero until the kernel says otherwise. An error: it is not ours any more.
    done < 0 || unsafe { told.si_pid() } != 0
}

/// Waits for a traced thread (-1: any of this thread's) to stop or end; None: there is none.
pub fn wait(tid: i32) -> Option<(i32, Stop)> {
    loop {
        match wait_once(tid) {
            Ok(stopped) => return Some(stopped),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// As [`wait`]; EINTR: the waiting was broken off ([`super::breakable::Waiting`]).
pub fn wait_once(tid: i32) -> Result<(i32, Stop), Errno> {
    let mut status = 0;
    // SAFETY: a live local. Threads and children of clone are told of too, those of other threads of ours are not.
    let tid = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    check(tid.into()).map(|_| (tid, told(tid, status)))
}

fn told(tid: i32, status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Gone;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_SECCOMP => Stop::Filtered,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Stop::Started(message(tid))
        }
        libc::PTRACE_EVENT_EXEC => Stop::Executed(message(tid)),
        libc::PTRACE_EVENT_STOP => match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Stop::Group,
            _ => Stop::Halted,
        },
        _ => Stop::Halted,
    }
}

fn message(tid: i32) -> i32 {
    let mut message: libc::c_ulong = 0;
    let asked = request(
        libc::PTRACE_GETEVENTMSG,
        tid,
        std::ptr::null_mut(),
        (&raw mut message).cast(),
    );
    asked.map_or(0, |_| message as i32)
}
