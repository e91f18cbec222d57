//! Which site computes a call (ring 3): an index tells which have its routine (`index`), what was measured from here says which of them
//! is the first (`ways`, `speeds`), and where one does not answer the next is asked (`found`; spec/rpc P43, P44, spec/jobs/placement.md PM10 to
//! PM17). Programs that call a routine often keep its `sites` and their `links`, and each call has its `turn`. What the command, programs in C
//! and in Python share.
//!
//! Not here: whose credential, and what a call does at its site.

mod found;
mod index;
mod links;
mod sites;
pub mod speeds;
mod turn;
pub mod ways;

pub use found::{FindError, Found, Open, Wish};
pub use index::sites;
pub use links::{Link, Links};
pub use sites::Sites;
pub use turn::{CallError, Turn};

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Of a file in $XDG_CACHE_HOME/kumiko, else below ~/.cache.
fn cached(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty());
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
    let folder = named.map(PathBuf::from).or_else(home)?;
    Some(folder.join("kumiko").join(name))
}

/// What is not there, or is not read, is nothing.
fn read<T: Default + serde::de::DeserializeOwned>(name: &str) -> T {
    let text = cached(name).and_then(|path| std::fs::read_to_string(path).ok());
    let read = text.and_then(|text| serde_json::from_str(&text).ok());
    read.unwrap_or_default()
}

/// A reader sees the old one or the new one, whole. That it cannot be kept harms nobody.
fn write(name: &str, what: &impl serde::Serialize) {
    let Some(path) = cached(name) else {
        return;
    };
    if let Err(error) = write_whole(&path, what) {
        tracing::debug!(path = %path.display(), %error, "what was measured is not kept");
    }
}

fn write_whole(path: &Path, what: &impl serde::Serialize) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension("new");
    std::fs::write(&beside, serde_json::to_string(what)?)?;
    std::fs::rename(&beside, path)
}

/// Unix time.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
