//! The rows of `bench batch` of one short job. A job is `/bin/true` under the default policy; its time is from the submission on an open session
//! until its exit was seen there.

use crate::bench::Bench;
use crate::engine::OnEngine;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::{job, or_missing, to_the_end, within};
use crate::site::Site;
use crate::stats::Unit;
use kumiko_client::Client;
use std::time::{Duration, Instant};

const FORK: &str = "fork";
const PILOT_SLURM: &str = "warm pilot in Slurm";
const PILOT_CONDOR: &str = "warm pilot in HTCondor";
const OURS: &str = "kumiko job";
const OWN_SLURM: &str = "sbatch, until squeue says so";
const OWN_CONDOR: &str = "condor_submit, until its log says so";
const ENGINE_WITHIN: Duration = Duration::from_secs(120);
/// How often an engine's own command is asked whether a job has ended.
const ASK: Duration = Duration::from_millis(10);

/// One job, until its end.
pub(super) async fn one(client: &Client) -> Result<f64, Failure> {
    let begun = Instant::now();
    let exec = within("the submission", client.exec(job("/bin/true", &[]))).await?;
    let mut attached = exec.map_err(|e| Failure::said("submitting", &e))?;
    to_the_end(&mut attached, |_| {}).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Looks until it is so.
pub(super) fn until(
    what: &str,
    mut so: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    while !so()? {
        if begun.elapsed() > ENGINE_WITHIN {
            return Err(Failure::Deadline {
                what: what.to_owned(),
                within: ENGINE_WITHIN,
            });
        }
        std::thread::sleep(ASK);
    }
    Ok(())
}

pub fn pilot(bench: &Bench) -> Row {
    let goal = |ours| Goal {
        text: "≤ 1.3 × fork's",
        ours,
        reach: Reach::AtMostTimes {
            theirs: FORK,
            times: 1.3,
        },
    };
    let row = Row::new(
        "pilot",
        "One short job through a warm pilot",
        vec![goal(PILOT_SLURM), goal(PILOT_CONDOR)],
    );
    or_missing(row, |row| {
        let site = Site::start(bench)?;
        let client = bench.runtime.block_on(site.connect())?;
        let slurm = OnEngine::up(bench, "slurm", &[], &["--pilots", "1..1"]);
        let condor = OnEngine::up(bench, "condor", &[], &["--pilots", "1..1"]);
        let mut contenders = vec![Contender::new(FORK, Unit::Seconds, || {
            bench.runtime.block_on(one(&client))
        })];
        for (name, there) in [(PILOT_SLURM, &slurm), (PILOT_CONDOR, &condor)] {
            match there {
                Ok(there) => contenders.push(Contender::new(name, Unit::Seconds, || {
                    bench.runtime.block_on(one(&there.client))
                })),
                Err(failure) => row.lacks(Some(name), failure),
            }
        }
        rounds::take(row, bench.rounds(100), contenders);
        row.note("Sites on one machine, one session each; fork has a spare runner, a pilot copies itself.");
        Ok(())
    })
}

pub fn slurm(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ sbatch's own to its end seen by squeue, + 15 ms",
        ours: OURS,
        reach: Reach::AtMostMore {
            theirs: OWN_SLURM,
            by: 15e-3,
        },
    }];
    let row = Row::new("slurm", "One short job through Slurm, no pilot", goals);
    or_missing(row, |row| {
        let there = OnEngine::up(bench, "slurm", &[], &[])?;
        let own = || {
            let begun = Instant::now();
            let line = ["--parsable", "--output=/dev/null", "--wrap=/bin/true"];
            let number = there.engine.asked("sbatch", &line)?;
            until("the end of Slurm's job", || {
                let line = [
                    "--noheader",
                    "--states=all",
                    "--format=%T",
                    "--jobs",
                    &number,
                ];
                Ok(there.engine.asked("squeue", &line)? == "COMPLETED")
            })?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let contenders = vec![
            Contender::new(OURS, Unit::Seconds, || {
                bench.runtime.block_on(one(&there.client))
            }),
            Contender::new(OWN_SLURM, Unit::Seconds, own),
        ];
        rounds::take(row, bench.rounds(30), contenders);
        row.note("Slurm starts batch jobs once a second.");
        Ok(())
    })
}

pub fn condor(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ condor_submit's own to its event log, + 5 %",
        ours: OURS,
        reach: Reach::AtMostTimes {
            theirs: OWN_CONDOR,
            times: 1.05,
        },
    }];
    let row = Row::new("condor", "One short job through HTCondor, no pilot", goals);
    or_missing(row, |row| {
        let there = OnEngine::up(bench, "condor", &[], &[])?;
        let folder = tempfile::tempdir().doing(|| "making a folder for HTCondor's log")?;
        let (log, description) = (folder.path().join("log"), folder.path().join("job"));
        let text = format!(
            "executable = /bin/true\ntransfer_executable = false\nshould_transfer_files = NO\ninitialdir = /\n\
             log = {}\nkeep_claim_idle = 10\nqueue\n",
            log.display()
        );
        std::fs::write(&description, text).doing(|| "writing a submit description")?;
        let own = || {
            let begun = Instant::now();
            let _ = std::fs::remove_file(&log); // of the round before
            there
                .engine
                .asked("condor_submit", &["-terse", &description.to_string_lossy()])?;
            until("the end of HTCondor's job", || {
                let told = std::fs::read_to_string(&log).unwrap_or_default();
                Ok(told.contains("\n005 ("))
            })?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let contenders = vec![
            Contender::new(OURS, Unit::Seconds, || {
                bench.runtime.block_on(one(&there.client))
            }),
            Contender::new(OWN_CONDOR, Unit::Seconds, own),
        ];
        rounds::take(row, bench.rounds(20), contenders);
        row.note("HTCondor with the settings of testbeds/condor; both keep their claim for 10 s.");
        Ok(())
    })
}
