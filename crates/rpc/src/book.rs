//! The calls of one kind of durability: their ledger, and its log if there is one. What is done here is done when it is written, and what is
//! said is said when it is on the disk (spec/rpc P23). Not here: what is done because of it (`calls`), bytes of calls (`store`).

use crate::log::{Along, Log, LogError, Written, now_ms};
use crate::pending::{Pending, Told};
use crate::store::LOGGED_BYTES;
use kumiko_call::call::{Call, Stage};
use kumiko_call::decide::new_actions;
use kumiko_call::event::{CallEvent, Event, Invocation, Record, Recorded};
use kumiko_call::held::{Held, Noted};
use kumiko_call::id::CallId;
use kumiko_call::ledger::{Known, Ledger, PASSING_END, is_passing};
use kumiko_call::respond::Answer;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Client numbers from here on are of calls that end with the site; those of the log come nowhere near.
pub const VOLATILE: u64 = PASSING_END;
/// Clients that one process of a site can have of these, before its numbers could meet another process's.
const VOLATILE_CLIENTS: u32 = 24;
/// Bytes of calls that begin in memory, and are not over; with more, they are recorded from their first.
const HELD_MOST_BYTES: usize = 64 << 20;

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
    held: Held,
    /// Bytes that are written along when a held call is recorded.
    held_along: HashMap<CallId, Vec<Along>>,
    held_bytes: usize,
    /// When calls that were held then were invoked, oldest first.
    begun: VecDeque<(Instant, CallId)>,
    /// There is one, where there was none.
    begins: Arc<Notify>,
}

