//! Limits of a whole job (spec/policy, P50 to P55), kept from outside of it: by the kernel where it can, else by looking
//! and stopping. A [`Limiter`] belongs to whoever stands by the job, and is asked when it is [`Limiter::due`].
//! Not here: what the limits are (kumiko-policy), what becomes of a job that was over one (who stands by).

mod account;
mod balance;
mod bucket;
mod groups;
mod inside;
mod pace;
mod shares;
mod stop;
mod words;

pub use inside::Inside;
pub use words::{Kept, kept};

use account::Account;
use bucket::Bucket;
use groups::Groups;
use kumiko_linux::limits::group::Controller;
use kumiko_linux::limits::{bounds, tasks, usage};
use kumiko_policy::{Limited, Limits, MechanismKind, Network};
use pace::Pacer;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use stop::Stopped;

/// How often the job is looked at: a change of a limit, and a socket that is new, wait for as long at most.
const EVERY: Duration = Duration::from_millis(20);
/// Looking costs at most one part in so many of a processor: a job of thousands of processes is looked at less often.
const COST: u32 = 20;
/// No turn of a job that is stopped and let go on again and again is shorter: stopping takes a tenth of it.
const LEAST: Duration = Duration::from_millis(1);
/// How far a job may come to be over a rate before it is stopped, in time at the rate: a turn that is shorter would have
/// it stopped more often than it is worth.
const SLACK: Duration = Duration::from_millis(10);
/// Memory takes longer to look at, and to fill.
const MEMORY_EVERY: Duration = Duration::from_millis(100);
/// What a job that rested may use at once, of its rate. One that did not rest, but waited for others to leave it a
/// processor or the disk, looks the same: less would be taken from it where the machine is busy.
const REST: Duration = Duration::from_millis(500);

/// So much of what came too fast is made up for, in time at the rate: what a connection brings before it is found may be
/// minutes of a low rate, and is nothing that its job could help.
const MADE_UP: Duration = Duration::from_secs(2);

/// Of a limit's unit in what is counted: bytes, billionths of a processor.
const KBYTE: u64 = 1_000;
const CPU_PERCENT: u64 = 10_000_000;

/// A job was over a limit that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub limited: Limited,
    pub limit: u64,
    /// In the limit's unit.
    pub used: u64,
    /// It is a rate that the job was stopped for, and it went on.
    pub unheld: bool,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = Limits::words(self.limited, self.limit);
        match self.unheld {
            // How fast it was between two looks, which may be close together, says nothing.
            true => write!(
                f,
                "{limit}: it goes on when it is stopped for that (SIGCONT)"
            ),
            false => write!(f, "{limit}: it came to {}", self.used),
        }
    }
}

/// Stands by one job.
#[derive(Debug)]
pub struct Limiter {
    limits: Limits,
    /// The job is on the host's network: one of its own leads nowhere.
    network: bool,
    /// In a user namespace of its own there is a first process that is not the guest's.
    namespace: bool,
    /// Where the kernel keeps some of them for the whole job.
    groups: Groups,
    /// Processes that stand by the job with us, and are no part of it.
    helpers: BTreeSet<i32>,
    begun: Instant,
    due: Instant,
    last: Instant,
    memory_due: Instant,
    account: Account,
    cpu: Bucket,
    read: Bucket,
    written: Bucket,
    received: Bucket,
    pacer: Pacer,
    /// Where guests keep the network's rate themselves.
    inside: Option<Inside>,
    stopped: Stopped,
    bounded: BTreeSet<i32>,
}

impl Limiter {
    /// For a job whose guests have just been started: each is a process below this one.
    /// `inside`: as their room says.
    pub fn begin(
        limits: &Limits,
        network: Network,
        mechanism: &str,
        guests: &[i32],
        inside: Option<Inside>,
    ) -> Limiter {
        let now = Instant::now();
        let mut limiter = Limiter {
            limits: Limits::default(),
            network: network == Network::Host,
            namespace: mechanism == MechanismKind::Namespace.name(),
            groups: Groups::default(),
            helpers: helpers(guests),
            begun: now,
            due: now,
            last: now,
            memory_due: now,
            account: Account::default(),
            cpu: Bucket::new(REST, Duration::MAX),
            read: Bucket::new(REST, Duration::MAX),
            written: Bucket::new(REST, Duration::MAX),
            received: Bucket::new(REST, MADE_UP),
            pacer: Pacer::default(),
            inside,
            stopped: Stopped::default(),
            bounded: BTreeSet::new(),
        };
        limiter.set(limits);
        limiter
    }

