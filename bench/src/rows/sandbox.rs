//! What the sandbox adds to the start of a program: `/bin/true` in `namespace`, bare, and under bubblewrap with an equal
//! view.

use super::or_missing;
use crate::bench::Bench;
use crate::fail::While;
use crate::goal::{Goal, Reach, Row};
use crate::peers::bubblewrap;
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use crate::wait;
use std::process::Command;

pub const KEY: &str = "sandbox";
const OURS: &str = "kumiko sandbox run";
const NATIVE: &str = "fork+exec";
const BUBBLEWRAP: &str = "bubblewrap";

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ native + 2 ms",
        ours: OURS,
        reach: Reach::AtMostMore {
            theirs: NATIVE,
            by: 2e-3,
        },
    }];
    or_missing(
        Row::new(KEY, "Start of /bin/true in namespace", goals),
        |row| {
            let folder = tempfile::tempdir().doing(|| "making a folder for the guest")?;
            let time = |command: &mut Command| Ok(wait::timed(command)?.as_secs_f64());
            let contenders = vec![
                Contender::new(OURS, Unit::Seconds, || {
                    time(
                        Command::new(&bench.kumiko)
                            .args(["sandbox", "run", "--dir"])
                            .arg(folder.path())
                            .args(["--mechanism", "namespace", "--", "/bin/true"]),
                    )
                }),
                Contender::new(NATIVE, Unit::Seconds, || {
                    time(&mut Command::new("/bin/true"))
                }),
                Contender::new(BUBBLEWRAP, Unit::Seconds, || {
                    time(&mut bubblewrap::command(folder.path(), "/bin/true"))
                }),
                Contender::new("kumiko --version", Unit::Seconds, || {
                    time(Command::new(&bench.kumiko).arg("--version"))
                }),
            ];
            rounds::take(row, bench.rounds(200), contenders);
            row.note("Whole commands are timed: start of the tool itself, making of the room, program, tearing down.");
            row.note("kumiko --version is the part that is the start of the command alone.");
            Ok(())
        },
    )
}
