//! What the sandbox adds to the start of a program: `/bin/true` in `namespace`, bare, and under bubblewrap with an equal
//! view. In process: what a runner does, which is there already when its guest starts.

use super::{or_missing, seconds_of};
use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::peers::bubblewrap;
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_policy::Policy;
use kumiko_sandbox::{Ended, Launch, Machine, Streams, choose, open};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub const KEY: &str = "sandbox";
const COMMAND: &str = "kumiko sandbox run";
const IN_PROCESS: &str = "in process";
const NATIVE: &str = "fork+exec";

pub fn measure(bench: &Bench) -> Row {
    let goal = |ours| Goal {
        text: "≤ native + 2 ms",
        ours,
        reach: Reach::AtMostMore {
            theirs: NATIVE,
            by: 2e-3,
        },
    };
    let goals = vec![
        goal(IN_PROCESS),
        Goal {
            text: "≤ native + 2 ms, as a command",
            ..goal(COMMAND)
        },
    ];
    or_missing(
        Row::new(KEY, "Start of /bin/true in namespace", goals),
        |row| {
            let folder = tempfile::tempdir().doing(|| "making a folder for the guest")?;
            let run = ["sandbox", "run", "--mechanism", "namespace", "--dir"];
            let contenders = vec![
                Contender::new(IN_PROCESS, Unit::Seconds, || {
                    in_process(folder.path(), "namespace")
                }),
                Contender::new(COMMAND, Unit::Seconds, || {
                    let mut command = Command::new(&bench.kumiko);
                    seconds_of(
                        command
                            .args(run)
                            .arg(folder.path())
                            .args(["--", "/bin/true"]),
                    )
                }),
                Contender::new(NATIVE, Unit::Seconds, || {
                    seconds_of(&mut Command::new("/bin/true"))
                }),
                Contender::new("bubblewrap", Unit::Seconds, || {
                    seconds_of(&mut bubblewrap::command(folder.path(), "/bin/true"))
                }),
                Contender::new("kumiko --version", Unit::Seconds, || {
                    seconds_of(Command::new(&bench.kumiko).arg("--version"))
                }),
            ];
            rounds::take(row, bench.rounds(200), contenders);
            row.note("From before the start to the end that is seen; commands as a whole, with their own start.");
            row.note("kumiko --version is the part that is the start of the command alone.");
            Ok(())
        },
    )
}

/// From the policy to the guest's end; taking the room down comes after, as in a runner.
pub fn in_process(folder: &Path, mechanism: &str) -> Result<f64, Failure> {
    let refused = |e| Failure::said("starting a guest", &e);
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .doing(|| "opening /dev/null")?;
    let begun = Instant::now();
    let policy = Policy::default();
    let choice = choose(&policy, Some(mechanism), &Machine::assume()).map_err(refused)?;
    let mut room = open(&choice).prepare(&policy, folder).map_err(refused)?;
    let mut guest = room
        .start(&Launch {
            program: "/bin/true",
            arguments: &[],
            environment: &[],
            directory: None,
            streams: Streams::Given {
                stdin: null.as_fd(),
                stdout: null.as_fd(),
                stderr: null.as_fd(),
            },
        })
        .map_err(refused)?;
    let poll = Poll::new().doing(|| "waiting for a guest")?;
    poll.add(guest.pidfd(), 0, Interest::Read)
        .doing(|| "waiting for a guest")?;
    loop {
        match guest.try_wait() {
            Some(Ended::Exited(0)) => return Ok(begun.elapsed().as_secs_f64()),
            Some(other) => {
                return Err(Failure::unexpected(format!(
                    "the guest ended with {other:?}"
                )));
            }
            None => poll
                .wait::<1>(None)
                .map(drop)
                .doing(|| "waiting for a guest")?,
        }
    }
}
