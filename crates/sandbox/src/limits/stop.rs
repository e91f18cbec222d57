//! Stopping a job for a moment and letting it go on (SIGSTOP, SIGCONT), so that its own shells see nothing of it: parents
//! are stopped before their children and go on after them, so that none waits for one that is stopped (wait(2),
//! WUNTRACED). What others have stopped is left alone. So is one that would hear of it, as long as the job recovers all
//! the same: launchers of MPI pass SIGCONT on to their ranks, and say so.

use super::account::{Account, Told};
use kumiko_linux::limits::{tasks, usage};
use kumiko_linux::process;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// A job that starts processes as fast as they are stopped is let go for this turn after so many rounds.
const ROUNDS: usize = 3;
/// Who is to be spared is looked for among so many: a launcher was started before what it launches.
const LAUNCHERS: usize = 8;
/// What a launcher uses, at most, before it waits.
const BEGINNING: Duration = Duration::from_millis(100);
/// A job that was let go on so often within one stop, by whom if not itself, is not to be held by stopping it.
const LET_GO: u32 = 50;

/// Whom we have stopped, in the order in which it was done.
#[derive(Debug, Default)]
pub struct Stopped {
    /// How often the job was looked at since it was stopped, that one counted; none: it is not.
    looks: u32,
    order: Vec<(i32, OwnedFd)>,
    spared: Option<i32>,
    /// At how many looks one was found going on.
    let_go: u32,
}

impl Stopped {
    pub fn is_on(&self) -> bool {
        self.looks > 0
    }

    /// Is this a job that goes on, whatever is done?
    pub fn is_in_vain(&self) -> bool {
        self.let_go > LET_GO
    }

    /// `all`: parents before their children, as they were looked at just now. `again` tells them anew: some may have been
    /// started meanwhile. `recovers`: what the job used since the last look is next to nothing.
    pub fn stop(
        &mut self,
        all: &[i32],
        looked: &Account,
        recovers: bool,
        again: impl Fn() -> Vec<i32>,
    ) {
        if self.is_on() {
            // Up to the first look the job was not stopped all the time: that took a while.
            self.spared.take_if(|_| !recovers && self.looks > 1);
            self.let_go += u32::from(self.stop_again(looked));
        } else {
            self.spared = launcher(all, looked);
        }
        self.looks = self.looks.saturating_add(1);
        let mut all = all.to_vec();
        for _ in 0..ROUNDS {
            let before = self.order.len();
            for pid in &all {
                self.stop_one(*pid, looked.told(*pid));
            }
            if self.order.len() == before {
                return;
            }
            all = again();
        }
    }

    fn stop_one(&mut self, pid: i32, looked: Option<&Told>) {
        if self.spared == Some(pid) || self.order.iter().any(|(known, _)| *known == pid) {
            return;
        }
        // By descriptor, so that it is this process that is stopped and let go on, whatever number it has later.
        let Ok(pidfd) = process::pidfd(pid) else {
            return;
        };
        let cpu = looked.map_or_else(|| usage::cpu(pid), |told| Ok(told.cpu));
        let runs = cpu.is_ok_and(|cpu| !cpu.stopped && !cpu.zombie);
        if runs && process::signal(pidfd.as_fd(), SIGSTOP).is_ok() {
            self.order.push((pid, pidfd));
        }
    }

    /// Those that go on although they were stopped: a process may have SIGCONT sent to it by a timer of its own, and by
    /// whom we spare. Was there one?
    fn stop_again(&self, looked: &Account) -> bool {
        let mut found = false;
        for (pid, pidfd) in &self.order {
            let is_up = |told: &Told| !told.cpu.stopped && !told.cpu.zombie;
            if looked.told(*pid).is_some_and(is_up) && tasks::goes_on(*pid) {
                found = true;
                let _ = process::signal(pidfd.as_fd(), SIGSTOP); // it may have ended
            }
        }
        found
    }

    pub fn go_on(&mut self) {
        for (_, pidfd) in self.order.drain(..).rev() {
            let _ = process::signal(pidfd.as_fd(), SIGCONT); // it may have ended
        }
        (self.looks, self.spared, self.let_go) = (0, None, 0);
    }
}

/// One that has a handler for SIGCONT and waits, or is about to.
fn launcher(all: &[i32], looked: &Account) -> Option<i32> {
    let mut first = all.iter().copied().take(LAUNCHERS);
    first.find(|pid| {
        let told = looked.told(*pid).map(|told| told.cpu);
        let waits = told.is_some_and(|cpu| cpu.sleeps || cpu.own < BEGINNING);
        waits && tasks::catches(*pid, SIGCONT)
    })
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.go_on();
    }
}
