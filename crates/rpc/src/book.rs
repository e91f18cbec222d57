//! The calls of one kind of durability: their ledger, and its log if there is one. What is done here is done when it is written, and what is
//! said is said when it is on the disk (spec/rpc P23). Not here: what is done because of it (`calls`), bytes of calls (`store`).

use crate::log::{Along, Log, LogError, Written};
use kumiko_call::call::{Call, Stage};
use kumiko_call::decide::{Action, new_actions};
use kumiko_call::event::{Event, Record, Recorded};
use kumiko_call::id::CallId;
use kumiko_call::ledger::{Known, Ledger};
use kumiko_call::respond::Answer;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Client numbers from here on are of calls that end with the site; those of the log come nowhere near.
pub const VOLATILE: u64 = 1 << 62;
/// Clients that one process of a site can have of these, before its numbers could meet another process's.
const VOLATILE_CLIENTS: u32 = 24;

#[derive(Debug)]
pub struct Book {
    state: Mutex<State>,
    log: Option<Arc<Log>>,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    /// Calls that wait for a routine's process, oldest first.
    waiting: VecDeque<CallId>,
    /// When something was last heard about a call, and of a client (as count 0), by the running time of this process.
    heard: HashMap<CallId, Instant>,
}

/// The log cannot be written now, or the ledger refuses what its own rules gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrecorded {
    #[error("the site cannot write its log of calls now")]
    Stuck,
    #[error("an event was made that the rules of calls exclude: {0}")]
    Bug(&'static str),
}

/// What is said, and what is to be done now that it is recorded.
#[derive(Debug)]
pub struct Told<T> {
    pub say: T,
    pub actions: Vec<Action>,
    /// Calls whose state is another now.
    pub changed: Vec<CallId>,
}

impl Book {
    /// What is in it ends with the process; `chance` sets its clients' numbers apart from those of other processes.
    pub fn volatile(chance: u64) -> Book {
        let ledger = Ledger {
            last_client: VOLATILE | (chance << VOLATILE_CLIENTS) & (VOLATILE - 1),
            ..Ledger::default()
        };
        Book::of(ledger, None)
    }

    pub fn logged(path: &Path) -> Result<Book, LogError> {
        let (log, ledger) = Log::open(path)?;
        Ok(Book::of(ledger, Some(Arc::new(log))))
    }