/// The log cannot be written now, or the ledger refuses what its own rules gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrecorded {
    #[error("the site cannot write its log of calls now")]
    Stuck,
    #[error("an event was made that the rules of calls exclude: {0}")]
    Bug(&'static str),
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

    /// `chance` sets numbers of clients whose calls begin in memory apart from those of other processes.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn logged(path: &Path, chance: u64) -> Result<Book, LogError> {
        let (log, mut ledger) = Log::open(path)?;
        ledger.begin_anew(chance);
        Ok(Book::of(ledger, Some(Arc::new(log))))
    }

    fn of(ledger: Ledger, log: Option<Arc<Log>>) -> Book {
        let now = Instant::now();
        let waiting = |call: &&Call| matches!(call.stage, Stage::Waiting { .. });
        let state = State {
            waiting: ledger.calls().filter(waiting).map(|call| call.id).collect(),
            heard: ledger.calls().map(|call| (call.id, now)).collect(),
            held: Held::default(),
            held_along: HashMap::new(),
            held_bytes: 0,
            begun: VecDeque::new(),
            begins: Arc::default(),
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
        let pending = apply(&mut state, answer, None, &mut records);
        self.write(records, Vec::new());
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
        self.ask_along(decide, None, None, |_| None)
    }

    /// As [`Book::ask`], of this call, and these bytes are written along with what follows, if something does; calls that wait then and are
    /// given a host by `place` have it by the same commit.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub fn ask_along<T>(
        &self,
        decide: impl FnOnce(&Ledger) -> Answer<T>,
        call: Option<CallId>,
        along: Option<Along>,
        mut place: impl FnMut(&Call) -> Option<Event>,
    ) -> Result<Pending<T>, Unrecorded> {
        let mut state = self.state();
        let answer = decide(&state.ledger);
        // What is held need not be written.
        let is_held = |event| state.would_be_held(event);
        if !answer.events.iter().all(is_held) && self.is_stuck() {
            return Err(Unrecorded::Stuck);
        }
        let changes = !answer.events.is_empty();
        let mut records = Vec::new();
        let mut pending = apply(&mut state, answer, call, &mut records)?;
        let mut along: Vec<Along> = along.into_iter().collect();
        match call {
            Some(call) if changes && state.held.is_held(call) => {
                state.held_bytes += along.iter().map(|one| one.data.len()).sum::<usize>();
                state.held_along.entry(call).or_default().append(&mut along);
            }
            _ => pending.along = along.iter().map(|one| one.name.clone()).collect(),
        }
        // Without a change nobody waits who did not before.
        while let Some(event) = changes.then(|| next(&mut state, &mut place)).flatten() {
            let answer = Answer {
                events: vec![event],
                say: (),
            };
            // What was recorded before is, whatever becomes of this.
            let Ok(placed) = apply(&mut state, answer, None, &mut records) else {
                break;
            };
            pending.record = pending.record.max(placed.record);
            pending.told.actions.extend(placed.told.actions);
            pending.told.changed.extend(placed.told.changed);
        }
        self.write(records, along);
        Ok(pending)
    }

    fn write(&self, records: Vec<(Record, i64)>, along: Vec<Along>) {
        if let (Some(log), false) = (&self.log, records.is_empty()) {
            log.write(records, along);
        }
    }

    /// What is known of this call is recorded from now on, if it was not: the names of bytes that were written along.
    pub fn keep(&self, call: CallId) -> Vec<String> {
        let mut state = self.state();
        let mut kept = Vec::new();
        self.keep_these(&mut state, [call], &mut kept);
        kept.into_iter().flat_map(|(_, names)| names).collect()
    }

    /// When the oldest began that may be held still; or else what tells when one begins.
    pub fn oldest(&self) -> Result<Instant, Arc<Notify>> {
        let state = self.state();
        let oldest = state.begun.front().map(|(since, _)| *since);
        oldest.ok_or_else(|| Arc::clone(&state.begins))
    }

    /// The same of all that began so long ago, each with those names; not as long as the log cannot be written.
    pub fn keep_older(&self, age: Duration) -> Vec<(CallId, Vec<String>)> {
        let mut kept = Vec::new();
        if self.is_stuck() {
            return kept;
        }
        let mut state = self.state();
        let mut old = Vec::new();
        while let Some((_, call)) = state
            .begun
            .front()
            .filter(|(since, _)| since.elapsed() >= age)
        {
            old.push(*call);
            state.begun.pop_front();
        }
        self.keep_these(&mut state, old, &mut kept);
        kept
    }

    fn keep_these(
        &self,
        state: &mut State,
        calls: impl IntoIterator<Item = CallId>,
        kept: &mut Vec<(CallId, Vec<String>)>,
    ) {
        let (mut records, mut all) = (Vec::new(), Vec::new());
        for call in calls {
            let noted = state.held.keep(call);
            if noted.is_empty() {
                continue;
            }
            records.extend(
                noted
                    .into_iter()
                    .map(|one| numbered(&mut state.ledger, one)),
            );
            let along = state.let_go(call);
            kept.push((call, along.iter().map(|one| one.name.clone()).collect()));
            all.extend(along);
        }
        self.write(records, all);
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

    /// What may be done and said at once, since it waits for no log.
    ///
    /// # Errors
    /// It does.
    pub fn at_once<T>(&self, pending: Pending<T>) -> Result<Told<T>, Pending<T>> {
        match self.log {
            Some(_) if pending.record > 0 => Err(pending),
            _ => Ok(pending.told),
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
        if let (Some(log), 1..) = (&self.log, pending.record) {
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

/// The next record of the log.
fn numbered(ledger: &mut Ledger, Noted { event, at_ms }: Noted) -> (Record, i64) {
    ledger.last_record += 1;
    let number = ledger.last_record;
    (Record { number, event }, at_ms)
}

impl State {
    /// This call is over, or its bytes are with its record.
    fn let_go(&mut self, call: CallId) -> Vec<Along> {
        let along = self.held_along.remove(&call).unwrap_or_default();
        self.held_bytes -= along.iter().map(|one| one.data.len()).sum::<usize>();
        along
    }

    /// A call begins in memory, if it is small and of a client whose calls do.
    fn may_hold(&self, call: CallId, invocation: &Invocation) -> bool {
        let bytes = usize::try_from(invocation.in_bytes).unwrap_or(usize::MAX);
        let is_small = invocation.blocks() <= 1 && invocation.in_bytes <= LOGGED_BYTES;
        is_passing(call.client) && is_small && self.held_bytes + bytes <= HELD_MOST_BYTES
    }

    fn would_be_held(&self, event: &Event) -> bool {
        match event {
            Event::Registered { client, .. } | Event::Released { client, .. } => {
                is_passing(*client)
            }
            Event::Left { .. } => false,
            Event::Call { call, event } => match event {
                CallEvent::Invoked(invocation) => self.may_hold(*call, invocation),
                _ => self.held.is_held(*call),
            },
        }
    }
}

/// `about`: what is said is about this call.
fn apply<T>(
    state: &mut State,
    answer: Answer<T>,
    about: Option<CallId>,
    records: &mut Vec<(Record, i64)>,
) -> Result<Pending<T>, Unrecorded> {
    let before_all = records.len();
    let is_quiet = match answer.events.is_empty() {
        true => about.is_some_and(|call| state.held.is_held(call)),
        false => true,
    };
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
        state
            .ledger
            .happen(&event)
            .map_err(|illegal| Unrecorded::Bug(illegal.why))?;
        if let Event::Call {
            call,
            event: CallEvent::Invoked(invocation),
        } = &event
        {
            if state.may_hold(*call, invocation) {
                state.held.begin(*call);
                if state.begun.is_empty() {
                    state.begins.notify_one();
                }
                state.begun.push_back((Instant::now(), *call));
            }
        }
        if let Some(after) = call.and_then(|id| find(&state.ledger, id)) {
            if matches!(after.stage, Stage::Waiting { .. }) {
                state.waiting.push_back(after.id);
            }
            told.actions.extend(new_actions(before.as_ref(), &after));
            told.changed.push(after.id);
            if matches!(after.stage, Stage::Done { .. }) {
                state.heard.remove(&after.id);
                state.let_go(after.id);
            }
        }
        if let Event::Left { client } = &event {
            let (client, sequence) = (*client, 0);
            state.heard.remove(&CallId { client, sequence });
        }
        let at_ms = now_ms();
        let State { held, ledger, .. } = state;
        let taken = held.take(Noted { event, at_ms });
        records.extend(taken.into_iter().map(|one| numbered(ledger, one)));
    }
    // What is held waits for no log, and what follows from it neither.
    let record = match is_quiet && records.len() == before_all {
        true => 0,
        false => state.ledger.last_record,
    };
    Ok(Pending {
        record,
        along: Vec::new(),
        told,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use bytes::Bytes;
    use kumiko_call::message::{FromClient, Refusal, Status, ToClient};
    use kumiko_call::respond;
    use rusqlite::Connection;

    #[tokio::test]
    async fn a_call_is_placed_once_while_the_log_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let book = Book::logged(&path, 1).unwrap();
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

    fn invoke(call: CallId) -> FromClient {
        let invocation = Invocation {
            routine: "m/f".to_owned(),
            in_bytes: 3,
            block_bytes: 3,
            keep_ms: 1,
        };
        FromClient::Invoke {
            call,
            first_open: 1,
            invocation,
        }
    }

    fn block(call: CallId) -> FromClient {
        FromClient::Block { call, number: 0 }
    }

    #[tokio::test]
    async fn what_begins_in_memory_is_in_the_log_when_it_is_kept_and_then_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let book = Book::logged(&path, 7).unwrap();
        let subject = "/CN=a";
        let say = |book: &Book, message: &FromClient, data: Option<&'static [u8]>| {
            let call = message.call();
            let along = data.map(|data| Along {
                name: call.unwrap().to_string(),
                data: Bytes::from_static(data),
            });
            let decide = |ledger: &Ledger| respond::to_client(ledger, subject, message);
            book.ask_along(decide, call, along, |_| None).unwrap()
        };
        let register = FromClient::Register { passing: true };
        let pending = say(&book, &register, None);
        assert_eq!(pending.record(), 0, "it waits for nothing");
        let ToClient::Registered { client } = *pending.say() else {
            panic!("{:?}", pending.say());
        };
        assert!(is_passing(client));
        let [short, long] = [1, 2].map(|sequence| CallId { client, sequence });
        for call in [short, long] {
            assert_eq!(say(&book, &invoke(call), None).record(), 0);
            let pending = say(&book, &block(call), Some(b"abc"));
            assert_eq!((pending.record(), pending.along().len()), (0, 0));
        }
        assert_eq!(
            say(&book, &FromClient::Cancel { call: short }, None).record(),
            0
        );
        assert_eq!(
            say(&book, &FromClient::Acknowledge { call: short }, None).record(),
            0
        );
        assert!(book.keep_older(Duration::from_secs(60)).is_empty());
        let names = vec![long.to_string()];
        assert_eq!(book.keep_older(Duration::ZERO), [(long, names)]);
        assert!(book.keep(long).is_empty() && book.keep(short).is_empty());
        let asked = say(&book, &FromClient::Ask { call: long }, None);
        assert_eq!(asked.record(), 3, "it waits for what is recorded now");
        book.recorded(asked).await;
        let record = book.history(long).await.unwrap();
        assert_eq!(record.len(), 2);
        assert!(record.iter().all(|one| one.at_ms > Some(1)));
        assert_eq!(book.history(short).await.unwrap(), []);
        drop(book);

        let next = Book::logged(&path, 7).unwrap();
        let mut bytes = Vec::new();
        next.each_along(|one| bytes.push((one.name, one.data)))
            .unwrap();
        assert_eq!(bytes, [(long.to_string(), Bytes::from_static(b"abc"))]);
        // What it knows it answers; what it may have forgotten it does not begin.
        let waiting = ToClient::Status {
            call: long,
            status: Status::Waiting,
        };
        assert_eq!(*say(&next, &invoke(long), None).say(), waiting);
        let refused = ToClient::Refused {
            call: Some(short),
            refusal: Refusal::NoClient { client },
        };
        assert_eq!(*say(&next, &invoke(short), None).say(), refused);
        let ToClient::Registered { client: another } = *say(&next, &register, None).say() else {
            panic!("it has a number");
        };
        assert!(is_passing(another) && another >> 24 != client >> 24);
    }
}
