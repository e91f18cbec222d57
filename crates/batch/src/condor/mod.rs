//! HTCondor, by its own commands and its log. Not here: what its words are (`words`), what becomes of an attempt (`engine`).

pub mod census;
pub mod words;

use crate::able::Able;
use crate::engine::order::Order;
use crate::engine::seen::{Row, Seen};
use crate::engine::tool::{Tools, ask};
use crate::engine::{Cluster, Engine, Trouble};
use std::collections::BTreeSet;

/// The batch system of a site whose hosts are a pool of HTCondor's.
pub type Condor = Cluster<Commands>;

/// `condor_submit`, `condor_q`, `condor_rm`, and to drain hosts `condor_qedit`, as they are in PATH.
#[derive(Clone, Debug)]
pub struct Commands(pub Tools);

impl Engine for Commands {
    const NAME: &'static str = "condor";
    const ABLE: Able = Able {
        gpus: true,
        shares: false,
        queues: false,
        projects: true,
        exclusive: false,
        // Slots of it are matched one by one, so that half of a job could wait in its slots for the other half.
        hosts: false,
    };
    const LOG: Option<&'static str> = Some(words::LOG);

    async fn submit(&self, order: &Order) -> Result<(), Trouble> {
        order.prepare()?;
        let line = ["-terse", "-"].map(str::to_owned);
        let script = match order.script(None)? {
            Some(text) => Some(order.put_script(&text)?),
            None => None,
        };
        let submission = words::submission(order, script.as_deref());
        let said = ask(&self.0, "condor_submit", &line, &submission).await?;
        match said.well {
            true => Ok(()),
            false => Err(trouble("condor_submit", said.complaint)),
        }
    }

    async fn look(&self, site: &str) -> Result<Vec<Row>, Trouble> {
        let mut line = vec![
            "-constraint".to_owned(),
            words::constraint("KumikoSite", site),
        ];
        line.push("-af:t".to_owned());
        line.extend(words::ATTRIBUTES.map(str::to_owned));
        let said = ask(&self.0, "condor_q", &line, "").await?;
        match said.well {
            true => words::rows(&said.output)
                .map_err(|error| Trouble::unreachable("condor_q", error.to_string())),
            false => Err(Trouble::unreachable("condor_q", said.complaint)),
        }
    }

    async fn cancel(&self, tag: &str) -> Result<(), Trouble> {
        let line = [
            "-constraint".to_owned(),
            words::constraint("KumikoTag", tag),
        ];
        let said = ask(&self.0, "condor_rm", &line, "").await?;
        match said.well || said.complaint.contains("no jobs") {
            true => Ok(()),
            false => Err(trouble("condor_rm", said.complaint)),
        }
    }

    /// HTCondor is not asked whether it has them: a host that is not there now may be soon.
    async fn avoid(
        &self,
        site: &str,
        hosts: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Trouble> {
        let line = [
            "-constraint".to_owned(),
            words::constraint("KumikoSite", site),
            words::AVOIDS.to_owned(),
            format!("\"{}\"", words::slots_of(hosts.iter())),
        ];
        let said = ask(&self.0, "condor_qedit", &line, "").await?;
        match said.well || !words::is_unreachable(&said.complaint) {
            true => Ok(hosts.clone()),
            false => Err(Trouble::unreachable("condor_qedit", said.complaint)),
        }
    }

    fn read(&self, log: &[u8]) -> Option<Seen> {
        words::last_event(log)
    }
}

fn trouble(tried: &str, complaint: String) -> Trouble {
    match words::is_unreachable(&complaint) {
        true => Trouble::unreachable(tried, complaint),
        false => Trouble::Refused { words: complaint },
    }
}
