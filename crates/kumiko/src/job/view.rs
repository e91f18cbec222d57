//! How jobs and events look to people.

use crate::output::Show;
use kumiko_job::attempt::Outcome;
use kumiko_job::contract::{EventView, JobState, JobView};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::StagingIn => "staging in",
        JobState::StagingOut => "staging out",
        JobState::Pending => "pending",
        JobState::Active => "active",
        JobState::Suspended => "suspended",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// The whole story of one job, for `show`.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Whole(pub JobView);

impl Show for Whole {
    fn human(&self) -> String {
        let v = &self.0;
        let mut text = format!("job {}: {}\n", v.id, state_word(v.state));
        let mut line = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("  {name:<12}{value}\n"));
            }
        };
        line("name", v.name.clone());
        line("command", Some(command(v)));
        line("subject", Some(v.subject.clone()));
        line("account", Some(v.account.clone()));
        line("batch", v.batch.clone());
        line("mechanism", v.mechanism.clone());
        line(
            "not enforced",
            (!v.not_enforced.is_empty()).then(|| v.not_enforced.join("; ")),
        );
        line("attempt", Some(v.epoch.to_string()));
        line(
            "credential",
            v.credential_ends_ms
                .map(|end| format!("ends in {}", left(end))),
        );
        line(
            "files",
            v.staging.map(|moved| {
                let (done, all) = (moved.files_done, moved.files);
                format!("{done} of {all} moved, {} bytes", moved.bytes_done)
            }),
        );
        line("together", v.together.as_ref().map(|one| one.words()));
        line("held", v.held.then(|| "until it is released".to_owned()));
        line("submitted", Some(ago(v.submitted_ms)));
        line("ran for", ran_for(v));
        line("outcome", v.outcome.as_ref().map(outcome_words));
        line("stdout", Some(format!("{} bytes", v.stdout_bytes)));
        line("stderr", Some(format!("{} bytes", v.stderr_bytes)));
        text
    }
}

pub fn row(v: &JobView) -> Vec<String> {
    vec![
        v.id.to_string(),
        state_word(v.state).to_owned(),
        ran_for(v).unwrap_or_default(),
        v.name.clone().unwrap_or_default(),
        command(v),
    ]
}

fn command(v: &JobView) -> String {
    let mut text = v.executable.clone();
    for argument in &v.arguments {
        text.push(' ');
        text.push_str(&argument.escape_debug().to_string());
    }
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}

/// How an attempt ended, in words.
pub fn outcome_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { status } => format!("exited with status {status}"),
        Outcome::Signalled { signal } => format!("killed by signal {signal}"),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::TimeLimit => "stopped at its time limit".to_owned(),
        Outcome::OutputQuota { stream } => {
            format!("stopped: its {stream:?} outgrew the quota").to_lowercase()
        }
        Outcome::NeverStarted { message, .. } => format!("never started: {message}"),
        Outcome::SpoolFailed { message } => {
            format!("stopped: its output could not be kept: {message}")
        }
        Outcome::StagingFailed { item, message, .. } => format!("{item} was not moved: {message}"),
        Outcome::EngineEnded { cause, message } => {
            format!(
                "ended by its batch system, since {}: {message}",
                cause.words()
            )
        }
        Outcome::Lost { message } => format!("lost: {message}"),
    }
}

fn ran_for(v: &JobView) -> Option<String> {
    let end = v.ended_ms.unwrap_or_else(now_ms);
    v.started_ms.map(|start| span(end.saturating_sub(start)))
}

fn ago(at_ms: u64) -> String {
    format!("{} ago", span(now_ms().saturating_sub(at_ms)))
}

/// From now to then.
pub fn left(until_ms: u64) -> String {
    span(until_ms.saturating_sub(now_ms()))
}

fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..100_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        100_000..6_000_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct Event(pub EventView);

impl Show for Event {
    fn human(&self) -> String {
        format!(
            "{:>4}  {:<10} {}",
            self.0.number,
            state_word(self.0.state),
            self.0.text
        )
    }
}
