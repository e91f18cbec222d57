//! Notices that the site's policy file was edited, and has what runs get what it gives now (spec/policy, P77).

use kumiko_linux::watch::Watch;
use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::io::unix::AsyncFd;

/// What inotify does not tell of is seen within this: a file that a link leads to elsewhere, one on NFS.
const LOOK_EACH: Duration = Duration::from_secs(1);

/// Tells one text of a file from the next: who replaces a file within the clock's tick makes another file, or another length.
pub type Stamp = Option<(SystemTime, u64, u64)>;

pub fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.ino(), file.len()))
}

/// Never ends. Looks once at first: the file may have been edited while the site was down.
pub async fn follow<F: Future<Output = ()>>(policy: PathBuf, changed: impl Fn() -> F) {
    let bell = Bell::hang(&policy);
    let mut known = None;
    loop {
        let now = stamp(&policy);
        if known.as_ref() != Some(&now) {
            changed().await;
            known = Some(now);
        }
        // An error says that time is over.
        let _ = tokio::time::timeout(LOOK_EACH, bell.rings()).await;
    }
}

/// Without one, which a host with no watches left may refuse, the file is looked at all the same.
struct Bell(Option<AsyncFd<Watch>>);

impl Bell {
    fn hang(policy: &Path) -> Bell {
        let hung = || {
            let watch = Watch::new()?;
            watch.contents(policy.parent().unwrap_or(Path::new("/")))?;
            // What stands in its place is unsafe: its caller has to know that the descriptor is its owner's for good. It is.
            #[allow(deprecated)]
            AsyncFd::new(watch)
        };
        match hung() {
            Ok(watch) => Bell(Some(watch)),
            Err(error) => {
                tracing::warn!(%error, "edits of the site's policy are noticed within a second, not at once");
                Bell(None)
            }
        }
    }

    async fn rings(&self) {
        let Some(watch) = &self.0 else {
            return std::future::pending().await;
        };
        if let Ok(mut ready) = watch.readable().await {
            // What exactly happened does not matter: the file is looked at.
            let _ = watch.get_ref().happened();
            ready.clear_ready();
        }
    }
}
