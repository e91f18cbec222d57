//! How long sites took to answer this person's `--where`, and how fast folders went there, kept for the next choice
//! (spec/jobs/placement.md, PM16 and PM18). A file of the cache: that it is lost, or of another writer, changes an order and nothing else.

use crate::{now_ms, read, write};
use kumiko_client::Sent;
use kumiko_directory::choose::Candidate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What was so long ago is told of another network.
const HOLDS_MS: u64 = 24 * 3600 * 1000;
/// Sites that are remembered; the oldest go.
const SITES_MOST: usize = 256;
/// Less data than this takes as long as the way alone.
const TELLING_BYTES: u64 = 256 << 10;
const LATENCY: &str = "kumiko-latency-seconds";
const BANDWIDTH: &str = "kumiko-bandwidth-bytesPerSec";
const TRANSFER: &str = "kumiko-transfer-seconds";
/// What an index has nothing to say of: the way from here.
const OWN: [&str; 3] = [LATENCY, BANDWIDTH, TRANSFER];

#[derive(Debug, Default, Serialize, Deserialize)]
struct Measured {
    /// By contact.
    sites: BTreeMap<String, Site>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Site {
    #[serde(default)]
    latency_us: Option<u64>,
    #[serde(default)]
    bytes_per_second: Option<f64>,
    /// Unix time, milliseconds.
    at_ms: u64,
}

const FILE: &str = "sites.json";

/// Tells candidates of what was measured of them, and what it makes of a folder of so many bytes that goes along.
pub fn add_to(candidates: &mut [Candidate], folder_bytes: Option<u64>) {
    let measured: Measured = read(FILE);
    let now_ms = now_ms();
    let known = |contact: &str| {
        let site = measured.sites.get(contact);
        site.filter(|site| now_ms.saturating_sub(site.at_ms) < HOLDS_MS)
    };
    let rates: Vec<Option<f64>> = candidates
        .iter()
        .map(|one| known(&one.contact).and_then(|site| site.bytes_per_second))
        .collect();
    for (candidate, rate) in candidates.iter_mut().zip(&rates) {
        let own = &mut candidate.attributes;
        for name in OWN {
            own.remove(name);
        }
        let mut tell =
            |name: &str, value: f64| own.insert(name.to_owned(), vec![value.to_string()]);
        let latency = known(&candidate.contact).and_then(|site| site.latency_us);
        if let Some(latency_us) = latency {
            tell(LATENCY, Duration::from_micros(latency_us).as_secs_f64());
        }
        if let Some(rate) = rate {
            tell(BANDWIDTH, rate.round());
        }
        let rate = rate.or_else(|| middle(&rates));
        if let Some((bytes, rate)) = folder_bytes.zip(rate) {
            tell(TRANSFER, (bytes as f64 / rate).floor());
        }
    }
}

/// One that was not tried is neither the best nor the worst.
fn middle(rates: &[Option<f64>]) -> Option<f64> {
    let mut known: Vec<f64> = rates.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    known.get(known.len() / 2).copied()
}

/// Bytes of the files of a folder; what cannot be read is found out when it is sent.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => folder_bytes(&entry.path()),
        Ok(about) if about.is_file() => about.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

/// Remembers how long a site took to answer.
pub fn keep(contact: &str, latency: Duration) {
    change(contact, |site| {
        site.latency_us = u64::try_from(latency.as_micros()).ok();
    });
}

/// Remembers how fast a folder went there: half of it is what was before.
pub fn keep_rate(contact: &str, sent: Sent) {
    let seconds = sent.took.as_secs_f64();
    if sent.bytes < TELLING_BYTES || seconds <= 0.0 {
        return;
    }
    let rate = sent.bytes as f64 / seconds;
    change(contact, |site| {
        let before = site.bytes_per_second.unwrap_or(rate);
        site.bytes_per_second = Some(f64::midpoint(before, rate));
    });
}

/// Several sites are asked at once: what one thread keeps another does not write over.
static TURN: Mutex<()> = Mutex::new(());

/// That it cannot be kept harms nobody.
fn change(contact: &str, change: impl FnOnce(&mut Site)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut measured: Measured = read(FILE);
    let site = measured.sites.entry(contact.to_owned()).or_default();
    change(site);
    site.at_ms = now_ms();
    while measured.sites.len() > SITES_MOST {
        let oldest = measured.sites.iter().min_by_key(|(_, site)| site.at_ms);
        let Some(oldest) = oldest.map(|(contact, _)| contact.clone()) else {
            break;
        };
        measured.sites.remove(&oldest);
    }
    write(FILE, &measured);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_taken_as_the_middle() {
        assert_eq!(middle(&[None, Some(1.0), Some(9.0), Some(4.0)]), Some(4.0));
        assert_eq!(middle(&[None, Some(2.0)]), Some(2.0));
        assert_eq!(middle(&[None]), None);
    }

    #[test]
    fn a_folder_has_the_bytes_of_its_files() {
        let folder = std::env::temp_dir().join(format!("kumiko-measured-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("within")).unwrap();
        std::fs::write(folder.join("a"), [0; 10]).unwrap();
        std::fs::write(folder.join("within/b"), [0; 5]).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        assert_eq!(folder_bytes(&folder), 15);
        assert_eq!(folder_bytes(&folder.join("nothing")), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