    fn of(ledger: Ledger, log: Option<Arc<Log>>) -> Book {
        let now = Instant::now();
        let waiting = |call: &&Call| matches!(call.stage, Stage::Waiting { .. });
        let state = State {
            waiting: ledger.calls().filter(waiting).map(|call| call.id).collect(),
            heard: ledger.calls().map(|call| (call.id, now)).collect(),
            ledger,
        };
        Book {
            state: Mutex::new(state),
            log,
        }
    }

    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks only; what is seen may not be recorded yet.
    pub fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.state().ledger)
    }

    pub fn call(&self, id: CallId) -> Option<Call> {
        self.look(|ledger| match ledger.find(id) {
            Known::Call(_, call) => Some(call.clone()),
            _ => None,
        })
    }

    pub fn subject(&self, client: u64) -> Option<String> {
        self.look(|ledger| ledger.clients.get(&client).map(|one| one.subject.clone()))
    }

    /// Of calls and clients: when they were last heard.
    pub fn hear(&self, call: CallId) {
        let now = Instant::now();
        let mut state = self.state();
        // Of one that is over nothing is kept here: what is said of it last comes after that.
        let open = matches!(state.ledger.find(call), Known::Call(_, one) if !matches!(one.stage, Stage::Done { .. }));
        if open {
            state.heard.insert(call, now);
        }
        let client = CallId {
            sequence: 0,
            ..call
        };
        state.heard.insert(client, now);
    }

    pub fn silent_ms(&self, call: CallId) -> u64 {
        let mut state = self.state();
        let since = state.heard.entry(call).or_insert_with(Instant::now);
        u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The first of those that wait, if `place` gives it a host. Where the log cannot be written now, it is when it can: there is one such
    /// word for each call and process, and nobody would say it again.
    pub fn next_waiting(
        &self,
        place: impl FnOnce(&Call) -> Option<Event>,
    ) -> Option<Result<Pending<()>, Unrecorded>> {
        let mut state = self.state();
        let event = next(&mut state, place)?;
        let answer = Answer {
            events: vec![event],
            say: (),
        };
        let mut records = Vec::new();
        let pending = apply(&mut state, answer, &mut records);
        self.write(records, None);
        Some(pending)
    }

    /// Decides by the ledger and records what follows.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub fn ask<T>(
        &self,
        decide: impl FnOnce(&Ledger) -> Answer<T>,
    ) -> Result<Pending<T>, Unrecorded> {
        self.ask_along(decide, None, |_| None)
    }

    /// As [`Book::ask`], and these bytes are written along with what follows, if something does; calls that wait then and are given a
    /// host by `place` have it by the same commit.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub fn ask_along<T>(
        &self,
        decide: impl FnOnce(&Ledger) -> Answer<T>,
        along: Option<Along>,
        mut place: impl FnMut(&Call) -> Option<Event>,
    ) -> Result<Pending<T>, Unrecorded> {
        let mut state = self.state();
        let answer = decide(&state.ledger);
        if self.is_stuck() && !answer.events.is_empty() {
            return Err(Unrecorded::Stuck);
        }
        let mut records = Vec::new();
        let mut pending = apply(&mut state, answer, &mut records)?;
        // Without a change nobody waits who did not before.
        while !records.is_empty() {
            let Some(event) = next(&mut state, &mut place) else {
                break;
            };
            let answer = Answer {
                events: vec![event],
                say: (),
            };
            // What was recorded before is, whatever becomes of this.
            let Ok(placed) = apply(&mut state, answer, &mut records) else {
                break;
            };
            pending.record = placed.record;
            pending.told.actions.extend(placed.told.actions);
            pending.told.changed.extend(placed.told.changed);
        }
        self.write(records, along);
        Ok(pending)
    }

    fn write(&self, records: Vec<Record>, along: Option<Along>) {
        if let (Some(log), false) = (&self.log, records.is_empty()) {
            log.write(records, along);
        }
    }

    /// Bytes that were written along, and that nobody needs any more.
    pub fn erase_along(&self, names: Vec<String>) {
        if let Some(log) = &self.log {
            log.erase(names);
        }
    }

    /// All bytes that were written along. Blocking.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn each_along(&self, take: impl FnMut(Along)) -> Result<(), LogError> {
        match &self.log {
            Some(log) => log.each_along(take),
            None => Ok(()),
        }
    }

    fn is_stuck(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|log| log.written().borrow().stuck)
    }

    /// Records of what is forgotten leave the log, when there may be many.
    pub async fn prune(&self) {
        let Some(log) = &self.log else { return };
        let (needs, last) = self.look(|ledger| {
            let last = ledger.last_record;
            (log.may_prune(last).then(|| ledger.needs()), last)
        });
        let Some(needs) = needs else { return };
        let log = Arc::clone(log);
        match tokio::task::spawn_blocking(move || log.prune(&needs, last)).await {
            Ok(Ok(records)) => tracing::info!(records, "records of forgotten calls leave the log"),
            Ok(Err(error)) => tracing::warn!(%error, "the log of calls cannot be pruned"),
            Err(error) => tracing::warn!(%error, "the log of calls was not pruned"),
        }
    }

    /// What is recorded of a call; nothing, where nothing is.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn history(&self, call: CallId) -> Result<Vec<Recorded>, LogError> {
        let Some(log) = &self.log else {
            return Ok(Vec::new());
        };
        let log = Arc::clone(log);
        let read = tokio::task::spawn_blocking(move || log.history(call));
        // It ends early only when the site does.
        read.await.unwrap_or(Ok(Vec::new()))
    }

    /// What may be done and said at once, since there is no log for it to wait for.
    ///
    /// # Errors
    /// There is one.
    pub fn at_once<T>(&self, pending: Pending<T>) -> Result<Told<T>, Pending<T>> {
        match self.log {
            Some(_) => Err(pending),
            None => Ok(pending.told),
        }
    }

    /// Waits until what was decided by outlives this process, be it news or not.
    pub async fn written<T>(&self, pending: Pending<T>) -> Told<T> {
        self.until(|written| written.record >= pending.record).await;
        pending.told
    }

    /// Waits until what was decided by is on the disk, be it news or not.
    pub async fn recorded<T>(&self, pending: Pending<T>) -> Told<T> {
        self.on_disk(pending.record).await;
        pending.told
    }

    /// As [`Book::recorded`], for what hurries nobody: it goes to the disk with what does, or after a while.
    pub async fn recorded_in_time<T>(&self, pending: Pending<T>) -> Told<T> {
        self.until(|written| written.synced >= pending.record).await;
        pending.told
    }

    /// It is brought to the disk as soon as it is written, for somebody will wait for that.
    pub fn hurry<T>(&self, pending: &Pending<T>) {
        if let Some(log) = &self.log {
            log.sync(pending.record);
        }
    }

    /// Waits until all up to this record is on the disk.
    pub async fn on_disk(&self, record: u64) {
        let Some(log) = &self.log else { return };
        if log.written().borrow().synced < record {
            log.sync(record);
        }
        self.until(|written| written.synced >= record).await;
    }

    /// Waits until the log is so far; not at all, if there is none.
    async fn until(&self, is_there: impl Fn(&Written) -> bool) {
        if let Some(log) = &self.log {
            // Its thread ends after this.
            let _ = log.written().wait_for(|written| is_there(written)).await;
        }
    }
}

