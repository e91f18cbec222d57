//! A job's life as a list of events, for the tests of what may follow what.

use kumiko_job::attempt::Outcome;
use kumiko_job::event::{Event, Record};
use kumiko_job::id::JobId;
use kumiko_job::respond::Here;

pub const ID: JobId = JobId(7);
pub const HERE: Here<'static> = Here {
    batch: "fork",
    boot: "b",
    has_room: true,
};

pub const DONE: Outcome = Outcome::Exited { status: 0 };

pub fn planned(epoch: u32) -> Event {
    Event::Planned {
        epoch,
        batch: "fork".into(),
        boot: "b".into(),
    }
}

pub fn started(epoch: u32) -> Event {
    Event::Started {
        epoch,
        pid: 1,
        mechanism: "namespace".into(),
        not_enforced: vec![],
        why: vec![],
    }
}

pub fn ended(epoch: u32, outcome: Outcome, retry: bool) -> Event {
    Event::AttemptEnded {
        epoch,
        outcome,
        retry,
        stdout_bytes: 0,
        stderr_bytes: 0,
        staging_out: false,
        cost: None,
    }
}

pub fn records(events: &[Event]) -> Vec<Record> {
    let number = |(index, event): (usize, &Event)| Record {
        number: index as u64 + 1,
        at_ms: 10 * index as u64,
        event: event.clone(),
    };
    events.iter().enumerate().map(number).collect()
}
