//! Who is woken when something happens in a spool: its runner is there, its end is written, its engine's log grew. Where the
//! kernel cannot say so (another host wrote it, too many watches), asking the engine has to do.

use super::follow::Live;
use kumiko_linux::watch::{Watch, WatchId};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::unix::AsyncFd;

pub struct Bells {
    watch: Option<AsyncFd<Watch>>,
    whose: Mutex<HashMap<WatchId, Arc<Live>>>,
}

/// Until dropped, `Live` is woken.
pub struct Rope<'a> {
    bells: &'a Bells,
    directory: Option<WatchId>,
    log: Option<WatchId>,
}

impl Bells {
    pub fn new() -> Bells {
        // What stands in its place is unsafe: its caller has to know that the descriptor is its owner's for good. It is.
        #[allow(deprecated)]
        let watch = Watch::new().and_then(AsyncFd::new);
        if let Err(error) = &watch {
            tracing::warn!(%error, "nothing tells when an attempt begins: its engine is asked");
        }
        Bells {
            watch: watch.ok(),
            whose: Mutex::default(),
        }
    }

    pub fn hang<'a>(&'a self, spool: &Path, live: &Arc<Live>) -> Rope<'a> {
        Rope {
            directory: self.add(live, |watch| watch.directory(spool).ok()),
            log: None,
            bells: self,
        }
    }

    fn add(&self, live: &Arc<Live>, how: impl Fn(&Watch) -> Option<WatchId>) -> Option<WatchId> {
        let watch = self.watch.as_ref()?;
        let mut whose = self.whose.lock().unwrap_or_else(PoisonError::into_inner);
        let id = how(watch.get_ref())?;
        whose.insert(id, Arc::clone(live));
        Some(id)
    }

    fn drop(&self, id: WatchId) {
        let mut whose = self.whose.lock().unwrap_or_else(PoisonError::into_inner);
        whose.remove(&id);
        if let Some(watch) = &self.watch {
            watch.get_ref().forget(id);
        }
    }

    /// Wakes whomever it concerns, for ever.
    pub async fn ring_all(&self) {
        let Some(watch) = &self.watch else {
            return;
        };
        while let Ok(mut ready) = watch.readable().await {
            ready.clear_ready();
            let Ok(ids) = watch.get_ref().happened() else {
                return;
            };
            let whose = self.whose.lock().unwrap_or_else(PoisonError::into_inner);
            match ids.is_empty() {
                true => whose.values().for_each(|live| live.wake()),
                false => ids
                    .iter()
                    .filter_map(|id| whose.get(id))
                    .for_each(|live| live.wake()),
            }
        }
    }
}

impl Rope<'_> {
    /// The engine's log as well, once it is there.
    pub fn with_log(&mut self, log: &Path, live: &Arc<Live>) {
        if self.log.is_none() {
            self.log = self.bells.add(live, |watch| watch.file(log).ok());
        }
    }
}

impl Drop for Rope<'_> {
    fn drop(&mut self) {
        for id in [self.directory, self.log].into_iter().flatten() {
            self.bells.drop(id);
        }
    }
}
