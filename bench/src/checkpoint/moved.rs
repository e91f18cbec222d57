//! The row of what links nothing and is dumped by CRIU, a job's program and a call's: killed with its runner, and how soon it goes on
//! elsewhere.

use super::{compiled, folder};
use crate::bench::Bench;
use crate::engine::Own;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::proc;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::site::{Place, Site};
use crate::stats::Unit;
use crate::wait;
use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const FORK: &str = "fork";
const CONDOR: &str = "pilots in HTCondor";
const CALL: &str = "a call, fork";
const CALL_CONDOR: &str = "a call, pilots in HTCondor";
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
        let seconds = moved_after(runner, || Some(beat.clone()))?;
        self.said(&["job", "cancel", &job, "--grace", "0"])?;
        Ok(seconds)
    }

    fn register(&self) -> Result<(), Failure> {
        let idl = Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpoint/beats.idl");
        let (idl, into) = (idl.to_string_lossy(), self.programs.to_string_lossy());
        let made = self.said(&["rpc", "gen", &idl, "--into", &into])?;
        self.said(&["rpc", "register", &made]).map(drop)
    }

    /// As [`Dumping::killed`], of a call.
    fn call_killed(&self) -> Result<f64, Failure> {
        let mut call = self.site.command(&["rpc", "call", "beats/beat", MIB]);
        call.stdin(Stdio::null()).stdout(Stdio::null());
        let call = call.spawn().doing(|| "calling a routine")?;
        let _call = guard::process(call);
        let calls = self.site.home().join("state/rpc");
        let in_a_worker = |name: &str| {
            let workers = std::fs::read_dir(calls.join("workers"));
            let paths = workers.into_iter().flatten().flatten();
            let mut paths = paths.map(|worker| worker.path().join(name));
            paths.find(|path| path.exists())
        };
        let mut dump = None;
        until("the first dump", || {
            dump = in_a_worker("dumps/1");
            dump.is_some()
        })?;
        let worker = dump.as_deref().and_then(|dump| dump.ancestors().nth(2));
        let number = worker.and_then(Path::file_name).unwrap_or_default();
        let spool = calls.join("spool");
        let spool = spool.join(format!("{}.1", number.to_string_lossy()));
        let runner = proc::holding(&spool.join("status.new"))
            .ok_or_else(|| Failure::unexpected("a call's runner is not found".to_owned()))?;
        let seconds = moved_after(&runner.to_string(), || in_a_worker("job/beat"))?;
        // The one that goes on has all of the first one's files.
        let enough = in_a_worker("job/beat").unwrap_or_default();
        let enough = enough.with_file_name("enough");
        std::fs::write(&enough, "").doing(|| "ending a call")?;
        until("the end of the call", || in_a_worker("dumps/1").is_none())?;
        // Its process takes the next one.
        std::fs::remove_file(&enough).doing(|| "making room for another call")?;
        Ok(seconds)
    }
}

/// From the kill of this runner to the next beat that is told there, in seconds.
fn moved_after(runner: &str, beat: impl Fn() -> Option<PathBuf>) -> Result<f64, Failure> {
    let first = beat().ok_or_else(|| Failure::unexpected("no beat is told".to_owned()))?;
    let file = std::fs::File::options().write(true).open(first);
    let file = file.doing(|| "opening what is told")?;
    let killed = now_ns();
    wait::output(Command::new("kill").args(["-KILL", runner]), WITHIN)?;
    let gone = Path::new("/proc").join(runner);
    until("the end of the runner", || !gone.exists())?;
    // What it did in its last moment is not what it does again. The file is never shorter than the dump has it.
    let taken = file.write_all_at(&[0; 8], 0);
    taken.doing(|| "taking a beat back")?;
    let mut again = 0;
    until("another beat", || {
        let told = beat().and_then(|beat| std::fs::read(beat).ok());
        let told = told.and_then(|told| told.try_into().ok());
        again = told.map_or(0, u64::from_ne_bytes);
        again > killed + DYING_NS
    })?;
    Ok((again - killed) as f64 / 1e9)
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
        "A program of 100 MiB that links nothing, a job's or a routine's, killed with its runner, until it goes on elsewhere",
        vec![goal(FORK), goal(CONDOR), goal(CALL), goal(CALL_CONDOR)],
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
        fork.register()?;
        let mut contenders = vec![
            Contender::new(FORK, Unit::Seconds, || fork.killed()),
            Contender::new(CALL, Unit::Seconds, || fork.call_killed()),
        ];
        match &there {
            Ok(there) => {
                there.register()?;
                contenders.push(Contender::new(CONDOR, Unit::Seconds, || there.killed()));
                let call = || there.call_killed();
                contenders.push(Contender::new(CALL_CONDOR, Unit::Seconds, call));
            }
            Err(failure) => {
                for one in [CONDOR, CALL_CONDOR] {
                    row.lacks(Some(one), failure);
                }
            }
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
