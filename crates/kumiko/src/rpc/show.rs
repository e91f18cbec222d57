//! `kumiko rpc show`: what is recorded of a call at its site (spec/rpc P58), event by event. Not here: what events mean.

use crate::output::Show;
use kumiko_call::event::{CallEvent, End, Failure, Recorded};
use kumiko_call::id::CheckpointId;
use serde::Serialize;

/// One event; its JSON form is the site's.
#[derive(Serialize)]
pub struct Line {
    #[serde(flatten)]
    event: Recorded,
    /// When the call was invoked.
    #[serde(skip)]
    begun_ms: Option<u64>,
}

pub fn lines(all: Vec<Recorded>) -> Vec<Line> {
    let begun_ms = all.first().and_then(|first| first.at_ms);
    let line = |event| Line { event, begun_ms };
    all.into_iter().map(line).collect()
}

impl Show for Line {
    fn human(&self) -> String {
        let after = match (self.event.at_ms, self.begun_ms) {
            // A clock that was set back tells no time.
            (Some(at), Some(begun)) if at >= begun => {
                format!("{:.3} s", (at - begun) as f64 / 1e3)
            }
            _ => "?".to_owned(),
        };
        format!("{after:>12}  {}", words(&self.event.event))
    }
}

fn words(event: &CallEvent) -> String {
    match event {
        CallEvent::Invoked(invocation) => {
            let (routine, bytes) = (&invocation.routine, invocation.in_bytes);
            format!("{routine} is called, with {bytes} bytes of arguments")
        }
        CallEvent::Received { blocks } => format!("blocks of arguments that are here: {blocks}"),
        CallEvent::Planned {
            epoch,
            host,
            checkpoint,
        } => match checkpoint {
            None => format!("attempt {epoch} goes to {host}, from the beginning"),
            Some(one) => format!("attempt {epoch} goes to {host}, from {}", named(one)),
        },
        CallEvent::Started { epoch, recovery } => match recovery {
            None => format!("attempt {epoch} computes"),
            Some(words) => format!("attempt {epoch} computes: {words}"),
        },
        CallEvent::Checkpointed { checkpoint } => format!("{} is kept", named(checkpoint)),
        CallEvent::Suspected { epoch } => format!("attempt {epoch}: its host is silent"),
        CallEvent::Trusted { epoch } => format!("attempt {epoch}: its host is heard again"),
        CallEvent::AttemptEnded {
            epoch,
            end,
            failure,
        } => {
            let end = ended(end);
            match failure {
                None => format!("attempt {epoch} {end}"),
                Some(failure) => format!("attempt {epoch} {end}: the call {}", failed(failure)),
            }
        }
        CallEvent::MigrateRequested { epoch, to } => {
            let place = match to {
                Some(host) => format!("at {host}"),
                None => "elsewhere".to_owned(),
            };
            format!("attempt {epoch} is to go on {place}, as its caller asked")
        }
        CallEvent::CancelRequested => "its caller does not want it any more".to_owned(),
        CallEvent::Acknowledged => "its caller has the outcome".to_owned(),
        CallEvent::Expired => "nobody came for it in time".to_owned(),
    }
}

fn named(checkpoint: &CheckpointId) -> String {
    format!(
        "checkpoint {} of attempt {}",
        checkpoint.number, checkpoint.epoch
    )
}

fn ended(end: &End) -> String {
    match end {
        End::Finished { out_bytes } => format!("has the result, {out_bytes} bytes"),
        End::Crashed { cause, point: 0 } => format!("crashed: {cause}"),
        End::Crashed { cause, point } => format!("crashed after safe point {point}: {cause}"),
        End::Raised { error, told } => format!("ended by its own error {error}: {told}"),
        End::Killed { cause } => format!("was killed: {cause}"),
        End::Preempted => "lost its place".to_owned(),
        End::HostLost => "was lost with its host".to_owned(),
        End::NoSpace => "found no room".to_owned(),
        End::BadCheckpoint => "could not begin at its checkpoint".to_owned(),
        End::TimeLimit => "computed for longer than it may".to_owned(),
        End::Cancelled => "was told to end".to_owned(),
        End::Refused { message } => format!("was refused: {message}"),
    }
}

fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Crashes { .. } => "fails, for it would crash again".to_owned(),
        Failure::Fruitless { attempts, .. } => {
            format!("fails after {attempts} attempts that came no further")
        }
        Failure::Raised { .. } | Failure::TimeLimit | Failure::Refused { .. } => "fails".to_owned(),
        Failure::Cancelled => "is cancelled".to_owned(),
    }
}
