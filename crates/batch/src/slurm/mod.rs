//! Slurm, by its own commands. Not here: what its words are (`words`), what becomes of an attempt (`engine`).

pub mod census;
mod spelt;
pub mod words;

use crate::able::Able;
use crate::engine::order::{Order, prefix};
use crate::engine::seen::{Row, Seen};
use crate::engine::tool::{Tools, ask};
use crate::engine::{Cluster, Engine, Trouble};
use std::collections::BTreeSet;

/// The batch system of a site whose hosts are Slurm's.
pub type Slurm = Cluster<Commands>;

/// Numbers of jobs in one command line.
const UPDATED_AT_ONCE: usize = 1000;

/// `sbatch`, `squeue`, `scancel`, and to drain hosts `scontrol` and `sinfo`, as they are in PATH.
#[derive(Clone, Debug)]
pub struct Commands(pub Tools);

impl Engine for Commands {
    const NAME: &'static str = "slurm";
    const ABLE: Able = Able {
        gpus: true,
        shares: false,
        queues: true,
        projects: true,
        exclusive: true,
        hosts: true,
    };
    const LOG: Option<&'static str> = Some(words::LOG);

    async fn submit(&self, order: &Order) -> Result<(), Trouble> {
        order.prepare()?;
        let carried = order.script(words::others(order).as_ref())?;
        let line = words::submission(order, carried.is_some());
        let script = carried.unwrap_or_else(|| words::script(order));
        let said = ask(&self.0, "sbatch", &line, &script).await?;
        match said.well {
            true => Ok(()),
            false => Err(trouble("sbatch", said.complaint)),
        }
    }

    async fn look(&self, site: &str) -> Result<Vec<Row>, Trouble> {
        let line = ["--me", "--noheader", "--states=all", "--format"];
        let mut line: Vec<String> = line.map(str::to_owned).into();
        line.push(words::FORMAT.to_owned());
        let said = ask(&self.0, "squeue", &line, "").await?;
        match said.well {
            true => words::rows(&said.output, &prefix(site))
                .map_err(|error| Trouble::unreachable("squeue", error.to_string())),
            false => Err(Trouble::unreachable("squeue", said.complaint)),
        }
    }

    async fn cancel(&self, tag: &str) -> Result<(), Trouble> {
        let line = ["--quiet", "--me", "--name", tag].map(str::to_owned);
        let said = ask(&self.0, "scancel", &line, "").await?;
        match said.well {
            true => Ok(()),
            false => Err(trouble("scancel", said.complaint)),
        }
    }

    /// Of a host that it does not have Slurm takes no word in a submission.
    async fn avoid(
        &self,
        site: &str,
        hosts: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Trouble> {
        let all = self.lines("sinfo", &["--noheader", "--Node", "--format", "%N"]);
        let all = String::from_utf8_lossy(&all.await?).into_owned();
        let all: BTreeSet<&str> = all.lines().map(str::trim).collect();
        let known: BTreeSet<String> = hosts
            .iter()
            .filter(|host| all.contains(host.as_str()))
            .cloned()
            .collect();
        let list: Vec<&str> = known.iter().map(String::as_str).collect();
        let rows = self.look(site).await?;
        let waits = |row: &&Row| matches!(row.seen, Seen::Waiting(_) | Seen::Held(_));
        let waiting: Vec<&str> = rows
            .iter()
            .filter(waits)
            .map(|row| row.number.as_str())
            .collect();
        for some in waiting.chunks(UPDATED_AT_ONCE) {
            let line = [
                "update".to_owned(),
                format!("JobId={}", some.join(",")),
                format!("ExcNodeList={}", list.join(",")),
            ];
            let said = ask(&self.0, "scontrol", &line, "").await?;
            if !said.well && words::is_unreachable(&said.complaint) {
                return Err(Trouble::unreachable("scontrol", said.complaint));
            }
            // What else it complains of is jobs that wait no more; the others it has changed.
        }
        Ok(known)
    }

    fn read(&self, log: &[u8]) -> Option<Seen> {
        words::said_on_host(log)
    }
}

fn trouble(tried: &str, complaint: String) -> Trouble {
    match words::is_unreachable(&complaint) {
        true => Trouble::unreachable(tried, complaint),
        false => Trouble::Refused { words: complaint },
    }
}
