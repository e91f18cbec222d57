//! Slurm, by its own commands. Not here: what its words are (`words`), what becomes of an attempt (`engine`).

pub mod census;
pub mod words;

use crate::able::Able;
use crate::engine::order::{Order, prefix};
use crate::engine::seen::Row;
use crate::engine::tool::{Tools, ask};
use crate::engine::{Cluster, Engine, Trouble};

/// The batch system of a site whose hosts are Slurm's.
pub type Slurm = Cluster<Commands>;

/// `sbatch`, `squeue` and `scancel`, as they are in PATH.
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

    async fn submit(&self, order: &Order) -> Result<(), Trouble> {
        let said = ask(
            &self.0,
            "sbatch",
            &words::submission(order),
            &words::script(order),
        )
        .await?;
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
}

fn trouble(tried: &str, complaint: String) -> Trouble {
    match words::is_unreachable(&complaint) {
        true => Trouble::unreachable(tried, complaint),
        false => Trouble::Refused { words: complaint },
    }
}
