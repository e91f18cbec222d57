//! Rows of one program that has memory and writes to some of it.

use super::{compiled, files, folder};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::info::curve::{Axis, Curve, Point, curves};
use crate::rows::or_missing;
use crate::stats::{Summary, Unit};
use crate::wait;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PART: &str = "1 % written since";
const WHOLE: &str = "the first, whole";
const AHEAD: &str = "the first, whole, of a program that goes on";
const FORK: &str = "fork() of the same process";
/// Of the pages.
const SHARE: &str = "0.01";
const GIB: u32 = 1024;
const SIZES_MIB: [u32; 6] = [1, 4, 16, 64, 256, GIB];

/// Of one checkpoint, in seconds.
struct Took {
    frozen: f64,
    all: f64,
    fork: f64,
}

/// What the program says of one run: the first is whole, the others parts. And the bytes of their files.
struct Ran {
    took: Vec<Took>,
    whole_bytes: Option<u64>,
    part_bytes: Option<u64>,
}

struct Program {
    folder: TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Result<Program, Failure> {
        let folder = folder()?;
        let path = folder.path().join("memory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpoint/memory.c");
        compiled("cc", &source, &path, true)?;
        Ok(Program { folder, path })
    }

    fn run(&self, mib: u32, parts: usize) -> Result<Ran, Failure> {
        self.run_with(mib, &parts.to_string(), parts)
    }

    fn run_with(&self, mib: u32, word: &str, parts: usize) -> Result<Ran, Failure> {
        guard::go_on();
        let checkpoints = tempfile::tempdir_in(self.folder.path())
            .map_err(|error| Failure::said("making a folder for checkpoints", &error))?;
        let mut program = Command::new(&self.path);
        program.args([&mib.to_string(), SHARE, word]);
        program.env("KUMIKO_CHECKPOINT", checkpoints.path());
        let output = wait::output(&mut program, wait::SAMPLE_WITHIN)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let took: Option<Vec<Took>> = said.lines().map(took).collect();
        match took {
            Some(took) if took.len() == parts + 1 => Ok(Ran {
                took,
                whole_bytes: files(checkpoints.path(), "whole")?.first().copied(),
                part_bytes: files(checkpoints.path(), "part")?.last().copied(),
            }),
            _ => Err(Failure::unexpected(format!("the program said {said:?}"))),
        }
    }
}

fn took(line: &str) -> Option<Took> {
    let mut figures = line.split(' ').map(|word| word.parse().ok());
    let mut next = || figures.next().flatten();
    Some(Took {
        frozen: next()?,
        all: next()?,
        fork: next()?,
    })
}

pub fn freeze(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ 10 ms for 1 GiB of which 1 % was written",
        ours: PART,
        reach: Reach::AtMost { limit: 10e-3 },
    }];
    let row = Row::new(
        "freeze",
        "A program of 1 GiB stands still for a checkpoint",
        goals,
    );
    or_missing(row, |row| {
        let program = Program::new()?;
        for _ in 0..bench.rounds(5) {
            let ran = program.run(GIB, 10)?;
            for (number, took) in ran.took.iter().enumerate() {
                let name = if number == 0 { WHOLE } else { PART };
                row.series(name, Unit::Seconds).push(took.frozen);
                row.series(FORK, Unit::Seconds).push(took.fork);
            }
            let first = program.run_with(GIB, "ahead", 0)?;
            let longest = first.took.iter().map(|took| took.frozen);
            row.series(AHEAD, Unit::Seconds).extend(longest);
        }
        row.note("Pages to write to are drawn at random; a thread writes the file while the program goes on.");
        row.note("Those of a program that has a checkpoint at each safe point, and so waits for it; of another one the first is written while it goes on, and what it writes to meanwhile is copied.");
        row.note("fork() is what a copy on writing begins with; its writer would have the process' memory twice.");
        Ok(())
    })
}

pub fn sizes(bench: &Bench) -> Row {
    let title = "Paper 001, figures 3 and 4: checkpoints by the memory of the program";
    let row = Row::new("sizes", title, Vec::new());
    or_missing(row, |row| {
        let program = Program::new()?;
        let mut times = [Vec::new(), Vec::new()];
        let mut bytes = [Vec::new(), Vec::new()];
        for mib in SIZES_MIB {
            let mut all = [Vec::new(), Vec::new()];
            let mut sizes = [None, None];
            for _ in 0..bench.rounds(5) {
                let ran = program.run(mib, 2)?;
                for (number, took) in ran.took.iter().enumerate() {
                    all[number.min(1)].push(took.all);
                }
                sizes = [ran.whole_bytes, ran.part_bytes];
            }
            let mut told = Vec::new();
            for (kind, name) in [WHOLE, PART].into_iter().enumerate() {
                let median = Summary::of(&all[kind]).map(|summary| summary.median);
                let point = |y| Point {
                    x: mib.into(),
                    y,
                    computed: false,
                };
                times[kind].extend(median.map(|s| point(1000.0 * s)));
                bytes[kind].extend(sizes[kind].map(|size| point(size as f64 / 1e6)));
                let shown = median.map(|median| Unit::Seconds.show(median));
                let size = sizes[kind].map(|size| Unit::Bytes.show(size as f64));
                let (shown, size) = (shown.unwrap_or_default(), size.unwrap_or_default());
                told.push(format!("{name} {shown}, {size}"));
                if mib == GIB {
                    row.series(&format!("{name}, of 1 GiB"), Unit::Seconds)
                        .append(&mut all[kind]);
                }
            }
            row.note(format!("{mib} MiB: {}.", told.join("; ")));
        }
        let axis = |label| Axis::of(label, true);
        for (label, [whole, part]) in [
            ("milliseconds on the disk", times),
            ("MB in its file", bytes),
        ] {
            let all = [(WHOLE, whole), (PART, part)].map(|(name, points)| Curve { name, points });
            row.pictures.push(curves(
                &axis("memory of the program, MiB"),
                &axis(label),
                &all,
            ));
        }
        row.note("From the safe point until the checkpoint is on the disk, synchronised.");
        row.note("The paper: whole ones only, by Condor's library, of up to 128 MB; times and sizes grow with the memory.");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_three_times() {
        let told = took("0.25 1.5 0.016").map(|took| (took.frozen, took.all, took.fork));
        assert_eq!(told, Some((0.25, 1.5, 0.016)));
        for wrong in ["", "1 2", "1 x 3"] {
            assert!(took(wrong).is_none(), "{wrong}");
        }
    }
}
