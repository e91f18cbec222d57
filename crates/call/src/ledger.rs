//! All clients and calls of one log, as replay makes them (spec/rpc P10 to P13). What is over is remembered until its client
//! says that it will not ask again, and a client's number is never given twice: so a message that is late by days still
//! finds out that it is late.

use crate::call::{self, Call, Stage};
use crate::event::{Event, Record};
use crate::id::CallId;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Number of the last record.
    pub last_record: u64,
    /// The highest number that a client was given.
    pub last_client: u64,
    /// The same of those whose calls begin in memory.
    pub last_passing: u64,
    pub clients: BTreeMap<u64, Client>,
}

/// Numbers from here on are of clients whose calls begin in memory (P15); what is not logged at all comes nowhere near.
pub const PASSING: u64 = 1 << 61;
/// And end here.
pub const PASSING_END: u64 = 1 << 62;
/// Binary digits of how many of them one process of a server can have.
const CLIENTS_OF_A_PROCESS: u32 = 24;

/// Calls of this client begin in memory.
pub fn is_passing(client: u64) -> bool {
    (PASSING..PASSING_END).contains(&client)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub subject: String,
    /// Calls below are over and forgotten.
    pub first_open: u64,
    /// Of an older process of the server, which may have forgotten calls of it: it begins none any more.
    pub closed: bool,
    pub calls: BTreeMap<u64, Call>,
}

/// A record that cannot follow: the log is damaged, or this is a bug. Never the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {number} ({kind}) cannot follow{}: {why}", about(call, stage))]
pub struct Illegal {
    pub number: u64,
    pub kind: &'static str,
    pub call: Option<CallId>,
    pub stage: &'static str,
    pub why: &'static str,
}

fn about(call: &Option<CallId>, stage: &str) -> String {
    match call {
        Some(call) => format!(" for call {call}, which is {stage}"),
        None => String::new(),
    }
}

/// What is known of a call that somebody asks for.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// No such client: its number was never given, or it has left.
    NoClient {
        given: bool,
    },
    /// Over, and released by its client.
    Forgotten,
    /// Never invoked, as far as the log goes.
    New(&'a Client),
    Call(&'a Client, &'a Call),
}

impl Ledger {
    pub fn find(&self, call: CallId) -> Known<'_> {
        let Some(client) = self.clients.get(&call.client) else {
            return Known::NoClient {
                given: call.client <= self.last_client,
            };
        };
        if call.sequence < client.first_open {
            return Known::Forgotten;
        }
        match client.calls.get(&call.sequence) {
            Some(call) => Known::Call(client, call),
            None => Known::New(client),
        }
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.clients
            .values()
            .flat_map(|client| client.calls.values())
    }

    /// Makes the next state. If the record is illegal nothing changes.
    ///
    /// # Errors
    /// Why the record cannot follow.
    pub fn apply(&mut self, record: &Record) -> Result<(), Illegal> {
        let illegal = Illegal {
            number: record.number,
            kind: kind(&record.event),
            call: None,
            stage: "",
            why: "numbers count without gaps",
        };
        if record.number != self.last_record + 1 {
            return Err(illegal);
        }
        self.happen(&record.event)?;
        self.last_record = record.number;
        Ok(())
    }

    /// As [`Ledger::apply`], of what is not in the log, or not yet ([`crate::held::Held`]).
    ///
    /// # Errors
    /// Why it cannot follow.
    pub fn happen(&mut self, event: &Event) -> Result<(), Illegal> {
        let mut illegal = Illegal {
            number: self.last_record + 1,
            kind: kind(event),
            call: None,
            stage: "",
            why: "",
        };
        let result = match event {
            Event::Registered { client, subject } => self.register(*client, subject),
            Event::Released { client, below } => self.release(*client, *below),
            Event::Left { client } => self.leave(*client),
            Event::Call { call, event } => match self.find(*call) {
                Known::NoClient { .. } => Err("there is no such client"),
                Known::Forgotten => Err("the client released it"),
                Known::New(_) => call::apply(*call, None, event).map(|next| self.put(next)),
                Known::Call(_, known) => {
                    illegal.call = Some(*call);
                    illegal.stage = known.stage.name();
                    call::apply(*call, Some(known), event).map(|next| self.put(next))
                }
            },
        };
        result.map_err(|why| {
            illegal.why = why;
            illegal
        })
    }

    /// After replay, in a new process of the server: `chance` sets the numbers that it gives to those whose calls begin in memory apart
    /// from those that were given before, of which only some are known.
    pub fn begin_anew(&mut self, chance: u64) {
        let passing = self.clients.range_mut(PASSING..PASSING_END);
        passing.for_each(|(_, client)| client.closed = true);
        let most = (PASSING_END - PASSING) >> CLIENTS_OF_A_PROCESS;
        let begin = |part: u64| PASSING + (part << CLIENTS_OF_A_PROCESS);
        let is_free = |part: &u64| {
            let theirs = begin(*part)..begin(part + 1);
            self.clients.range(theirs).next().is_none()
        };
        let mut parts = (0..most).map(|step| chance.wrapping_add(step) % most);
        // There are more than a log has clients.
        self.last_passing = begin(parts.find(is_free).unwrap_or(0));
    }

    fn register(&mut self, number: u64, subject: &str) -> Result<(), &'static str> {
        let last = match is_passing(number) {
            true => &mut self.last_passing,
            false => &mut self.last_client,
        };
        if number != *last + 1 {
            return Err("clients count without gaps");
        }
        *last = number;
        let client = Client {
            subject: subject.to_owned(),
            first_open: 1,
            closed: false,
            calls: BTreeMap::new(),
        };
        self.clients.insert(number, client);
        Ok(())
    }

    fn release(&mut self, number: u64, below: u64) -> Result<(), &'static str> {
        let client = self
            .clients
            .get_mut(&number)
            .ok_or("there is no such client")?;
        if below <= client.first_open {
            return Err("it goes upwards");
        }
        let mut released = client.calls.range(..below);
        if released.any(|(_, call)| !matches!(call.stage, Stage::Done { .. })) {
            return Err("a call below is not done");
        }
        while client
            .calls
            .first_key_value()
            .is_some_and(|(number, _)| *number < below)
        {
            client.calls.pop_first();
        }
        client.first_open = below;
        Ok(())
    }

    fn leave(&mut self, number: u64) -> Result<(), &'static str> {
        let client = self.clients.get(&number).ok_or("there is no such client")?;
        let mut calls = client.calls.values();
        if calls.any(|call| !matches!(call.stage, Stage::Done { .. })) {
            return Err("a call of it is not done");
        }
        self.clients.remove(&number);
        Ok(())
    }

    fn put(&mut self, call: Call) {
        if let Some(client) = self.clients.get_mut(&call.id.client) {
            client.calls.insert(call.id.sequence, call);
        }
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Registered { .. } => "registered",
        Event::Released { .. } => "released",
        Event::Left { .. } => "left",
        Event::Call { event, .. } => event.kind(),
    }
}
