//! Paper 001's table 1: kernels without the library, and with its checkpoints.

use super::{compiled, files, folder};
use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::mpi::own_s;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::{Unit, median_within, pairs};
use crate::wait;
use std::path::Path;
use std::process::Command;

const WITHOUT: &str = "without the library";
const WITH: &str = "with checkpoints";

struct Kernel {
    name: &'static str,
    goal: &'static str,
    /// Of its largest class.
    words: &'static [&'static str],
    /// By how much it was slower there, and its programs' sizes.
    paper: &'static str,
}

/// Each of the paper's kernels. IS has so much memory that its first checkpoint is due after half a minute: it has as many rounds as that takes.
const KERNELS: [Kernel; 5] = [
    Kernel {
        name: "cg",
        goal: "CG: ≤ 1.02 × without",
        words: &["A"],
        paper: "+1.29 %, 88.9 and 2834.8 KB",
    },
    Kernel {
        name: "ep",
        goal: "EP: ≤ 1.02 × without",
        words: &["A"],
        paper: "+3.07 %, 60.6 and 2809.1 KB",
    },
    Kernel {
        name: "is",
        goal: "IS: ≤ 1.02 × without",
        words: &["A", "70"],
        paper: "−0.44 %, 30.6 and 2765.7 KB",
    },
    Kernel {
        name: "lu",
        goal: "LU: ≤ 1.02 × without",
        words: &["A"],
        paper: "−19.69 %, 146.4 and 2887.5 KB",
    },
    Kernel {
        name: "sp",
        goal: "SP: ≤ 1.02 × without",
        words: &["A"],
        paper: "−2.56 %, 152.4 and 2893.5 KB",
    },
];

/// The compiler of an MPI library that lets one rank run without its launcher.
const COMPILER: &str = "mpicc.mpich";

/// A kernel's own seconds.
fn seconds(program: &Path, words: &[&str], checkpoints: Option<&Path>) -> Result<f64, Failure> {
    let mut command = Command::new(program);
    command.args(words);
    command.envs(checkpoints.map(|folder| ("KUMIKO_CHECKPOINT", folder)));
    let output = wait::output(&mut command, wait::SAMPLE_WITHIN)?;
    own_s(&String::from_utf8_lossy(&output.stdout))
}

fn bytes(path: &Path) -> Result<f64, Failure> {
    let about = std::fs::metadata(path).doing(|| format!("looking at {}", path.display()))?;
    Ok(about.len() as f64)
}

pub fn kernels(bench: &Bench) -> Row {
    let goals = KERNELS.map(|kernel| Goal {
        text: kernel.goal,
        ours: kernel.name,
        reach: Reach::AtMost { limit: 1.02 },
    });
    let title = "Paper 001, table 1: kernels with checkpoints, × those without the library";
    let row = Row::new("kernels", title, goals.into());
    or_missing(row, |row| {
        let folder = folder()?;
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/mpi");
        for Kernel {
            name, words, paper, ..
        } in KERNELS
        {
            let source = examples.join(format!("{name}.c"));
            let plain = folder.path().join(name);
            let linked = folder.path().join(format!("{name}-linked"));
            compiled(COMPILER, &source, &plain, false)?;
            compiled(COMPILER, &source, &linked, true)?;
            let mut last = (0, 0);
            let with = || {
                let checkpoints = tempfile::tempdir_in(folder.path())
                    .doing(|| "making a folder for checkpoints")?;
                let took = seconds(&linked, words, Some(checkpoints.path()))?;
                let wholes = files(checkpoints.path(), "whole")?;
                let parts = files(checkpoints.path(), "part")?;
                let all = wholes.iter().chain(&parts);
                last = (wholes.len() + parts.len(), all.sum());
                Ok(took)
            };
            let contenders = vec![
                Contender::new(WITHOUT, Unit::Seconds, || seconds(&plain, words, None)),
                Contender::new(WITH, Unit::Seconds, with),
            ];
            let mut took = Row::new("took", "", Vec::new());
            rounds::take_long(&mut took, bench.rounds(12), contenders);
            let without = took.series(WITHOUT, Unit::Seconds).clone();
            let times = pairs(took.series(WITH, Unit::Seconds), &without, |a, b| a / b);
            let (low, high) = median_within(&times);
            let percent = |times: f64| 100.0 * (times - 1.0);
            row.note(format!(
                "{}: {:+.2} to {:+.2} % ({} runs of about {}); {} checkpoints of {} in all; programs of {} and {} (the paper: {paper}).",
                name.to_uppercase(),
                percent(low),
                percent(high),
                times.len(),
                Unit::Seconds.show(without.first().copied().unwrap_or_default()),
                last.0,
                Unit::Bytes.show(last.1 as f64),
                Unit::Bytes.show(bytes(&plain)?),
                Unit::Bytes.show(bytes(&linked)?),
            ));
            row.series(name, Unit::Plain).extend(times);
            row.missing.extend(took.missing);
        }
        row.note("Percents: between which the median lies, with 95 % confidence or with all runs where they are fewer than six.");
        row.note("examples/mpi, class A, one rank of MPICH, by their own clock; IS of 70 rounds for 10; checkpoints are due as K31 says.");
        Ok(())
    })
}
