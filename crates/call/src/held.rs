//! What a ledger knows and its log does not: calls that begin in memory, and mostly are over before anybody would miss their record
//! (spec/rpc P15). Not here: when one is to be recorded, and who writes.

use crate::event::{CallEvent, Event};
use crate::id::CallId;
use crate::ledger::is_passing;
use std::collections::HashMap;

/// An event, and when it was, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub event: Event,
    pub at_ms: i64,
}

#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Registrations of clients of which nothing is recorded.
    clients: HashMap<u64, Noted>,
    calls: HashMap<CallId, Vec<Noted>>,
}

impl Held {
    /// The events of this call, of a client whose calls begin in memory, are held from its first on.
    pub fn begin(&mut self, call: CallId) {
        self.calls.insert(call, Vec::new());
    }

    pub fn is_held(&self, call: CallId) -> bool {
        self.calls.contains_key(&call)
    }

    pub fn calls(&self) -> impl Iterator<Item = CallId> + '_ {
        self.calls.keys().copied()
    }

    /// What is to be recorded since this happened, in order; mostly that, or nothing.
    pub fn take(&mut self, one: Noted) -> Vec<Noted> {
        match &one.event {
            Event::Registered { client, .. } if is_passing(*client) => {
                self.clients.insert(*client, one);
                Vec::new()
            }
            // What would be forgotten by it is of this process, and so are all that could speak of it.
            Event::Released { client, .. } if is_passing(*client) => Vec::new(),
            Event::Left { client } if self.clients.remove(client).is_some() => Vec::new(),
            Event::Call { call, event } => match self.calls.get_mut(call) {
                Some(held) => {
                    let call = *call;
                    let is_over = matches!(event, CallEvent::Acknowledged | CallEvent::Expired);
                    held.push(one);
                    if is_over {
                        self.calls.remove(&call);
                    }
                    Vec::new()
                }
                None => self
                    .clients
                    .remove(&call.client)
                    .into_iter()
                    .chain([one])
                    .collect(),
            },
            _ => vec![one],
        }
    }

    /// The call is recorded from now on: what is to be for that, in order. Nothing, if it was.
    pub fn keep(&mut self, call: CallId) -> Vec<Noted> {
        let Some(events) = self.calls.remove(&call) else {
            return Vec::new();
        };
        self.clients
            .remove(&call.client)
            .into_iter()
            .chain(events)
            .collect()
    }
}
