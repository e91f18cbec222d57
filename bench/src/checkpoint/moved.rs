//! The row of a program that links nothing and is dumped by CRIU: killed with its runner, and how soon it goes on elsewhere.

use super::{compiled, folder};
use crate::bench::Bench;
use crate::engine::Own;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::site::{Place, Site};
use crate::stats::Unit;
use crate::wait;
use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const FORK: &str = "fork";
const CONDOR: &str = "pilots in HTCondor";
const MIB: &str = "100";
const WITHIN: Duration = Duration::from_secs(60);
/// So long after the kill a process of the program may still be seen at work; none goes on so soon.
const DYING_NS: u64 = 30_000_000;
const LOOK: Duration = Duration::from_millis(1);
/// Another account, for root: whose guests CRIU does not dump.
const ANOTHER: [&str; 5] = ["unshare", "--user", "--map-user=5", "--map-group=60", "--"];

/// A site whose policy has guests dumped.
struct Dumping {
    site: Site,
    programs: PathBuf,
}

impl Dumping {
    fn up(
        bench: &Bench,
        place: &Place<'_>,
        criu: &Own,
        programs: &Path,
    ) -> Result<Dumping, Failure> {
        let site = Site::at(bench, place)?;
        let program = std::fs::canonicalize(criu.file("bin/criu")).doing(|| "looking for criu")?;
        let tree = program.ancestors().nth(3).unwrap_or(Path::new("/"));
        let policy = format!(
            "network = \"none\"\ndump = true\n[paths]\n\"{}\" = \"read\"\n",
            tree.display()
        );
        std::fs::write(site.home().join("policy.toml"), policy)
            .doing(|| "writing a site's policy")?;
        Ok(Dumping {
            site,
            programs: programs.to_owned(),
        })
    }

    fn said(&self, arguments: &[&str]) -> Result<String, Failure> {
        let output = wait::output(&mut self.site.command(arguments), WITHIN)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// From the kill to the first thing that the program does again, in seconds.
    fn killed(&self) -> Result<f64, Failure> {
        let programs = self.programs.display().to_string();
        let submit = ["job", "submit", "--rerun", "--dir", &programs, "--"];
        let job = self.said(&[&submit[..], &["./beats", MIB]].concat())?;
        let state = self.site.home().join("state");
        // A kill is not over before what is being synchronised is.
        let log = state.join("spool").join(format!("{job}.1")).join("log");
        let dumped = until("the first dump", || {
            let log = std::fs::read_to_string(&log);
            log.is_ok_and(|log| log.contains("dump 1 took"))
        });
        let story = self.said(&["job", "explain", &job])?;
        dumped.map_err(|failure| Failure::unexpected(format!("{failure}: {story}")))?;
        let beat = state.join("jobs").join(&job).join("beat");
        let runner = story.split("its runner is process ").nth(1);
        let runner = runner.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let runner = runner.ok_or_else(|| Failure::unexpected(story.clone()))?;
        let killed = now_ns();
        wait::output(Command::new("kill").args(["-KILL", runner]), WITHIN)?;
        let gone = Path::new("/proc").join(runner);
        until("the end of the runner", || !gone.exists())?;
        // What it did in its last moment is not what it does again. The file is never shorter than the dump has it.
        let file = std::fs::File::options().write(true).open(&beat);
        let taken = file.and_then(|file| file.write_all_at(&[0; 8], 0));
        taken.doing(|| "taking a beat back")?;
        let mut again = 0;
        until("another beat", || {
            let told = std::fs::read(&beat).unwrap_or_default();
            again = told.try_into().map_or(0, u64::from_ne_bytes);
            again > killed + DYING_NS
        })?;
        self.said(&["job", "cancel", &job, "--grace", "0"])?;
        Ok((again - killed) as f64 / 1e9)
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

fn until(what: &str, mut so: impl FnMut() -> bool) -> Result<(), Failure> {
    let begun = Instant::now();
    while !so() {
        guard::go_on();
        if begun.elapsed() > WITHIN {
            return Err(Failure::Deadline {
                what: what.to_owned(),
                within: WITHIN,
            });
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

pub fn moved(bench: &Bench) -> Row {
    let goal = |ours| Goal {
        text: "≤ 0.5 s",
        ours,
        reach: Reach::AtMost { limit: 0.5 },
    };
    let row = Row::new(
        "moved",
        "A program of 100 MiB that links nothing, killed with its runner, until it goes on elsewhere",
        vec![goal(FORK), goal(CONDOR)],
    );
    or_missing(row, |row| {
        let criu = Own::up("criu", &[])?;
        let folder = folder()?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpoint/beats.c");
        compiled("cc", &source, &folder.path().join("beats"), false)?;
        let through: &[&str] = match is_root()? {
            true => &ANOTHER,
            false => &[],
        };
        let environment = criu.environment();
        let place = Place {
            through,
            environment: &environment,
            ..Place::default()
        };
        let fork = Dumping::up(bench, &place, &criu, folder.path())?;
        let condor = Own::up("condor", &[]);
        let there = condor.as_ref().map_err(|failure| failure.to_string());
        let there = there.and_then(|condor| {
            let place = Place {
                start: &["--batch", "condor", "--pilots", "2..2"],
                environment: &both(condor, &criu),
                ..Place::default()
            };
            let up = Dumping::up(bench, &place, &criu, folder.path());
            up.map_err(|failure| failure.to_string())
        });
        let mut contenders = vec![Contender::new(FORK, Unit::Seconds, || fork.killed())];
        match &there {
            Ok(there) => {
                contenders.push(Contender::new(CONDOR, Unit::Seconds, || there.killed()));
            }
            Err(failure) => row.lacks(Some(CONDOR), failure),
        }
        rounds::take(row, bench.rounds(10), contenders);
        row.note("The clock runs from the kill to the program's own word; its processes end, the site sees it, CRIU makes it again. Hosts on one machine.");
        Ok(())
    })
}

/// Of an engine, with criu in PATH.
fn both(engine: &Own, criu: &Own) -> Vec<(&'static str, OsString)> {
    let mut environment = engine.environment();
    let of_criu = criu.file("bin").into_os_string();
    for (name, value) in &mut environment {
        if *name == "PATH" {
            let mut path = of_criu.clone();
            path.push(":");
            path.push(&value);
            *value = path;
        }
    }
    environment
}

fn is_root() -> Result<bool, Failure> {
    let said = wait::output(Command::new("id").arg("-u"), WITHIN)?;
    Ok(said.stdout.trim_ascii() == b"0")
}
