//! What a job has used in all, though its processes come and go: a process that ends leaves what it used to who waits for
//! it. What nobody waited for (orphans), and used since it was last looked at, is lost.

use kumiko_linux::limits::usage::{self, Blocks, Cpu};
use std::collections::BTreeMap;
use std::time::Duration;

/// Used, of all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub cpu: Duration,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// What one process had told when it was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub cpu: Cpu,
    blocks: Blocks,
}

#[derive(Debug, Default)]
pub struct Account {
    tasks: BTreeMap<i32, Told>,
    total: Used,
}

impl Account {
    /// Since the last look.
    pub fn look(&mut self, all: &[i32]) -> Used {
        let told = all.iter().filter_map(|pid| {
            let cpu = usage::cpu(*pid).ok()?;
            let told = Told {
                cpu,
                // A process that has ended, and is not waited for, tells no more.
                blocks: usage::blocks(*pid).unwrap_or_default(),
            };
            Some((*pid, told))
        });
        self.add(told.collect())
    }

    pub fn total(&self) -> Used {
        self.total
    }

    /// Of one that was there at the last look.
    pub fn told(&self, pid: i32) -> Option<&Told> {
        self.tasks.get(&pid)
    }

    fn add(&mut self, now: BTreeMap<i32, Told>) -> Used {
        let mut used = Used::default();
        let (mut waited, mut gone) = (Duration::ZERO, Duration::ZERO);
        let (mut read, mut written) = (0_u64, 0_u64);
        for (pid, told) in &now {
            let before = self.tasks.get(pid).copied().unwrap_or_default();
            used.cpu += told.cpu.own.saturating_sub(before.cpu.own);
            waited += told.cpu.waited_for.saturating_sub(before.cpu.waited_for);
            read += told
                .blocks
                .read_bytes
                .saturating_sub(before.blocks.read_bytes);
            written += told
                .blocks
                .written_bytes
                .saturating_sub(before.blocks.written_bytes);
        }
        let (mut gone_read, mut gone_written) = (0_u64, 0_u64);
        for (pid, told) in &self.tasks {
            if !now.contains_key(pid) {
                gone += told.cpu.own + told.cpu.waited_for;
                gone_read += told.blocks.read_bytes;
                gone_written += told.blocks.written_bytes;
            }
        }
        // What was waited for holds what those that are gone had told before: it is counted already.
        used.cpu += waited.saturating_sub(gone);
        used.read_bytes = read.saturating_sub(gone_read);
        used.written_bytes = written.saturating_sub(gone_written);
        self.tasks = now;
        self.total.cpu += used.cpu;
        self.total.read_bytes = self.total.read_bytes.saturating_add(used.read_bytes);
        self.total.written_bytes = self.total.written_bytes.saturating_add(used.written_bytes);
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(own_ms: u64, waited_ms: u64, written_bytes: u64) -> Told {
        Told {
            cpu: Cpu {
                own: Duration::from_millis(own_ms),
                waited_for: Duration::from_millis(waited_ms),
                ..Cpu::default()
            },
            blocks: Blocks {
                read_bytes: 0,
                written_bytes,
            },
        }
    }

    #[test]
    fn what_processes_used_is_counted_once() {
        let mut account = Account::default();
        let mut check = |now: &[(i32, Told)], cpu_ms: u64, written: u64| {
            account.add(now.iter().copied().collect());
            let total = account.total();
            assert_eq!(
                (total.cpu.as_millis() as u64, total.written_bytes),
                (cpu_ms, written)
            );
        };
        check(&[(1, told(10, 0, 5))], 10, 5);
        check(&[(1, told(12, 0, 5)), (2, told(30, 0, 100))], 42, 105);
        // 2 used 5 more, ended and was waited for.
        check(&[(1, told(12, 35, 110))], 47, 110);
        // 3 came and went between two looks.
        check(&[(1, told(12, 75, 150))], 87, 150);
        // 4 is waited for by nobody.
        check(&[(1, told(12, 75, 150)), (4, told(7, 0, 9))], 94, 159);
        check(&[(1, told(13, 75, 150))], 95, 159);
        check(&[], 95, 159);
    }
}
