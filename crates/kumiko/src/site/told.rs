//! What a site tells the info server beside it, which is a process of its own: a file that is always whole (spec/info, P9).

use crate::fail::Failure;
use crate::home::{Home, read_optional, write_whole};
use kumiko_batch::chosen::Name;
use kumiko_job::admission::{Capacity, RESERVABLE};
use kumiko_manager::Stats;
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
}

impl Told {
    fn new(batch: Name, left: &Capacity) -> Told {
        let named = RESERVABLE.map(|of| left.get(of).map(|left| (of.key().to_owned(), left)));
        Told {
            batch: batch.as_str().to_owned(),
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

/// Writes it whenever it is another; does not end before the manager does.
pub async fn tell(path: PathBuf, batch: Name, mut stats: Receiver<Stats>) {
    let mut last = None;
    loop {
        let told = Told::new(batch, &stats.borrow_and_update().left);
        if last.as_ref() != Some(&told) {
            match told.write(&path) {
                Ok(()) => last = Some(told),
                Err(failure) => tracing::warn!(%failure, "what is left to reserve is not told"),
            }
            tokio::time::sleep(AT_MOST_EACH).await;
        }
        if stats.changed().await.is_err() {
            return;
        }
    }
}
