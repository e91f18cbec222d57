//! The running of providers (spec/info, P1 to P7): each in a task of its own, with its time limit; what changed is
//! published, and what failed is said in an entry of the provider's own. No query ever waits for one.

mod external;
mod host;

use crate::config::{Config, Place};
use crate::index::Index;
use kumiko_directory::provider::{Provider, ReadError, Told};
use kumiko_directory::{Dn, Entry, Stamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

pub use host::{HostFacts, HostProvider};

/// What of a failure is told.
const STATUS_MOST_CHARS: usize = 300;
/// Readings are not begun more often, whatever is configured.
const EVERY_LEAST: Duration = Duration::from_millis(50);

/// The providers that the settings name.
pub(crate) fn of_config(config: &Config, place: &Place) -> Vec<Box<dyn Provider>> {
    let mut providers: Vec<Box<dyn Provider>> = Vec::new();
    for one in &config.providers {
        let suffix = Index::empty(config).suffix().clone();
        providers.push(Box::new(external::External::new(
            one.clone(),
            suffix,
            &place.sandbox,
        )));
    }
    providers
}

/// Reads and publishes until the server ends.
pub(crate) async fn run(index: Arc<Index>, mut provider: Box<dyn Provider>) {
    let source = index.change(|inner| inner.registrations.own_source());
    let base = index.read(|inner| inner.directory.suffix().clone());
    let mut told = Told::default();
    let mut good: Vec<Entry> = Vec::new();
    loop {
        let begun = Instant::now();
        let limit = provider.limit();
        let read = tokio::time::timeout(limit, provider.read()).await;
        let read = read.unwrap_or(Err(ReadError::Late { limit }));
        let mut reading = match read {
            Ok(entries) => {
                good.clone_from(&entries);
                entries
            }
            Err(error) => {
                index.counts.failed_readings.fetch_add(1, Relaxed);
                tracing::warn!(provider = provider.name(), %error, "a reading failed");
                // What was read before stays, with the times at which it was measured.
                let mut entries = good.clone();
                entries.push(complaint(provider.name(), &error, index.clock.now_ms()));
                entries
            }
        };
        reading.truncate(index.config.limits.entries_of_source);
        let ops = told.tell(reading);
        if !ops.is_empty() {
            index.change(|inner| index.apply(inner, source, &base, &ops));
        }
        tokio::time::sleep_until(begun + provider.every().max(EVERY_LEAST)).await;
    }
}

fn complaint(name: &str, error: &ReadError, now_ms: u64) -> Entry {
    let said: String = error.to_string().chars().take(STATUS_MOST_CHARS).collect();
    let name = format!("provider {name}");
    Entry::new(Dn::default().child("Mds-Software-deployment", &name))
        .with("objectClass", ["top", "Mds", "MdsSoftware"])
        .with("Mds-Software-deployment", [name])
        .with("kumiko-provider-status", [said])
        .stamped(Stamp {
            measured_ms: now_ms,
            holds_ms: 0,
        })
}
