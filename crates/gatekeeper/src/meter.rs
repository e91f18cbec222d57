//! Counters for /metrics (Prometheus text format 0.0.4). They tell how much, never who.

use crate::Refused;
use crate::refused::{NAMES, REASONS};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub sessions: AtomicU64,
    pub rest: AtomicU64,
    pub gram: AtomicU64,
    pub requests: AtomicU64,
    pub refusals: AtomicU64,
    pub output_bytes: AtomicU64,
    pub stdin_bytes: AtomicU64,
    pub reloads: AtomicU64,
    pub failed_reloads: AtomicU64,
    refused: [AtomicU64; REASONS],
}

/// What is read off elsewhere when /metrics is asked.
pub(crate) struct Gauges {
    pub connections: usize,
    pub session: kumiko_session::Stats,
    pub jobs: Vec<(&'static str, &'static str, u64)>,
}

impl Meter {
    pub fn refused(&self, why: &Refused) {
        self.refused[why.index()].fetch_add(1, Relaxed);
    }

    pub fn text(&self, gauges: &Gauges) -> String {
        let mut out = String::with_capacity(2048);
        let mut put = |name: &str, kind: &str, help: &str, value: u64| {
            // Writing into a String cannot fail.
            let _ = write!(
                out,
                "# HELP kumiko_{name} {help}\n# TYPE kumiko_{name} {kind}\nkumiko_{name} {value}\n"
            );
        };
        put(
            "connections",
            "gauge",
            "Connections open now.",
            gauges.connections as u64,
        );
        put(
            "sessions_attached",
            "gauge",
            "Sessions with a connection.",
            gauges.session.attached as u64,
        );
        put(
            "sessions_detached",
            "gauge",
            "Sessions waiting for their owner.",
            gauges.session.detached as u64,
        );
        put(
            "session_streams",
            "gauge",
            "Streams open in sessions.",
            gauges.session.streams as u64,
        );
        put(
            "session_held_bytes",
            "gauge",
            "Sent and not acknowledged.",
            gauges.session.held_bytes as u64,
        );
        for (name, help, value) in &gauges.jobs {
            put(name, "gauge", help, *value);
        }
        put(
            "session_connections_total",
            "counter",
            "Connections let in for a session.",
            self.sessions.load(Relaxed),
        );
        put(
            "rest_connections_total",
            "counter",
            "Connections let in for REST.",
            self.rest.load(Relaxed),
        );
        put(
            "gram_connections_total",
            "counter",
            "Connections let in for GRAM.",
            self.gram.load(Relaxed),
        );
        put(
            "requests_total",
            "counter",
            "Requests, of sessions and REST.",
            self.requests.load(Relaxed),
        );
        put(
            "refusals_total",
            "counter",
            "Requests refused.",
            self.refusals.load(Relaxed),
        );
        put(
            "output_bytes_total",
            "counter",
            "Output of jobs sent.",
            self.output_bytes.load(Relaxed),
        );
        put(
            "stdin_bytes_total",
            "counter",
            "Stdin of jobs received.",
            self.stdin_bytes.load(Relaxed),
        );
        put(
            "reloads_total",
            "counter",
            "Certificates or mapfile read again.",
            self.reloads.load(Relaxed),
        );
        put(
            "failed_reloads_total",
            "counter",
            "Changed but not readable.",
            self.failed_reloads.load(Relaxed),
        );
        out.push_str("# HELP kumiko_refused_connections_total Connections not let in.\n");
        out.push_str("# TYPE kumiko_refused_connections_total counter\n");
        for (name, count) in NAMES.iter().zip(&self.refused) {
            let _ = writeln!(
                out,
                "kumiko_refused_connections_total{{reason=\"{name}\"}} {}",
                count.load(Relaxed)
            );
        }
        out
    }
}
