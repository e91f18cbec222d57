//! The next job of a client that is connected already: from submission to its exit, beside what the kernel takes for
//! fork, exec and wait of the same program (posix_spawn of the standard library, from this process).

use super::{connected, job, or_missing, seconds_of, to_the_end, within};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use std::process::Command;
use std::time::Instant;

pub const KEY: &str = "next";
const OURS: &str = "job, to its exit";
const BARE: &str = "fork+exec+wait";

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ bare fork+exec+wait + 4 ms",
        ours: OURS,
        reach: Reach::AtMostMore {
            theirs: BARE,
            by: 4e-3,
        },
    }];
    or_missing(
        Row::new(
            KEY,
            "Next job on an open session, submit to exit seen",
            goals,
        ),
        |row| {
            let (_site, client) = connected(bench)?;
            let run = async || {
                let begun = Instant::now();
                let exec = within("the submission", client.exec(job("/bin/true", &[]))).await?;
                let mut attached = exec.map_err(|e| Failure::said("submitting", &e))?;
                to_the_end(&mut attached, |_| {}).await?;
                Ok(begun.elapsed().as_secs_f64())
            };
            let contenders = vec![
                Contender::new(OURS, Unit::Seconds, || bench.runtime.block_on(run())),
                Contender::new(BARE, Unit::Seconds, || {
                    seconds_of(&mut Command::new("/bin/true"))
                }),
            ];
            rounds::take(row, bench.rounds(300), contenders);
            row.note("The job is durable before it starts (one fdatasync), runs in the sandbox, and its end is recorded.");
            Ok(())
        },
    )
}
