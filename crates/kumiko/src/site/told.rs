//! What a site tells the info server beside it, which is a process of its own: a file that is always whole (spec/info, P9).

use crate::fail::Failure;
use crate::home::{Home, read_optional, write_whole};
use kumiko_batch::chosen::Name;
use kumiko_job::admission::{Capacity, RESERVABLE};
use kumiko_job::census::Census;
use kumiko_manager::Stats;
use kumiko_policy::Limited;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// Between two writes: the info server looks each second, and jobs may come and go a hundred times in one.
const AT_MOST_EACH: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub batch: String,
    /// By the keys of limits (spec/policy, P1); what cannot be reserved is not there.
    pub left: BTreeMap<String, u64>,
    /// None: an engine that did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub census: Option<Census>,
}

/// What fork has: a slot is a processor of the site's host, free of jobs and not reserved by any.
pub fn of_fork(slots: u64, stats: &Stats) -> Census {
    let waiting = stats.queued as u64;
    let running = (stats.live as u64).saturating_sub(waiting);
    let unreserved = stats.left.get(Limited::Cpu).map(|percent| percent / 100);
    let slots_free = slots
        .saturating_sub(running)
        .min(unreserved.unwrap_or(slots));
    Census {
        slots,
        slots_free,
        slots_host: slots_free,
        waiting,
        running,
        ..Census::default()
    }
}

impl Told {
    fn new(batch: Name, left: &Capacity, census: Option<Census>) -> Told {
        let named = RESERVABLE.map(|of| left.get(of).map(|left| (of.key().to_owned(), left)));
        Told {
            batch: batch.as_str().to_owned(),
            census,
            left: match batch {
                Name::Fork => named.into_iter().flatten().collect(),
                Name::Slurm | Name::Condor => BTreeMap::new(), // the engine's to say
            },
        }
    }

    pub fn read(home: &Home) -> Result<Option<Told>, Failure> {
        let text = read_optional(&home.told())?;
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        write_whole(path, &serde_json::to_string(self)?)
    }
}

/// Writes it whenever it is another; does not end before the manager does. `engine`: of one that is none, never told.
/// `slots`: of fork.
pub async fn tell(
    path: PathBuf,
    batch: Name,
    slots: u64,
    mut stats: Receiver<Stats>,
    mut engine: Receiver<Option<Census>>,
) {
    let mut last = None;
    loop {
        let now = *stats.borrow_and_update();
        let census = match batch {
            Name::Fork => Some(of_fork(slots, &now)),
            Name::Slurm | Name::Condor => engine.borrow_and_update().clone(),
        };
        let told = Told::new(batch, &now.left, census);
        if last.as_ref() != Some(&told) {
            match told.write(&path) {
                Ok(()) => last = Some(told),
                Err(failure) => tracing::warn!(%failure, "what is left to reserve is not told"),
            }
            tokio::time::sleep(AT_MOST_EACH).await;
        }
        tokio::select! {
            changed = stats.changed() => if changed.is_err() {
                return;
            },
            Ok(()) = engine.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_policy::Limits;

    #[test]
    fn a_slot_of_fork_is_free_of_jobs_and_not_reserved() {
        let check = |live: usize, queued: usize, left: Option<u64>, expected: u64| {
            let limits = Limits {
                cpu_percent: left,
                ..Limits::default()
            };
            let stats = Stats {
                live,
                queued,
                left: Capacity::new(&limits),
                ..Stats::default()
            };
            let census = of_fork(4, &stats);
            assert_eq!(census.slots_free, expected, "{live} {queued} {left:?}");
            assert_eq!(census.running + census.waiting, live as u64);
        };
        check(0, 0, None, 4);
        check(3, 2, Some(400), 3);
        check(9, 0, Some(400), 0);
        check(1, 0, Some(199), 1);
    }
}
