//! Counters for /metrics (spec/info, H4; Prometheus text format 0.0.4). They tell how much, never who.

use crate::index::Index;
use kumiko_directory::source::Standing;
use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened since the server started.
#[derive(Debug, Default)]
pub struct Counts {
    pub queries: AtomicU64,
    pub changes: AtomicU64,
    pub refused_changes: AtomicU64,
    pub snapshots: AtomicU64,
    pub connections: AtomicU64,
    /// For want of room.
    pub turned_away: AtomicU64,
    /// LDAP clients that read nothing, asked nothing or said what is no LDAP.
    pub given_up: AtomicU64,
    pub failed_readings: AtomicU64,
}

/// The whole text.
pub(crate) fn text(index: &Index) -> String {
    let counts = &index.counts;
    let (entries, sequence, live, stale) = index.read(|inner| {
        let (mut live, mut stale) = (0_u64, 0_u64);
        for (_, registration) in inner.registrations.all() {
            match registration.standing {
                Standing::Live => live += 1,
                Standing::Stale { .. } => stale += 1,
            }
        }
        let directory = &inner.directory;
        (directory.len() as u64, directory.sequence(), live, stale)
    });
    let above = index.above.lock().unwrap_or_else(PoisonError::into_inner);
    let registered = above
        .values()
        .filter(|state| *state == "registered")
        .count() as u64;
    let asked_above = above.len() as u64;
    drop(above);
    let mut out = String::new();
    for (name, kind, help, value) in [
        ("entries", "gauge", "Entries that are known.", entries),
        (
            "sources_live",
            "gauge",
            "Registrations that are heard.",
            live,
        ),
        (
            "sources_stale",
            "gauge",
            "Registrations that are not heard, and kept.",
            stale,
        ),
        (
            "above",
            "gauge",
            "Servers that this one is to register with.",
            asked_above,
        ),
        (
            "above_registered",
            "gauge",
            "Servers that this one is registered with.",
            registered,
        ),
        (
            "sequence",
            "counter",
            "The number of the last change of the directory.",
            sequence,
        ),
        (
            "queries_total",
            "counter",
            "Questions, by LDAP, HTTP and sessions.",
            counts.queries.load(Relaxed),
        ),
        (
            "changes_total",
            "counter",
            "Changes told by sources.",
            counts.changes.load(Relaxed),
        ),
        (
            "refused_changes_total",
            "counter",
            "Changes that were not made.",
            counts.refused_changes.load(Relaxed),
        ),
        (
            "snapshots_total",
            "counter",
            "Times that a source told everything.",
            counts.snapshots.load(Relaxed),
        ),
        (
            "connections_total",
            "counter",
            "Connections that were let in.",
            counts.connections.load(Relaxed),
        ),
        (
            "turned_away_total",
            "counter",
            "Connections that were too many.",
            counts.turned_away.load(Relaxed),
        ),
        (
            "given_up_total",
            "counter",
            "LDAP connections that were ended by this side.",
            counts.given_up.load(Relaxed),
        ),
        (
            "failed_readings_total",
            "counter",
            "Readings of providers that failed.",
            counts.failed_readings.load(Relaxed),
        ),
    ] {
        // Writing to a String does not fail.
        let _ = write!(
            out,
            "# HELP kumiko_info_{name} {help}\n# TYPE kumiko_info_{name} {kind}\nkumiko_info_{name} {value}\n"
        );
    }
    out
}
