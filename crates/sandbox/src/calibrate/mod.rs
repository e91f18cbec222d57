//! Measuring what each mechanism costs on this machine (spec/policy, P80, P83): the same work bare and under each, in
//! turn, as often as the time allows; lower quartiles, and how far the times lie apart. To be called with one thread.
//!
//! Not in it: where the result is kept (profile/store.rs), what follows from it (kumiko-policy).

mod costs;
mod work;

use crate::choose::{choose, open};
use crate::contract::{Launch, Streams};
use crate::error::SandboxError;
use crate::guest::Ended;
use crate::machine::Machine;
use crate::profile::store::{DIGEST, kernel};
use costs::Samples;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::process;
use kumiko_policy::choice::{CROWD, Calibration, Profile};
use kumiko_policy::{MechanismKind, Policy};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use work::Work;

/// Rounds are begun for this long: with the last of them it stays within a minute.
pub const CALIBRATION_TIME: Duration = Duration::from_secs(45);
/// Rounds, each with all work under all mechanisms: with more the quartiles hardly move.
const MOST_ROUNDS: usize = 9;
/// Fewer say nothing of how far times lie apart.
const LEAST_ROUNDS: usize = 3;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    #[error("measuring {what}: {cause}")]
    Kernel { what: String, cause: io::Error },
    #[error("measuring {what}: {cause}")]
    Sandbox { what: String, cause: SandboxError },
    #[error("measuring {what}: the work ended with {ended:?}: is there a /bin/sh that is one?")]
    Work { what: String, ended: Ended },
    #[error("no mechanism is admitted on this machine: `kumiko sandbox probe` says why")]
    None,
}

/// Bare (None), or under a mechanism.
type Way = Option<MechanismKind>;

/// Measures every mechanism that the machine admits, with `folder` (writable, empty) as the job's own directory.
/// `told`: is told what share of it is done.
///
/// # Errors
/// The work could not be done under an admitted mechanism, or bare.
pub fn calibrate(
    machine: &Machine,
    folder: &Path,
    within: Duration,
    mut told: impl FnMut(f64),
) -> Result<Calibration, CalibrateError> {
    let kinds: Vec<MechanismKind> = MechanismKind::ALL
        .into_iter()
        .filter(|kind| *kind != MechanismKind::Auto && machine.admits(*kind).is_ok())
        .collect();
    if kinds.is_empty() {
        return Err(CalibrateError::None);
    }
    let kernel_said = |what: &str| {
        let what = what.to_owned();
        |cause| CalibrateError::Kernel { what, cause }
    };
    std::fs::write(folder.join("f"), "").map_err(kernel_said("with a file"))?;
    let bare = Bare::new(folder);
    let begun = Instant::now();
    let busy = Busy::now();
    let mut samples: BTreeMap<Way, Samples> = BTreeMap::new();
    let mut rounds = 0;
    while rounds < MOST_ROUNDS && (rounds < LEAST_ROUNDS || begun.elapsed() < within) {
        for work in Work::ALL {
            for way in std::iter::once(None).chain(kinds.iter().copied().map(Some)) {
                let (took, counted) = match way {
                    None => (bare.run(work)?, None),
                    Some(kind) => under(kind, folder, work)?,
                };
                samples.entry(way).or_default().add(work, took, counted);
            }
        }
        rounds += 1;
        let by_time = begun.elapsed().as_secs_f64() / within.as_secs_f64().max(0.001);
        told((rounds as f64 / MOST_ROUNDS as f64).max(by_time).min(1.0));
    }
    let none = Samples::default();
    let native = samples.get(&None).unwrap_or(&none);
    // Who counts every call tells what the work consists of, for those who do not.
    let counted = samples
        .values()
        .find_map(Samples::counted)
        .unwrap_or_default();
    let mechanisms = kinds.iter().filter_map(|kind| {
        let of = samples.get(&Some(*kind))?;
        Some((*kind, of.costs(native, &counted)))
    });
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Calibration {
        kernel: kernel(),
        program: DIGEST.to_owned(),
        measured_s: now.unwrap_or_default().as_secs(),
        rounds: rounds as u64,
        others_percent: busy.others_percent(),
        mechanisms: mechanisms.collect(),
        native: native.alone(),
    })
}

fn what(way: Way, work: Work) -> String {
    format!("{work:?} {}", way.map_or("bare", MechanismKind::name))
}

