//! The row of processors: 1 to 16 processes that want all of them, under one share for the job; beside the quota of the
//! kernel's control groups (version 1), where this account may make one.

use super::Options;
use super::place::{Keeper, Place};
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const GUEST_S: &str = "6";

pub fn cpu(place: &Place, options: &Options) -> Row {
    const SHARES: [(&str, &str, &str, f64); 4] = [
        ("1 process, 50 %", "1", "cpu=50%", 50.0),
        ("4 processes, 50 %", "4", "cpu=50%", 50.0),
        ("16 processes, 50 %", "16", "cpu=50%", 50.0),
        ("4 processes, 10 %", "4", "cpu=10%", 10.0),
    ];
    let goals = SHARES.map(|(ours, _, _, percent)| Goal {
        text: "± 3 points",
        ours,
        reach: Reach::Within {
            of: percent,
            by: 3.0,
        },
    });
    let mut row = Row::new("cpu", "Share of processors of a whole job, %", goals.into());
    let burn = move |keeper, limit, processes| {
        Place::figure(&mut place.guest(keeper, limit, &["burn", processes, GUEST_S]))
    };
    let mut contenders: Vec<Contender<'_>> = SHARES
        .into_iter()
        .map(|(name, processes, limit, _)| {
            Contender::new(name, Unit::Plain, move || {
                burn(Keeper::Ours("namespace"), Some(limit), processes)
            })
        })
        .collect();
    contenders.push(Contender::new(
        "4 processes, no limit",
        Unit::Plain,
        move || burn(Keeper::Native, None, "4"),
    ));
    match Quota::new() {
        Ok(quota) => contenders.push(Contender::new(
            "4 processes, 50 %, cfs_quota",
            Unit::Plain,
            move || {
                Place::figure(&mut quota.hold(&place.guest(
                    Keeper::Native,
                    None,
                    &["burn", "4", GUEST_S],
                )))
            },
        )),
        Err(failure) => row.lacks(Some("4 processes, 50 %, cfs_quota"), &failure),
    }
    rounds::take_long(&mut row, options.rounds(5), contenders);
    row.note("Processor time of all processes over wall time, as their parent was told.");
    row
}

/// A control group of half a processor, for the time of the row.
struct Quota(PathBuf);

impl Quota {
    fn new() -> Result<Quota, Failure> {
        let base = Path::new("/sys/fs/cgroup/cpu");
        let path = base.join(format!("kumiko-bench-{}", std::process::id()));
        fs::create_dir(&path).doing(|| format!("making {}", path.display()))?;
        let quota = Quota(path);
        for (name, value) in [("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "5000")] {
            let path = quota.0.join(name);
            fs::write(&path, value).doing(|| format!("writing {}", path.display()))?;
        }
        Ok(quota)
    }

    fn hold(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        let procs = self.0.join("cgroup.procs");
        shell.args(["-c", "echo 0 >\"$0\"; exec \"$@\""]);
        shell
            .arg(procs)
            .arg(command.get_program())
            .args(command.get_args());
        shell
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Left only if something lives in it still.
        let _ = fs::remove_dir(&self.0);
    }
}
