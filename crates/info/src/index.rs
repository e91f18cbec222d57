//! What the parts of a server share: the directory and the registrations behind one lock, and a number that tells
//! followers when to look. Answers hold the lock for reading, a piece at a time; changes come in batches.

use crate::config::Config;
use crate::legacy::Listed;
use crate::metrics::Counts;
use crate::time::Clock;
use kumiko_directory::source::Registrations;
use kumiko_directory::{ApplyError, Bounds, Directory, Dn, Op, SourceId};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::watch;

/// Behind the lock.
#[derive(Debug)]
pub struct Inner {
    pub directory: Directory,
    pub registrations: Registrations,
}

/// One server's knowledge.
#[derive(Debug)]
pub struct Index {
    pub config: Config,
    pub clock: Clock,
    /// Of this run: numbers of changes are comparable within it.
    pub epoch: u64,
    pub started: String,
    inner: RwLock<Inner>,
    version: watch::Sender<u64>,
    /// The states of registrations above, by address.
    pub above: Mutex<BTreeMap<String, String>>,
    pub counts: Counts,
    /// Who may register in the manner of MDS 2.
    pub(crate) legacy: Vec<Listed>,
}

impl Index {
    pub(crate) fn new(
        config: Config,
        clock: Clock,
        inner: Inner,
        epoch: u64,
        started: String,
        legacy: Vec<Listed>,
    ) -> Arc<Index> {
        let (version, _) = watch::channel(inner.directory.sequence());
        Arc::new(Index {
            config,
            clock,
            epoch,
            started,
            inner: RwLock::new(inner),
            version,
            above: Mutex::default(),
            counts: Counts::default(),
            legacy,
        })
    }

    /// The empty directory of a server of this name.
    pub fn empty(config: &Config) -> Directory {
        let suffix = Dn::default()
            .child("o", "grid")
            .child("Mds-Vo-name", &config.name);
        let bounds = Bounds {
            entries: config.limits.entries,
            entries_of_source: config.limits.entries_of_source,
        };
        Directory::new(suffix, bounds)
    }

    /// Looks; must not take long.
    pub fn read<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes, and tells followers.
    pub fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut inner);
        let sequence = inner.directory.sequence();
        drop(inner);
        self.version.send_if_modified(|version| {
            let newer = *version < sequence;
            *version = sequence.max(*version);
            newer
        });
        result
    }

    /// Becomes another number whenever something has changed.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Carries out changes of a source; what cannot be done is counted, told once, and holds up nothing else.
    pub fn apply(&self, inner: &mut Inner, source: SourceId, base: &Dn, ops: &[Op]) {
        let mut refused: Option<(ApplyError, u64)> = None;
        for op in ops {
            if let Err(error) = inner.directory.apply(source, base, op) {
                // A change of an entry that has gone meanwhile is nobody's fault.
                if !matches!(error, ApplyError::NoEntry { .. }) {
                    let count = refused.as_ref().map_or(1, |(_, n)| n + 1);
                    refused = Some((error, count));
                }
            }
        }
        self.counts
            .changes
            .fetch_add(ops.len() as u64, Ordering::Relaxed);
        if let Some((error, count)) = refused {
            self.counts
                .refused_changes
                .fetch_add(count, Ordering::Relaxed);
            tracing::warn!(source = source.0, count, %error, "changes were not made; this is the last");
        }
    }

    pub fn set_above(&self, address: &str, state: &str) {
        let mut above = self.above.lock().unwrap_or_else(PoisonError::into_inner);
        let old = above.insert(address.to_owned(), state.to_owned());
        if old.as_deref() != Some(state) {
            tracing::info!(address, state, "registration above");
        }
    }

    /// Where the entries of a registrant go.
    pub fn place_of(&self, name: &str, kind: kumiko_directory::source::Kind) -> Dn {
        let suffix = self.read(|inner| inner.directory.suffix().clone());
        match kind {
            kumiko_directory::source::Kind::Leaf => suffix,
            kumiko_directory::source::Kind::Index => suffix.child("Mds-Vo-name", name),
        }
    }
}
