//! Notices that a policy file of the site, an organisation or the user was edited, and has what runs get what they give now
//! (spec/policy, P77).

use kumiko_linux::watch::Watch;
use std::collections::BTreeSet;
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

/// Never ends. Looks once at first: a file may have been edited while the site was down.
pub async fn follow<F: Future<Output = ()>>(policies: Vec<PathBuf>, changed: impl Fn() -> F) {
    let mut bell = Bell::hang(&policies);
    let mut known = None;
    loop {
        let now: Vec<Stamp> = policies.iter().map(|policy| stamp(policy)).collect();
        if known.as_ref() != Some(&now) {
            changed().await;
            known = Some(now);
        }
        // An error says that time is over.
        let _ = tokio::time::timeout(LOOK_EACH, bell.rings()).await;
    }
}

/// Without one, which a host with no watches left may refuse, the files are looked at all the same.
struct Bell {
    watch: Option<AsyncFd<Watch>>,
    /// Folders that are not there yet.
    missing: BTreeSet<PathBuf>,
}

impl Bell {
    fn hang(policies: &[PathBuf]) -> Bell {
        let hung = || {
            let watch = Watch::new()?;
            // What stands in its place is unsafe: its caller has to know that the descriptor is its owner's for good. It is.
            #[allow(deprecated)]
            AsyncFd::new(watch)
        };
        let watch = hung();
        if let Err(error) = &watch {
            tracing::warn!(%error, "edits of policies are noticed within a second, not at once");
        }
        let folder = |policy: &PathBuf| policy.parent().unwrap_or(Path::new("/")).to_owned();
        Bell {
            watch: watch.ok(),
            missing: policies.iter().map(folder).collect(),
        }
    }

    async fn rings(&mut self) {
        let Some(watch) = &self.watch else {
            return std::future::pending().await;
        };
        let is_missing = |folder: &PathBuf| watch.get_ref().contents(folder).is_err();
        self.missing.retain(is_missing);
        if let Ok(mut ready) = watch.readable().await {
            // What exactly happened does not matter: the files are looked at.
            let _ = watch.get_ref().happened();
            ready.clear_ready();
        }
    }
}
