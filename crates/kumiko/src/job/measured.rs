//! How long sites took to answer this person's `--where`, kept for the next choice (spec/jobs/placement.md, PM16). A file of
//! the cache: that it is lost, or of another writer, changes an order and nothing else.

use crate::home::{read_optional, write_whole};
use crate::job::view::now_ms;
use kumiko_directory::choose::Candidate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What was so long ago is told of another network.
const HOLDS_MS: u64 = 24 * 3600 * 1000;
/// Sites that are remembered; the oldest go.
const SITES_MOST: usize = 256;
const ATTRIBUTE: &str = "kumiko-latency-seconds";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Measured {
    /// By contact.
    sites: BTreeMap<String, Site>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Site {
    latency_us: u64,
    /// Unix time, milliseconds.
    at_ms: u64,
}

/// $XDG_CACHE_HOME/kumiko/sites.json, else below ~/.cache.
fn place() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty());
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
    let folder = named.map(PathBuf::from).or_else(home)?;
    Some(folder.join("kumiko/sites.json"))
}

fn load() -> Measured {
    let text = place().and_then(|path| read_optional(&path).ok()?);
    let read = text.and_then(|text| serde_json::from_str(&text).ok());
    read.unwrap_or_default()
}

/// Tells candidates of what was measured of them.
pub fn add_to(candidates: &mut [Candidate]) {
    let measured = load();
    let now_ms = now_ms();
    for candidate in candidates {
        // An index has nothing to say of the way from here.
        candidate.attributes.remove(ATTRIBUTE);
        let known = measured.sites.get(&candidate.contact);
        if let Some(site) = known.filter(|site| now_ms.saturating_sub(site.at_ms) < HOLDS_MS) {
            let seconds = Duration::from_micros(site.latency_us).as_secs_f64();
            let values = vec![seconds.to_string()];
            candidate.attributes.insert(ATTRIBUTE.to_owned(), values);
        }
    }
}

/// Remembers how long a site took to answer. That it cannot be kept harms nobody.
pub fn keep(contact: &str, latency: Duration) {
    let Some(path) = place() else {
        return;
    };
    let mut measured = load();
    let site = Site {
        latency_us: u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
        at_ms: now_ms(),
    };
    measured.sites.insert(contact.to_owned(), site);
    while measured.sites.len() > SITES_MOST {
        let oldest = measured.sites.iter().min_by_key(|(_, site)| site.at_ms);
        let Some(oldest) = oldest.map(|(contact, _)| contact.clone()) else {
            break;
        };
        measured.sites.remove(&oldest);
    }
    let folder = path.parent().map(std::fs::create_dir_all);
    let text = serde_json::to_string(&measured);
    if let (Some(Ok(())), Ok(text)) = (folder, text) {
        if let Err(failure) = write_whole(&path, &text) {
            tracing::debug!(%failure, "what was measured is not kept");
        }
    }
}
