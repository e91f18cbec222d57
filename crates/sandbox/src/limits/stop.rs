//! Stopping a job for a moment and letting it go on (SIGSTOP, SIGCONT), so that its own shells see nothing of it: parents
//! are stopped before their children and go on after them, so that none waits for one that is stopped (wait(2),
//! WUNTRACED). What was stopped before is left alone.

use kumiko_linux::limits::usage;
use kumiko_linux::process;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// A job that starts processes as fast as they are stopped is let go for this turn after so many rounds.
const ROUNDS: usize = 3;

/// Whom we have stopped, in the order in which it was done.
#[derive(Debug, Default)]
pub struct Stopped {
    order: Vec<(i32, OwnedFd)>,
    /// Those of others: not ours to let go on.
    left_alone: BTreeSet<i32>,
}

impl Stopped {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// `all`: parents before their children. `again` tells them anew: some may have been started meanwhile.
    pub fn stop(&mut self, all: &[i32], again: impl Fn() -> Vec<i32>) {
        let mut all = all.to_vec();
        for _ in 0..ROUNDS {
            let before = self.order.len();
            for pid in &all {
                self.stop_one(*pid);
            }
            if self.order.len() == before {
                return;
            }
            all = again();
        }
    }

    fn stop_one(&mut self, pid: i32) {
        if self.order.iter().any(|(known, _)| *known == pid) || self.left_alone.contains(&pid) {
            return;
        }
        // By descriptor, so that it is this process that is stopped and let go on, whatever number it has later.
        let Ok(pidfd) = process::pidfd(pid) else {
            return;
        };
        match usage::cpu(pid) {
            Ok(cpu) if cpu.stopped => {
                self.left_alone.insert(pid);
            }
            Ok(cpu) if !cpu.zombie && process::signal(pidfd.as_fd(), SIGSTOP).is_ok() => {
                self.order.push((pid, pidfd));
            }
            _ => {}
        }
    }

    pub fn go_on(&mut self) {
        for (_, pidfd) in self.order.drain(..).rev() {
            let _ = process::signal(pidfd.as_fd(), SIGCONT); // it may have ended
        }
        self.left_alone.clear();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.go_on();
    }
}