/// One run of the work in a room; and its calls, where all of them are counted.
fn under(
    kind: MechanismKind,
    folder: &Path,
    work: Work,
) -> Result<(Duration, Option<Profile>), CalibrateError> {
    let sandbox = |cause| CalibrateError::Sandbox {
        what: what(Some(kind), work),
        cause,
    };
    let kernel = |cause| CalibrateError::Kernel {
        what: what(Some(kind), work),
        cause,
    };
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(kernel)?;
    let script = work.script();
    let arguments: Vec<String> = script
        .into_iter()
        .flat_map(|s| ["-c".to_owned(), s])
        .collect();
    let launch = Launch {
        program: if arguments.is_empty() {
            "/bin/true"
        } else {
            "/bin/sh"
        },
        arguments: &arguments,
        environment: &[],
        directory: None,
        streams: Streams::Given {
            stdin: null.as_fd(),
            stdout: null.as_fd(),
            stderr: null.as_fd(),
        },
    };
    let policy = Policy::default();
    let begun = Instant::now();
    let choice = choose(&policy, Some(kind.name()), &Machine::assume()).map_err(sandbox)?;
    let mut room = open(&choice).prepare(&policy, folder).map_err(sandbox)?;
    let mut guest = room.start(&launch).map_err(sandbox)?;
    let poll = Poll::new().map_err(kernel)?;
    poll.add(guest.pidfd(), 0, Interest::Read).map_err(kernel)?;
    let ended = loop {
        match guest.try_wait() {
            Some(ended) => break ended,
            None => poll.wait::<1>(None).map(drop).map_err(kernel)?,
        }
    };
    let took = begun.elapsed();
    match ended {
        Ended::Exited(0) => Ok((took, room.cost().profile)),
        ended => Err(CalibrateError::Work {
            what: what(Some(kind), work),
            ended,
        }),
    }
}

/// The work without a sandbox. What it names lies in a folder of ours instead of in the guest's own.
struct Bare<'a> {
    folder: &'a Path,
}

impl<'a> Bare<'a> {
    fn new(folder: &'a Path) -> Bare<'a> {
        Bare { folder }
    }

    fn run(&self, work: Work) -> Result<Duration, CalibrateError> {
        let kernel = |cause| CalibrateError::Kernel {
            what: what(None, work),
            cause,
        };
        let mut command = match work.script() {
            None => Command::new("/bin/true"),
            Some(script) => {
                let mut sh = Command::new("/bin/sh");
                let file = self.folder.join("f").display().to_string();
                // By a parameter: whatever characters the path has, none is the shell's.
                let script = script.replace("/job/f", "\"$f\"");
                sh.env("f", file).arg("-c").arg(script);
                sh
            }
        };
        process::end_with_parent(&mut command);
        command.env("PATH", crate::PATH);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let begun = Instant::now();
        let status = command.status().map_err(kernel)?;
        let took = begun.elapsed();
        match status.success() {
            true => Ok(took),
            false => Err(CalibrateError::Work {
                what: what(None, work),
                ended: Ended::Exited(status.code().unwrap_or(-1)),
            }),
        }
    }
}

/// What all processors did, from /proc/stat, in clock ticks (proc(5)).
#[derive(Clone, Copy, Default)]
struct Ticks {
    busy: u64,
    all: u64,
    own: u64,
}

struct Busy(Ticks);

impl Busy {
    fn now() -> Busy {
        Busy(ticks())
    }

    /// What was done beside us: all that was done, less what we and our children did.
    fn others_percent(&self) -> u64 {
        let (now, then) = (ticks(), self.0);
        let busy = now.busy.saturating_sub(then.busy);
        let others = busy.saturating_sub(now.own.saturating_sub(then.own));
        let all = now.all.saturating_sub(then.all).max(1);
        (others * 100 / all).min(100)
    }
}

fn ticks() -> Ticks {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = first
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest and guest_nice are in user and nice.
    let all: u64 = numbers.iter().take(8).sum();
    let idle: u64 = numbers.iter().skip(3).take(2).sum();
    let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = own.rsplit_once(')').map_or("", |(_, rest)| rest);
    // utime stime cutime cstime: fields 14 to 17, of which the third is the first here.
    let own = after_name.split_ascii_whitespace().skip(11).take(4);
    Ticks {
        busy: all.saturating_sub(idle),
        all,
        own: own.filter_map(|word| word.parse::<u64>().ok()).sum(),
    }
}
