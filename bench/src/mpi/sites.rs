//! MPI across sites (`kumiko job run --across`): messages between two sandboxes that know each other by the launcher at the caller's
//! alone, beside the same launcher with a shell in the place of ssh. Not here: a network between sites; both are of this machine.

use super::model;
use super::place::{Library, Place, Ran, Run};
use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::goal::Row;
use crate::rows::or_missing;
use crate::site::Site;
use crate::wait;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

const RUN_WITHIN: Duration = Duration::from_secs(60);
/// Called as ssh is: `-x HOST COMMAND...`.
const SHELL: &str = "#!/bin/sh\nshift 2\neval \"exec $*\"\n";

pub fn messages(place: &Place, bench: &Bench) -> Row {
    let title = "Messages across two sites, t₀ + m / r∞ fitted";
    or_missing(Row::new("sites", title, model::goals()), |row| {
        let site = Site::start(bench)?;
        let folder = tempfile::tempdir().doing(|| "making a folder for a launcher")?;
        let shell = folder.path().join("shell");
        std::fs::write(&shell, SHELL)
            .and_then(|()| std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o700)))
            .doing(|| format!("writing {}", shell.display()))?;
        let programs = place.folder_of(Library::Mpich);
        let address = site.address();
        let part = format!("{}:{}:1", address.host, address.port);
        let across = format!("{part},{part}");
        let ran = |as_job: bool, run: Run<'_>| {
            let mut command = match as_job {
                true => {
                    let mut command = site.command(&["job", "run", "--across", &across, "--dir"]);
                    command
                        .arg(&programs)
                        .arg("--")
                        .arg(format!("./{}", run.program));
                    command
                }
                false => {
                    let mut command = Command::new(run.library.launcher());
                    // Else it finds out that both are on one machine.
                    command.env("UCX_TLS", "self,tcp");
                    command.args([
                        "-launcher",
                        "ssh",
                        "-rmk",
                        "user",
                        "-localhost",
                        "localhost",
                    ]);
                    command.arg("-launcher-exec").arg(&shell);
                    command.args(["-hosts", "one:1,two:1", "-n", "2"]);
                    command.arg(programs.join(run.program));
                    command
                }
            };
            let begun = Instant::now();
            let said = wait::output(command.args(run.words), RUN_WITHIN)?;
            Ok::<_, Failure>(Ran {
                wall_s: begun.elapsed().as_secs_f64(),
                said: String::from_utf8_lossy(&said.stdout).into_owned(),
            })
        };
        model::compare(row, bench.rounds(5), Library::Mpich, ran)?;
        row.note("MPICH over TCP; two jobs of one site, whose ranks do not know that they are on one machine.");
        Ok(())
    })
}
