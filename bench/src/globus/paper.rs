//! Paper 004, table 2, with its cause. GT 2.2's job manager looks at a job once right after it has started it, and then
//! every 30 s (gram_job_manager, 2002: `poll_frequency = 30`, and the first poll at once): a job that ends before the
//! first look takes 2.5 s, any other 32.5 s. Here jobs of 0 to 3 s meet such a poller, and a site of ours.

use super::way::Way;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::rows::or_missing;
use crate::stats::Unit;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The paper's 23 runs of a program that prints a line, s.
pub const PAPER_S: [f64; 23] = [
    36.988, 2.429, 2.367, 2.740, 2.642, 32.715, 32.860, 32.950, 3.118, 32.747, 2.588, 2.712,
    32.662, 2.720, 2.437, 2.521, 2.498, 2.701, 2.594, 2.502, 2.464, 33.543, 2.449,
];
/// What the paper's remote shell took.
const RSH_S: f64 = 0.101;
/// From the start of a job to the poller's first look at it: one start of its Perl scripts in 2002, so that the whole is
/// the paper's 2.5 s where the job is gone by then.
const FIRST_LOOK: Duration = Duration::from_millis(2_400);
const PERIOD: Duration = Duration::from_secs(30);
/// As many as the paper's.
const RUNS: usize = PAPER_S.len();
const LONGEST_S: f64 = 3.0;

const POLLED: &str = "30 s poller";
const OURS: &str = "kumiko";
const PAPER: &str = "paper 004, GT 2.2";

pub fn measure(runtime: &Runtime, way: &Arc<Way>) -> Row {
    let goals = vec![Goal {
        text: "no second mode: all within a tenth of the poller's period",
        ours: OURS,
        reach: Reach::P99AtMost {
            limit: PERIOD.as_secs_f64() / 10.0,
        },
    }];
    let row = Row::new(
        "paper",
        "Paper 004, table 2: time beyond the job's own",
        goals,
    );
    or_missing(row, |row| {
        row.series(PAPER, Unit::Seconds)
            .extend(PAPER_S.map(|took| took - RSH_S));
        let polled = runtime.block_on(all(polled))?;
        row.series(POLLED, Unit::Seconds).extend(polled);
        let ours = runtime.block_on(all(|own_s| {
            let way = Arc::clone(way);
            async move {
                let rsl = format!("&(executable=/bin/sleep)(arguments={own_s:.3})");
                Ok(way.job(&rsl).await?.done - own_s)
            }
        }))?;
        row.series(OURS, Unit::Seconds).extend(ours);
        row.note(format!(
            "{RUNS} jobs of 0 to {LONGEST_S} s, all at once, on each side; of the paper's runs the time of its rsh is taken away."
        ));
        row.note(format!(
            "The poller looks {} s after it has started a job, and every {} s from then on. Authentication has no part in it.",
            FIRST_LOOK.as_secs_f64(),
            PERIOD.as_secs()
        ));
        Ok(())
    })
}

/// The same thing with every length of job at once: seconds beyond it.
async fn all<F>(one: impl Fn(f64) -> F) -> Result<Vec<f64>, Failure>
where
    F: Future<Output = Result<f64, Failure>> + Send + 'static,
{
    let mut running = JoinSet::new();
    for run in 0..RUNS {
        running.spawn(one(LONGEST_S * run as f64 / (RUNS - 1) as f64));
    }
    let mut took = Vec::new();
    while let Some(ended) = running.join_next().await {
        took.push(ended.map_err(|e| Failure::said("a task", &e))??);
    }
    Ok(took)
}

/// A process, and one who looks after it as GT 2.2 did.
async fn polled(own_s: f64) -> Result<f64, Failure> {
    let begun = Instant::now();
    let mut process = Command::new("sleep")
        .arg(format!("{own_s:.3}"))
        .kill_on_drop(true)
        .spawn()
        .doing(|| "starting sleep")?;
    tokio::time::sleep(FIRST_LOOK).await;
    while process.try_wait().doing(|| "looking at sleep")?.is_none() {
        tokio::time::sleep(PERIOD).await;
    }
    Ok(begun.elapsed().as_secs_f64() - own_s)
}