/// The event by which the first of those that wait is placed, if it is.
fn next(state: &mut State, place: impl FnOnce(&Call) -> Option<Event>) -> Option<Event> {
    loop {
        let id = *state.waiting.front()?;
        let call = match state.ledger.find(id) {
            Known::Call(_, call) if matches!(call.stage, Stage::Waiting { .. }) => call,
            _ => {
                state.waiting.pop_front();
                continue;
            }
        };
        let event = place(call)?;
        state.waiting.pop_front();
        return Some(event);
    }
}

fn apply<T>(
    state: &mut State,
    answer: Answer<T>,
    records: &mut Vec<Record>,
) -> Result<Pending<T>, Unrecorded> {
    let mut told = Told {
        say: answer.say,
        actions: Vec::new(),
        changed: Vec::new(),
    };
    for event in answer.events {
        let call = match &event {
            Event::Call { call, .. } => Some(*call),
            _ => None,
        };
        let find = |ledger: &Ledger, id| match ledger.find(id) {
            Known::Call(_, call) => Some(call.clone()),
            _ => None,
        };
        let before = call.and_then(|id| find(&state.ledger, id));
        let record = Record {
            number: state.ledger.last_record + 1,
            event,
        };
        state
            .ledger
            .apply(&record)
            .map_err(|illegal| Unrecorded::Bug(illegal.why))?;
        if let Some(after) = call.and_then(|id| find(&state.ledger, id)) {
            if matches!(after.stage, Stage::Waiting { .. }) {
                state.waiting.push_back(after.id);
            }
            told.actions.extend(new_actions(before.as_ref(), &after));
            told.changed.push(after.id);
            if matches!(after.stage, Stage::Done { .. }) {
                state.heard.remove(&after.id);
            }
        }
        if let Event::Left { client } = &record.event {
            let (client, sequence) = (*client, 0);
            state.heard.remove(&CallId { client, sequence });
        }
        records.push(record);
    }
    Ok(Pending {
        record: state.ledger.last_record,
        told,
    })
}

/// Decided, and not yet on the disk.
#[derive(Debug)]
#[must_use]
pub struct Pending<T> {
    record: u64,
    told: Told<T>,
}

impl<T> Pending<T> {
    /// What is said when it is.
    pub fn say(&self) -> &T {
        &self.told.say
    }

    /// The last that it was decided by.
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Something of what follows cannot be done again.
    pub fn erases(&self) -> bool {
        let erases = |action: &Action| matches!(action, Action::Erase { .. });
        self.told.actions.iter().any(erases)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use kumiko_call::event::{CallEvent, Invocation};
    use kumiko_call::respond;
    use rusqlite::Connection;

    #[tokio::test]
    async fn a_call_is_placed_once_while_the_log_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let book = Book::logged(&path).unwrap();
        let id = CallId {
            client: 1,
            sequence: 1,
        };
        let registered = |client| Event::Registered {
            client,
            subject: "/CN=a".to_owned(),
        };
        let invocation = Invocation {
            routine: "m/f".to_owned(),
            in_bytes: 0,
            block_bytes: 1,
            keep_ms: 1,
        };
        let event = CallEvent::Invoked(invocation);
        let invoked = Event::Call { call: id, event };
        let say = |events: &[Event]| {
            let events = events.to_vec();
            book.ask(|_| Answer { events, say: () })
        };
        book.recorded(say(&[registered(1), invoked]).unwrap()).await;
        let other = Connection::open(&path).unwrap();
        let rename = |from, to| {
            let sql = format!("ALTER TABLE {from} RENAME TO {to}");
            other.execute_batch(&sql).unwrap();
        };
        rename("records", "away");
        let unwritten = say(&[registered(2)]).unwrap();
        let mut written = book.log.as_ref().unwrap().written();
        written.wait_for(|written| written.stuck).await.unwrap();
        assert_eq!(say(&[registered(3)]).unwrap_err(), Unrecorded::Stuck);
        let place = |call: &Call| respond::placed(call, "worker 1");
        let placed = book.next_waiting(place).unwrap().unwrap();
        assert!(book.next_waiting(place).is_none());
        rename("away", "records");
        book.recorded(unwritten).await;
        let told = book.recorded(placed).await;
        assert_eq!(told.changed, [id]);
        let all = book.history(id).await.unwrap();
        assert_eq!(all.len(), 2, "{all:?}");
    }
}
