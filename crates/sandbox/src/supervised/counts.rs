//! What a supervisor counts of its guests' work (spec/policy, P81): what the choice of a mechanism is made by, and what the
//! record of a job says. Not in it: what follows from it (kumiko-policy).

use super::serve::nr;
use kumiko_linux::supervise::Call;
use kumiko_linux::supervise::counters::Counters;
use kumiko_policy::choice::{Known, Profile};
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

const OPENS: usize = 0;
const LOOKS: usize = 1;
const ANSWERS: usize = 2;
const PROCESSES: usize = 3;
const EXECS: usize = 4;
/// Callers among [`RECENT`] calls, added up over samples, and how many samples.
const CALLERS: usize = 5;
const SAMPLES: usize = 6;
const CALLS: usize = 7;

/// By how many calls it is seen how many processes call at once: as many as a crowd has.
const RECENT: usize = kumiko_policy::choice::CROWD as usize;
/// Every so many calls it is looked who called.
const STRIDE: u64 = 8;

/// Shared by who has the room and its supervisor.
#[derive(Debug)]
pub(super) struct Counts {
    shared: Counters,
    /// Of the supervisor alone.
    recent: [AtomicI32; RECENT],
}

impl Counts {
    pub(super) fn new() -> io::Result<Counts> {
        Ok(Counts {
            shared: Counters::new()?,
            recent: Default::default(),
        })
    }

    /// A call that is answered, of this thread.
    pub(super) fn call(&self, tid: i32, call: &Call) {
        self.shared.add(kind(call), 1);
        let number = self.shared.add(CALLS, 1);
        let slot = self.recent.get((number % RECENT as u64) as usize);
        slot.inspect(|slot| slot.store(tid, Ordering::Relaxed));
        if number % STRIDE == STRIDE - 1 && number >= RECENT as u64 - 1 {
            let mut callers = [0; RECENT];
            for (caller, recent) in callers.iter_mut().zip(&self.recent) {
                *caller = recent.load(Ordering::Relaxed);
            }
            callers.sort_unstable();
            let changes = callers.windows(2).filter(|pair| pair[0] != pair[1]).count();
            self.shared.add(CALLERS, changes as u64 + 1);
            self.shared.add(SAMPLES, 1);
        }
    }

    /// A process that a guest made.
    pub(super) fn process(&self) {
        self.shared.add(PROCESSES, 1);
    }

    pub(super) fn answered(&self) -> u64 {
        self.shared.get(CALLS)
    }

    /// What was counted so far. `processes`: were they told of?
    pub(super) fn profile(&self, processes: bool) -> Profile {
        let get = |which| self.shared.get(which);
        let execs = get(EXECS);
        Profile {
            known: Known::Counted,
            opens: get(OPENS),
            looks: get(LOOKS),
            answers: get(ANSWERS),
            // Most programs are executed by a process that was made for them.
            processes: if processes { get(PROCESSES) } else { execs },
            execs,
            at_once: match get(SAMPLES) {
                0 => 1,
                samples => (get(CALLERS) + samples / 2) / samples,
            },
            ..Profile::default()
        }
    }
}

/// O_ACCMODE, O_CREAT, O_TRUNC and O_PATH: who asks for none of them opens to read.
const MORE_THAN_READ: u64 = 0o3 | 0o100 | 0o1000 | 0o10_000_000;

/// What a call is charged as: as `library` answers it or not.
fn kind(call: &Call) -> usize {
    let opened = |flags: usize| match call.arguments.get(flags) {
        Some(flags) if flags & MORE_THAN_READ == 0 => OPENS,
        _ => ANSWERS,
    };
    match call.number {
        nr::OPEN => opened(1),
        nr::OPENAT => opened(2),
        nr::STAT
        | nr::LSTAT
        | nr::NEWFSTATAT
        | nr::STATX
        | nr::ACCESS
        | nr::FACCESSAT
        | nr::FACCESSAT2
        | nr::READLINK
        | nr::READLINKAT => LOOKS,
        nr::EXECVE | nr::EXECVEAT => EXECS,
        _ => ANSWERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i32, arguments: [u64; 6]) -> Call {
        Call { number, arguments }
    }

    #[test]
    fn calls_are_charged_as_what_they_ask_for() {
        let check = |number: i32, arguments: [u64; 6], expected: usize| {
            assert_eq!(
                kind(&call(number, arguments)),
                expected,
                "{number} {arguments:?}"
            );
        };
        check(nr::OPENAT, [0, 0, 0o2_000_000, 0, 0, 0], OPENS); // O_CLOEXEC
        check(nr::OPENAT, [0, 0, 0o101, 0o600, 0, 0], ANSWERS);
        check(nr::OPEN, [0, 0o1000, 0, 0, 0, 0], ANSWERS);
        check(nr::OPEN, [0, 0, 0o101, 0, 0, 0], OPENS);
        check(nr::CREAT, [0; 6], ANSWERS);
        check(nr::STATX, [0; 6], LOOKS);
        check(nr::EXECVE, [0; 6], EXECS);
        check(nr::CONNECT, [0; 6], ANSWERS);
    }

    #[test]
    fn how_many_call_at_once_is_seen_by_who_called_last() {
        let check = |callers: &[i32], expected: u64| {
            let counts = Counts::new().unwrap();
            for at in 0..400 {
                counts.call(callers[at % callers.len()], &call(nr::STAT, [0; 6]));
            }
            let profile = counts.profile(true);
            assert_eq!((profile.at_once, profile.looks), (expected, 400));
            assert_eq!(counts.answered(), 400);
        };
        check(&[7], 1);
        check(&[7, 8, 9], 3);
        let crowd: Vec<i32> = (1..=40).collect();
        check(&crowd, 16);
        let empty = Counts::new().unwrap().profile(true);
        assert_eq!((empty.at_once, empty.named()), (1, 0));
    }
}