    /// Other limits from now on.
    pub fn set(&mut self, limits: &Limits) {
        let rate = |kbyte_s: Option<u64>| kbyte_s.map(|rate| rate.saturating_mul(KBYTE));
        self.limits = limits.clone();
        self.bound_groups();
        let percent = limits.cpu_percent;
        self.cpu
            .set(percent.map(|percent| percent.saturating_mul(CPU_PERCENT)));
        self.read.set(rate(limits.disk_kbyte_s));
        self.written.set(rate(limits.disk_kbyte_s));
        if let Some(inside) = &self.inside {
            // Memory that is there: nothing to fail.
            let _ = inside.set(limits.network_kbyte_s);
        }
        let outside = self.network && self.inside.is_none();
        let network = limits.network_kbyte_s.filter(|_| outside);
        self.pacer.set(rate(network));
        self.received.set(rate(network));
        self.bounded.clear();
        self.due = Instant::now();
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When [`Limiter::tick`] is to be called; None: there is nothing to keep.
    pub fn due(&self) -> Option<Instant> {
        let idle = self.limits == Limits::default() && !self.stopped.is_on();
        (!idle || self.pacer.has_paced()).then_some(self.due)
    }

    /// Looks at the job and does what its limits ask for. Some: it was over one that ends it.
    /// `suspended`: somebody else has stopped it, so it is not to go on.
    pub fn tick(&mut self, now: Instant, suspended: bool) -> Option<Exceeded> {
        let passed = now.saturating_duration_since(self.last);
        let is_first = self.last == self.begun;
        self.last = now;
        let mut all = tasks_of(&self.helpers);
        self.bound(&all);
        if is_first {
            // Those that were started beside a group by whom was just put into it.
            all = tasks_of(&self.helpers);
            self.bound(&all);
        }
        // Not asked for again at the next look; the kernel takes its time to put a process into a group.
        let bounding = now.elapsed();
        let used = self.account.look(&all);
        // A group's quota knows nothing of what was used before it: that is made up for as where there is none.
        let cpu = match is_first || !self.groups.keep(Controller::Cpu) {
            true => used.cpu,
            false => Duration::ZERO,
        };
        let cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        self.cpu.pass(passed, cpu);
        self.read.pass(passed, used.read_bytes);
        self.written.pass(passed, used.written_bytes);
        let received = self.pacer.look(now, &all);
        self.received.pass(passed, received);
        let was_stopped = self.stopped.is_on();
        let over = self.over();
        if let Some(recovers) = over {
            let again = || tasks_of(&self.helpers);
            self.stopped.stop(&all, &self.account, recovers, again);
        } else if !suspended {
            self.stopped.go_on();
        }
        let exceeded = self.exceeded(now, &all);
        let cost = now.elapsed().saturating_sub(bounding);
        self.due = now + self.until_due(cost, over.is_some(), was_stopped);
        exceeded
    }

    /// What a job is stopped for.
    fn buckets(&self) -> [&Bucket; 4] {
        [&self.cpu, &self.read, &self.written, &self.received]
    }

    /// The job is over a rate; and, as it seems, uses next to nothing of what it is over.
    fn over(&self) -> Option<bool> {
        let all = self.buckets();
        let mut over = all.iter().filter(|bucket| bucket.is_over()).peekable();
        over.peek()?;
        Some(over.all(|bucket| bucket.recovers()))
    }

    /// Of a job that is over, when it may go on; of one that uses much, when it will be over.
    fn until_due(&self, cost: Duration, is_over: bool, was_stopped: bool) -> Duration {
        let turns = self
            .buckets()
            .into_iter()
            .filter(|bucket| bucket.is_over() == is_over)
            .filter_map(|bucket| bucket.turns(SLACK));
        let turn = match is_over {
            true => turns.max(),
            false => turns.min(),
        };
        let turn = turn.unwrap_or(EVERY).clamp(LEAST, EVERY);
        // A short turn after a stop costs little: the next stop is the longer for it.
        match was_stopped && !is_over {
            true => turn,
            false => turn.max(cost.saturating_mul(COST)),
        }
    }

    /// What the kernel keeps of the whole job in groups. It counts processes by account in a user namespace, but not those
    /// of root; else in a group.
    fn bound_groups(&mut self) {
        let by_account = self.namespace && !kumiko_linux::is_root();
        let processes = self.processes().filter(|_| !by_account);
        let memory = self.limits.memory_mib;
        let bounds = [
            (Controller::Processes, processes),
            (Controller::Cpu, self.limits.cpu_percent),
            (
                Controller::Memory,
                memory.map(|mib| mib.saturating_mul(1 << 20)),
            ),
            (
                Controller::Disk,
                self.limits
                    .disk_kbyte_s
                    .map(|rate| rate.saturating_mul(KBYTE)),
            ),
        ];
        for (controller, most) in bounds {
            self.groups.bound(controller, most);
        }
    }

    /// The namespace's own first process is counted with them.
    fn processes(&self) -> Option<u64> {
        let most = self.limits.processes?;
        Some(most.saturating_add(self.namespace.into()))
    }

    /// What the kernel keeps of each process, once.
    fn bound(&mut self, all: &[i32]) {
        let (open_files, processes) = (self.limits.open_files, self.processes());
        if open_files.is_none() && processes.is_none() && self.groups.is_empty() {
            return;
        }
        for pid in all {
            if !self.bounded.insert(*pid) {
                continue;
            }
            // It may have ended by now.
            if let Some(most) = open_files {
                let _ = bounds::open_files(*pid, most);
            }
            self.groups.add(*pid);
            if let Some(most) = processes {
                if self.namespace && !self.groups.keep(Controller::Processes) {
                    let _ = bounds::processes(*pid, most);
                }
            }
        }
        self.bounded.retain(|pid| all.contains(pid));
    }

    /// The kernel has ended a process of the job for its memory: all of it is over, as where we look ourselves. To be asked
    /// when a guest was killed, too, since there may be no further [`Limiter::tick`].
    pub fn killed(&self) -> Option<Exceeded> {
        let limit = self.limits.memory_mib?;
        (self.groups.ended_for_memory() > 0).then_some(Exceeded {
            limited: Limited::Memory,
            limit,
            used: limit,
            unheld: false,
        })
    }

    /// Stopping the job is in vain: there is no other way to keep its rates.
    fn unheld(&self) -> Option<Exceeded> {
        let rates = [
            (Limited::Cpu, &self.cpu, CPU_PERCENT),
            (Limited::Disk, &self.read, KBYTE),
            (Limited::Disk, &self.written, KBYTE),
            (Limited::Network, &self.received, KBYTE),
        ];
        let (limited, bucket, unit) = rates.into_iter().find(|(_, bucket, _)| bucket.is_over())?;
        let limit = self.limits.get(limited)?;
        self.stopped.is_in_vain().then(|| Exceeded {
            limited,
            limit,
            used: bucket.speed() / unit,
            unheld: true,
        })
    }

    fn exceeded(&mut self, now: Instant, all: &[i32]) -> Option<Exceeded> {
        if let Some(ended) = self.killed().or_else(|| self.unheld()) {
            return Some(ended);
        }
        let over = |limited: Limited, used: u64| {
            let limit = self.limits.get(limited)?;
            (used > limit).then_some(Exceeded {
                limited,
                limit,
                used,
                unheld: false,
            })
        };
        let total = self.account.total();
        let wall = now.saturating_duration_since(self.begun).as_secs();
        // A second has to be over to be one more than the limit, so what is reached is over.
        let reached = |limited: Limited, used: u64| over(limited, used.saturating_add(1));
        let first = reached(Limited::WallTime, wall)
            .map(|over| Exceeded { used: wall, ..over })
            .or_else(|| {
                let used = total.cpu.as_secs();
                let over = reached(Limited::CpuTime, used)?;
                Some(Exceeded { used, ..over })
            })
            .or_else(|| over(Limited::Written, total.written_bytes >> 20));
        if first.is_some() || now < self.memory_due {
            return first;
        }
        self.memory_due = now + MEMORY_EVERY;
        let limit = self.limits.memory_mib?;
        let used = memory_bytes(all, limit.saturating_mul(1 << 20))?;
        let used = used.div_ceil(1 << 20);
        (used > limit).then_some(Exceeded {
            limited: Limited::Memory,
            limit,
            used,
            unheld: false,
        })
    }
}

/// None: it is below the limit, whatever is shared.
fn memory_bytes(all: &[i32], limit_bytes: u64) -> Option<u64> {
    let sum = |of: fn(i32) -> std::io::Result<u64>| {
        all.iter()
            .filter_map(|pid| of(*pid).ok())
            .fold(0, u64::saturating_add)
    };
    match sum(usage::resident_bytes) > limit_bytes {
        true => Some(sum(usage::memory_bytes)),
        false => None,
    }
}

/// The processes of the job: those below this one that do not stand by it with us.
fn tasks_of(helpers: &BTreeSet<i32>) -> Vec<i32> {
    let mut all = tasks::below(own());
    all.retain(|pid| !helpers.contains(pid));
    all
}

fn own() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

/// Who stands by with us, at the start: processes of our own program that only such ones have started, but for guests.
/// Later none is added, whatever a guest executes.
fn helpers(guests: &[i32]) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let Ok(program) = tasks::program(own()) else {
        return found;
    };
    let mut next = vec![own()];
    while let Some(parent) = next.pop() {
        for pid in tasks::children(parent) {
            if !guests.contains(&pid) && tasks::program(pid).is_ok_and(|its| its == program) {
                found.insert(pid);
                next.push(pid);
            }
        }
    }
    found
}
