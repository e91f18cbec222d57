//! The rows of `bench batch` of 200 short jobs at once: by pilots, beside the engine's own means for as many on the same slots.

use super::rows::{one, until};
use crate::bench::Bench;
use crate::engine::{OnEngine, Own};
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::Unit;
use kumiko_client::Client;
use std::time::Instant;
use tempfile::TempDir;

const PILOTS: &str = "200 jobs by pilots";
const ARRAY: &str = "200 jobs by sbatch --array";
const TUNED: &str = "200 jobs by condor_submit";
const AS_IT_COMES: &str = "200 jobs by condor_submit, HTCondor's own settings";
const MANY: usize = 200;
/// As many as there are slots.
const FILLED: &[&str] = &["--pilots", "32..32"];
/// Of the testbed's two hosts each.
const SIXTEEN: &str = "HOSTA.NUM_CPUS = 16\nHOSTB.NUM_CPUS = 16";
/// What the testbed sets and speed depends on, as HTCondor has it by itself ("Configuration Macros" of its manual).
const OWN_SETTINGS: &str = "HOSTA.NUM_CPUS = 16\nHOSTB.NUM_CPUS = 16\n\
    NEGOTIATOR_INTERVAL = 60\nNEGOTIATOR_MIN_INTERVAL = 5\nNEGOTIATOR_CYCLE_DELAY = 20\n\
    SCHEDD_INTERVAL = 300\nSCHEDD_MIN_INTERVAL = 5\nJOB_START_COUNT = 1\nCLAIM_WORKLIFE = 1200\n\
    UPDATE_INTERVAL = 300\nPOLLING_INTERVAL = 5\nSTARTER_UPDATE_INTERVAL = 300\n\
    STARTER_INITIAL_UPDATE_INTERVAL = 2\nSHADOW_QUEUE_UPDATE_INTERVAL = 900\nCONDOR_FSYNC = True\n\
    ALIVE_INTERVAL = 300\nMAX_CLAIM_ALIVES_MISSED = 6\nJOB_DEFAULT_LEASE_DURATION = 2400\n\
    PERIODIC_EXPR_INTERVAL = 60";

/// Jobs a second.
fn rate(begun: Instant) -> f64 {
    MANY as f64 / begun.elapsed().as_secs_f64()
}

fn by_pilots(bench: &Bench, client: &Client) -> Result<f64, Failure> {
    let begun = Instant::now();
    bench.runtime.block_on(async {
        let all = (0..MANY).map(|_| one(client));
        for done in futures_util::future::join_all(all).await {
            done?;
        }
        Ok(rate(begun))
    })
}

fn at_least(text: &'static str, theirs: &'static str, times: f64) -> Goal {
    Goal {
        text,
        ours: PILOTS,
        reach: Reach::AtLeastTimes { theirs, times },
    }
}

pub fn slurm(bench: &Bench) -> Row {
    let goals = vec![at_least("≥ 5 × the engine's own rate", ARRAY, 5.0)];
    let row = Row::new("many", "200 short jobs on the same slots of Slurm", goals);
    or_missing(row, |row| {
        let there = OnEngine::up(bench, "slurm", &[], FILLED)?;
        let alone = Own::up("slurm", &[])?;
        let own = || {
            let begun = Instant::now();
            let array = format!("--array=1-{MANY}%32");
            let line = [
                "--parsable",
                "--output=/dev/null",
                &array,
                "--wrap=/bin/true",
            ];
            let number = alone.asked("sbatch", &line)?;
            until("the end of Slurm's jobs", || {
                let line = ["--noheader", "--jobs", &number];
                Ok(alone.asked("squeue", &line)?.is_empty())
            })?;
            Ok(rate(begun))
        };
        let contenders = vec![
            Contender::new(PILOTS, Unit::PerSecond, || by_pilots(bench, &there.client)),
            Contender::new(ARRAY, Unit::PerSecond, own),
        ];
        rounds::take(row, bench.rounds(5), contenders);
        row.note("32 slots of one processor each; each job of ours is durable, sandboxed, and its end recorded.");
        Ok(())
    })
}

/// A pool with no site, and a folder for its log.
struct Pool {
    engine: Own,
    folder: TempDir,
}

impl Pool {
    fn up(settings: &str) -> Result<Pool, Failure> {
        Ok(Pool {
            engine: Own::up("condor", &[("CONDOR_SETTINGS", settings)])?,
            folder: tempfile::tempdir().doing(|| "making a folder for HTCondor's log")?,
        })
    }

    /// Jobs a second. In a pool that is in use, so behind another job: by itself HTCondor matches jobs at most once in 20 s.
    fn rate(&self) -> Result<f64, Failure> {
        self.cluster(1)?;
        let begun = Instant::now();
        self.cluster(MANY)?;
        Ok(rate(begun))
    }

    /// One cluster of jobs, until its log tells of each one's end.
    fn cluster(&self, count: usize) -> Result<(), Failure> {
        let (log, description) = (
            self.folder.path().join("log"),
            self.folder.path().join("jobs"),
        );
        let text = format!(
            "executable = /bin/true\ntransfer_executable = false\nshould_transfer_files = NO\ninitialdir = /\n\
             log = {}\nqueue {count}\n",
            log.display()
        );
        std::fs::write(&description, text).doing(|| "writing a submit description")?;
        let _ = std::fs::remove_file(&log); // of the round before
        self.engine
            .asked("condor_submit", &["-terse", &description.to_string_lossy()])?;
        until("the end of HTCondor's jobs", || {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            Ok(told.matches("\n005 (").count() == count)
        })
    }
}

pub fn condor(bench: &Bench) -> Row {
    let goals = vec![
        at_least("≥ 5 × the tuned engine's own rate", TUNED, 5.0),
        at_least("≥ 20 × its default", AS_IT_COMES, 20.0),
    ];
    let title = "200 short jobs on the same slots of HTCondor";
    or_missing(Row::new("many_condor", title, goals), |row| {
        let sixteen = [("CONDOR_SETTINGS", SIXTEEN)];
        let there = OnEngine::up(bench, "condor", &sixteen, FILLED)?;
        let tuned = Pool::up(SIXTEEN)?;
        let as_it_comes = Pool::up(OWN_SETTINGS)?;
        let contenders = vec![
            Contender::new(PILOTS, Unit::PerSecond, || by_pilots(bench, &there.client)),
            Contender::new(TUNED, Unit::PerSecond, || tuned.rate()),
            Contender::new(AS_IT_COMES, Unit::PerSecond, || as_it_comes.rate()),
        ];
        rounds::take(row, bench.rounds(5), contenders);
        row.note("32 slots of one processor each, on two hosts, and each pool its own; tuned: the settings of testbeds/condor. HTCondor's jobs come behind another of the same pool.");
        Ok(())
    })
}
