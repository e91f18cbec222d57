//! Which records of a log are needed to make the ledger that all of it makes (spec/rpc P14). Not here: who deletes the others.

use crate::event::{Event, Record};
use crate::ledger::{Ledger, is_passing};
use std::collections::HashMap;

/// Of a ledger at one moment; what comes later is needed.
#[derive(Clone, Debug)]
pub struct Needs {
    last_record: u64,
    last_client: u64,
    /// Of each client, below which its calls are forgotten.
    first_open: HashMap<u64, u64>,
}

impl Ledger {
    pub fn needs(&self) -> Needs {
        let first_open = self.clients.iter();
        Needs {
            last_record: self.last_record,
            last_client: self.last_client,
            first_open: first_open
                .map(|(number, one)| (*number, one.first_open))
                .collect(),
        }
    }

    /// The next record of a log from which others are gone. Numbers that are missing are theirs.
    ///
    /// # Errors
    /// As [`Ledger::apply`].
    pub fn replay(&mut self, record: &Record) -> Result<(), crate::ledger::Illegal> {
        let before = (self.last_record, self.last_client, self.last_passing);
        self.last_record = self.last_record.max(record.number.saturating_sub(1));
        if let Event::Registered { client, .. } = &record.event {
            let before = client.saturating_sub(1);
            match is_passing(*client) {
                // Those of one process count; the next one's begin elsewhere, and are recorded as they come to be needed.
                true if !self.clients.contains_key(client) => self.last_passing = before,
                true => {}
                false => self.last_client = self.last_client.max(before),
            }
        }
        let applied = self.apply(record);
        if applied.is_err() {
            (self.last_record, self.last_client, self.last_passing) = before;
        }
        applied
    }
}

impl Needs {
    pub fn record(&self, record: &Record) -> bool {
        // Numbers, of records and of clients, go on behind the last.
        if record.number >= self.last_record {
            return true;
        }
        match &record.event {
            Event::Registered { client, .. } | Event::Left { client } => {
                self.first_open.contains_key(client) || *client == self.last_client
            }
            Event::Released { client, below } => self.first_open.get(client) == Some(below),
            Event::Call { call, .. } => {
                let first_open = self.first_open.get(&call.client);
                first_open.is_some_and(|first_open| call.sequence >= *first_open)
            }
        }
    }
}
