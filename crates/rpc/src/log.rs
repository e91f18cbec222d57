//! The log of calls: SQLite in WAL mode, one writer, many events in one commit (spec/rpc P23). What is written outlives the site's process; that
//! it is on the disk, and outlives the machine, takes longer, and is done when somebody waits for it. The only file here that speaks SQL.
//! Not here: what events mean (kumiko-call).

use bytes::Bytes;
use kumiko_call::event::{BadEvent, CallEvent, Event, Record, Recorded};
use kumiko_call::id::CallId;
use kumiko_call::ledger::{Illegal, Ledger};
use kumiko_call::needs::Needs;
use rusqlite::{Connection, TransactionBehavior, params};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// "kmrp", in `PRAGMA application_id`.
const APPLICATION_ID: i64 = 0x6b6d_7270;
/// Raised with every change of tables or events that an older program would misread.
const SCHEMA: i64 = 3;
/// Between two tries to write what could not be written: a disk does not get room in less.
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log of calls {log} cannot be used: {cause}")]
    Sql {
        log: PathBuf,
        cause: rusqlite::Error,
    },
    #[error("{log} is no log of calls that this version reads")]
    Foreign { log: PathBuf },
    #[error("the log of calls {log} is damaged: record {number}: {cause}")]
    Event {
        log: PathBuf,
        number: u64,
        cause: BadEvent,
    },
    #[error("the log of calls {log} is damaged: {cause}")]
    Illegal { log: PathBuf, cause: Illegal },
    #[error("the log of calls {log} cannot be used: {cause}")]
    File { log: PathBuf, cause: std::io::Error },
    #[error("no thread for the log of calls: {0}")]
    Thread(std::io::Error),
}

/// It is looked for records that are not needed any more when so many were written since: some megabytes, and less than a second's
/// reading beside the writer.
const PRUNE_AFTER: u64 = 10_000;
/// Deleted in one commit: others wait for it.
const PRUNE_AT_ONCE: usize = 500;

/// So long a word that nobody waits for does before it has a commit of its own: a few of those.
const MAY_WAIT: Duration = Duration::from_millis(3);

/// So long what is written is not on the disk if nobody waits for it.
const SYNC_WITHIN: Duration = Duration::from_millis(5);

/// Bytes of a call that are written with the events that count them.
#[derive(Clone, Debug)]
pub struct Along {
    pub name: String,
    pub data: Bytes,
}

/// By the wall clock, which nothing is decided by: since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
}

/// What the writing thread is asked for.
#[derive(Debug)]
enum Ask {
    /// Each with the wall clock's time, which nothing is decided by.
    Write(Vec<(Record, i64)>, Vec<Along>),
    Forget(Vec<i64>),
    /// Bytes of these names.
    Erase(Vec<String>),
    /// All up to this record, and with it what is written by then.
    Sync(u64),
}

impl Ask {
    fn may_wait(&self) -> bool {
        let acknowledged = |(record, _): &(Record, i64)| {
            let event = CallEvent::Acknowledged;
            matches!(&record.event, Event::Call { event: one, .. } if *one == event)
        };
        match self {
            Ask::Write(records, _) => records.iter().all(acknowledged),
            Ask::Erase(_) => true,
            Ask::Forget(_) | Ask::Sync(_) => false,
        }
    }
}

/// How far the log is, by the number of its last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Written, and outlives this process.
    pub record: u64,
    /// On the disk.
    pub synced: u64,
    /// It could not be written when it was last tried; it is tried again.
    pub stuck: bool,
}

/// The writing side.
#[derive(Debug)]
pub struct Log {
    asks: Sender<Ask>,
    written: watch::Receiver<Written>,
    path: PathBuf,
    /// The last record when it was last looked for those that may go.
    pruned: AtomicU64,
}

impl Log {
    /// Opens or makes the log, and replays it.
    pub fn open(path: &Path) -> Result<(Log, Ledger), LogError> {
        let sql = |cause| LogError::Sql {
            log: path.to_owned(),
            cause,
        };
        let connection = connect(path).map_err(sql)?;
        let number = |name| {
            connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                .map_err(sql)
        };
        match (number("application_id")?, number("user_version")?) {
            (APPLICATION_ID, SCHEMA) => {}
            (APPLICATION_ID, 1) => {
                with_times(&connection).map_err(sql)?;
                create(&connection).map_err(sql)?;
            }
            (APPLICATION_ID, 2) | (0, 0) => create(&connection).map_err(sql)?,
            _ => {
                return Err(LogError::Foreign {
                    log: path.to_owned(),
                });
            }
        }
        let ledger = replay(path, &connection)?;
        let (asks, asked) = mpsc::channel();
        let written = Written {
            record: ledger.last_record,
            synced: ledger.last_record,
            stuck: false,
        };
        let file = |cause| LogError::File {
            log: path.to_owned(),
            cause,
        };
        let wal = File::open(beside(path)).map_err(file)?;
        // A process that was killed may have written what is not on the disk.
        wal.sync_data().map_err(file)?;
        let (tell, written) = watch::channel(written);
        std::thread::Builder::new()
            .name("calls-log".to_owned())
            .spawn(move || keep(connection, &wal, &asked, &tell))
            .map_err(LogError::Thread)?;
        let log = Log {
            asks,
            written,
            path: path.to_owned(),
            pruned: AtomicU64::new(0),
        };
        Ok((log, ledger))
    }

    /// Takes records in the order of their numbers, each with when it was, in milliseconds since 1970; and what is to be there if they are.
    /// `written` tells how far they are.
    pub fn write(&self, records: Vec<(Record, i64)>, along: Vec<Along>) {
        // The thread ends only after this side has gone.
        let _ = self.asks.send(Ask::Write(records, along));
    }

    /// Bytes that nobody needs any more.
    pub fn erase(&self, names: Vec<String>) {
        // The thread ends only after this side has gone.
        let _ = self.asks.send(Ask::Erase(names));
    }

    /// All bytes that were written along, in no order. Blocking.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn each_along(&self, mut take: impl FnMut(Along)) -> Result<(), LogError> {
        let sql = |cause| LogError::Sql {
            log: self.path.clone(),
            cause,
        };
        let connection = connect(&self.path).map_err(sql)?;
        let mut statement = connection
            .prepare("SELECT name, body FROM bytes")
            .map_err(sql)?;
        let mut rows = statement.query([]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let name = row.get(0).map_err(sql)?;
            let data = Bytes::from(row.get::<_, Vec<u8>>(1).map_err(sql)?);
            take(Along { name, data });
        }
        Ok(())
    }

    /// Somebody waits until all up to this record is on the disk, or soon will.
    pub fn sync(&self, record: u64) {
        // The thread ends only after this side has gone.
        let _ = self.asks.send(Ask::Sync(record));
    }

    /// It is time to look for records that are not needed any more.
    pub fn may_prune(&self, last_record: u64) -> bool {
        last_record >= self.pruned.load(Ordering::Relaxed) + PRUNE_AFTER
    }

    /// Has what is not needed deleted, in small commits between others. Blocking; how many they are.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn prune(&self, needs: &Needs, last_record: u64) -> Result<usize, LogError> {
        self.pruned.store(last_record, Ordering::Relaxed);
        let sql = |cause| LogError::Sql {
            log: self.path.clone(),
            cause,
        };
        let connection = connect(&self.path).map_err(sql)?;
        let mut gone = Vec::new();
        read(&self.path, &connection, |record| {
            if !needs.record(&record) {
                gone.push(i64::try_from(record.number).unwrap_or(i64::MAX));
            }
            Ok(())
        })?;
        for some in gone.chunks(PRUNE_AT_ONCE) {
            // The thread ends only after this side has gone.
            let _ = self.asks.send(Ask::Forget(some.to_vec()));
        }
        Ok(gone.len())
    }

    pub fn written(&self) -> watch::Receiver<Written> {
        self.written.clone()
    }

    /// What is recorded of a call, in order. Blocking.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn history(&self, call: CallId) -> Result<Vec<Recorded>, LogError> {
        let log = || self.path.clone();
        let sql = |cause| LogError::Sql { log: log(), cause };
        let connection = connect(&self.path).map_err(sql)?;
        let CallId { client, sequence } = call;
        // As serde writes it, which is the only form in this log.
        let begins =
            format!("{{\"call\":{{\"call\":{{\"client\":{client},\"sequence\":{sequence}}},%");
        let mut statement = connection
            .prepare("SELECT number, body, at_ms FROM records WHERE body LIKE ?1 ORDER BY number")
            .map_err(sql)?;
        let mut rows = statement.query([begins]).map_err(sql)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(sql)? {
            let number: u64 = row.get::<_, i64>(0).map_err(sql)?.unsigned_abs();
            let body: String = row.get(1).map_err(sql)?;
            let at_ms: Option<i64> = row.get(2).map_err(sql)?;
            let event = Event::from_json(body.as_bytes()).map_err(|cause| LogError::Event {
                log: log(),
                number,
                cause,
            })?;
            if let Event::Call { event, .. } = event {
                let at_ms = at_ms.map(i64::unsigned_abs);
                all.push(Recorded {
                    number,
                    at_ms,
                    event,
                });
            }
        }
        Ok(all)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit is in the file, and no more (sqlite.org/pragma.html#pragma_synchronous): `keep` has it brought to the disk.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Where commits go (sqlite.org/wal.html): the file is there as long as a connection has written.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, body TEXT NOT NULL, at_ms INTEGER);
         CREATE TABLE IF NOT EXISTS bytes (name TEXT PRIMARY KEY, body BLOB NOT NULL);
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA};
         COMMIT;"
    ))
}

/// Records of version 1 have no times; what else it lacks is made, as of version 2.
fn with_times(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "BEGIN IMMEDIATE;
         ALTER TABLE records ADD COLUMN at_ms INTEGER;
         PRAGMA user_version = 2;
         COMMIT;",
    )
}

fn replay(path: &Path, connection: &Connection) -> Result<Ledger, LogError> {
    let mut ledger = Ledger::default();
    read(path, connection, |record| ledger.replay(&record))?;
    Ok(ledger)
}

fn read(
    path: &Path,
    connection: &Connection,
    mut take: impl FnMut(Record) -> Result<(), Illegal>,
) -> Result<(), LogError> {
    let log = || path.to_owned();
    let sql = |cause| LogError::Sql { log: log(), cause };
    let mut statement = connection
        .prepare("SELECT number, body FROM records ORDER BY number")
        .map_err(sql)?;
    let mut rows = statement.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let number: u64 = row.get::<_, i64>(0).map_err(sql)?.unsigned_abs();
        let body: String = row.get(1).map_err(sql)?;
        let event = Event::from_json(body.as_bytes()).map_err(|cause| LogError::Event {
            log: log(),
            number,
            cause,
        })?;
        take(Record { number, event }).map_err(|cause| LogError::Illegal { log: log(), cause })?;
    }
    Ok(())
}

/// Until nobody writes any more.
fn keep(
    mut connection: Connection,
    wal: &File,
    asked: &Receiver<Ask>,
    tell: &watch::Sender<Written>,
) {
    // When the first was written that is not on the disk.
    let mut unsynced: Option<Instant> = None;
    loop {
        let first = match unsynced {
            None => asked.recv().map_err(RecvTimeoutError::from),
            Some(since) => asked.recv_timeout(SYNC_WITHIN.saturating_sub(since.elapsed())),
        };
        let mut batch = match first {
            Ok(first) => vec![first],
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        // That a client has its outcome hurries nobody: mostly the next call comes at once, and one commit does for both.
        if !batch.is_empty() && batch.iter().all(Ask::may_wait) {
            batch.extend(asked.recv_timeout(MAY_WAIT));
        }
        batch.extend(asked.try_iter());
        if batch.iter().any(|ask| !matches!(ask, Ask::Sync(_))) {
            until_done(tell, || write(&mut connection, &batch));
            unsynced.get_or_insert_with(Instant::now);
            let last = batch.iter().rev().find_map(|ask| match ask {
                Ask::Write(records, _) => records.last().map(|(record, _)| record.number),
                Ask::Forget(_) | Ask::Erase(_) | Ask::Sync(_) => None,
            });
            if let Some(last) = last {
                tell.send_modify(|written| written.record = last);
            }
        }
        let synced = tell.borrow().synced;
        let is_due = batch
            .iter()
            .any(|ask| matches!(ask, Ask::Sync(record) if *record > synced));
        if unsynced.is_some_and(|since| is_due || since.elapsed() >= SYNC_WITHIN) {
            sync(&connection, wal, tell);
            unsynced = None;
        }
    }
    if unsynced.is_some() {
        sync(&connection, wal, tell);
    }
}

/// Brings to the disk what was written.
fn sync(connection: &Connection, wal: &File, tell: &watch::Sender<Written>) {
    if let Err(error) = wal.sync_data() {
        // What a kernel could not write once it may take for written (fsync(2)): it is written anew, into the database itself.
        tracing::error!(%error, "the log of calls cannot be brought to the disk; it is written again");
        until_done(tell, || {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                match row.get(0)? {
                    0 => Ok(()),
                    // Somebody reads it: that is over soon.
                    _ => Err(busy()),
                }
            })
        });
    }
    tell.send_modify(|written| written.synced = written.record);
}

fn busy() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    rusqlite::Error::SqliteFailure(code, None)
}

fn until_done(tell: &watch::Sender<Written>, mut work: impl FnMut() -> rusqlite::Result<()>) {
    let mut is_stuck = false;
    while let Err(error) = work() {
        tracing::error!(%error, "the log of calls cannot be written; it is tried again");
        is_stuck = true;
        tell.send_modify(|written| written.stuck = true);
        std::thread::sleep(AGAIN);
    }
    if is_stuck {
        tell.send_modify(|written| written.stuck = false);
    }
}

fn write(connection: &mut Connection, batch: &[Ask]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert = transaction
            .prepare_cached("INSERT INTO records (number, body, at_ms) VALUES (?1, ?2, ?3)")?;
        let mut delete = transaction.prepare_cached("DELETE FROM records WHERE number = ?1")?;
        let mut put = transaction
            .prepare_cached("INSERT OR REPLACE INTO bytes (name, body) VALUES (?1, ?2)")?;
        let mut erase = transaction.prepare_cached("DELETE FROM bytes WHERE name = ?1")?;
        for ask in batch {
            match ask {
                Ask::Write(records, along) => {
                    for (record, at_ms) in records {
                        let number = i64::try_from(record.number).unwrap_or(i64::MAX);
                        insert.execute(params![number, record.event.to_json(), at_ms])?;
                    }
                    for Along { name, data } in along {
                        put.execute(params![name, &data[..]])?;
                    }
                }
                Ask::Forget(numbers) => {
                    for number in numbers {
                        delete.execute([number])?;
                    }
                }
                Ask::Erase(names) => {
                    for name in names {
                        erase.execute([name])?;
                    }
                }
                Ask::Sync(_) => {}
            }
        }
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use kumiko_call::event::Invocation;

    fn invoked(client: u64, sequence: u64) -> [Event; 3] {
        let call = CallId { client, sequence };
        let of = |event| Event::Call { call, event };
        let invocation = Invocation {
            routine: "m/f".to_owned(),
            in_bytes: 0,
            block_bytes: 1,
            keep_ms: 1,
        };
        [
            of(CallEvent::Invoked(invocation)),
            of(CallEvent::CancelRequested),
            of(CallEvent::Acknowledged),
        ]
    }

    fn registered(client: u64) -> Event {
        let subject = "/CN=a".to_owned();
        Event::Registered { client, subject }
    }

    fn write(log: &Log, ledger: &mut Ledger, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let number = ledger.last_record + 1;
            let record = Record { number, event };
            ledger.apply(&record).unwrap();
            log.write(vec![(record, 1)], Vec::new());
        }
    }

    /// Closed, so that all of it is on the disk; and how many records it has.
    fn close(log: Log, path: &Path) -> i64 {
        let mut written = log.written();
        drop(log);
        // Its writer says the last word when its thread ends.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async { while written.changed().await.is_ok() {} });
        let log = connect(path).unwrap();
        log.query_row("SELECT count(*) FROM records", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn what_is_recorded_of_one_call_is_told_in_order_and_a_log_without_times_gets_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let (log, mut ledger) = Log::open(&path).unwrap();
        write(&log, &mut ledger, [registered(1)]);
        write(&log, &mut ledger, invoked(1, 1));
        write(&log, &mut ledger, invoked(1, 11));
        close(log, &path);
        let old = connect(&path).unwrap();
        old.execute_batch(
            "ALTER TABLE records DROP COLUMN at_ms; DROP TABLE bytes; PRAGMA user_version = 1;",
        )
        .unwrap();
        drop(old);
        let (log, mut ledger) = Log::open(&path).unwrap();
        write(&log, &mut ledger, invoked(1, 12));
        let mut written = log.written();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let last = ledger.last_record;
        runtime
            .unwrap()
            .block_on(written.wait_for(|written| written.record == last))
            .unwrap();
        let check = |sequence, numbers: &[u64], timed| {
            let told = log
                .history(CallId {
                    client: 1,
                    sequence,
                })
                .unwrap();
            let found: Vec<u64> = told.iter().map(|one| one.number).collect();
            assert_eq!(found, numbers);
            assert!(told.iter().all(|one| one.at_ms.is_some() == timed));
        };
        check(1, &[2, 3, 4], false);
        check(11, &[5, 6, 7], false);
        check(12, &[8, 9, 10], true);
        check(2, &[], true);
    }

    #[test]
    fn what_is_written_goes_to_the_disk_when_somebody_waits_for_it_or_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let (log, mut ledger) = Log::open(&folder.path().join("calls.db")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let mut written = log.written();
        let mut until = |is_there: &dyn Fn(&Written) -> bool| {
            let begun = Instant::now();
            let there = written.wait_for(|one| is_there(one));
            drop(runtime.block_on(there).unwrap());
            begun.elapsed()
        };
        let mut at_once = 0;
        for client in 1..=20 {
            write(&log, &mut ledger, [registered(client)]);
            until(&|one| one.record == client);
            let was_synced = log.written().borrow().synced;
            log.sync(client);
            let took = until(&|one| one.synced == client);
            at_once += u32::from(was_synced < client && took < SYNC_WITHIN);
        }
        // A machine may be slow now and then.
        assert!(at_once > 0);
        write(&log, &mut ledger, [registered(21)]);
        until(&|one| one.synced == 21);
    }

    #[test]
    fn bytes_are_there_with_what_counts_them_until_they_are_erased() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let (log, mut ledger) = Log::open(&path).unwrap();
        let long = vec![7; 100_000];
        for (client, name, data) in [(1, "1-1", &long[..]), (2, "2-1.1", b"result")] {
            let event = registered(client);
            let number = ledger.last_record + 1;
            let record = Record { number, event };
            ledger.apply(&record).unwrap();
            let along = Along {
                name: name.to_owned(),
                data: Bytes::copy_from_slice(data),
            };
            log.write(vec![(record, 1)], vec![along]);
        }
        assert_eq!(close(log, &path), 2);
        let all = |log: &Log| {
            let mut all = Vec::new();
            log.each_along(|Along { name, data }| all.push((name, data)))
                .unwrap();
            all.sort();
            all
        };
        let result = ("2-1.1".to_owned(), Bytes::from_static(b"result"));
        let (log, _) = Log::open(&path).unwrap();
        let arguments = ("1-1".to_owned(), Bytes::from(long));
        assert_eq!(all(&log), [arguments, result.clone()]);
        log.erase(vec!["1-1".to_owned(), "none".to_owned()]);
        close(log, &path);
        assert_eq!(all(&Log::open(&path).unwrap().0), [result]);
    }

    #[test]
    fn what_is_forgotten_leaves_the_log_and_the_rest_makes_the_same_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let (log, mut ledger) = Log::open(&path).unwrap();
        write(&log, &mut ledger, [registered(1), registered(2)]);
        for sequence in 1..=100 {
            write(&log, &mut ledger, invoked(1, sequence));
            write(&log, &mut ledger, invoked(2, sequence));
        }
        let (client, below) = (1, 90);
        let released = Event::Released { client, below };
        let left = Event::Left { client: 2 };
        write(&log, &mut ledger, [released, left, registered(3)]);
        assert_eq!(close(log, &path), 605);
        let (log, replayed) = Log::open(&path).unwrap();
        assert_eq!(replayed, ledger);
        assert!(!log.may_prune(ledger.last_record) && log.may_prune(PRUNE_AFTER));
        // All of client 2, and 89 calls of client 1.
        let gone = log.prune(&ledger.needs(), ledger.last_record).unwrap();
        assert_eq!(gone, 302 + 3 * 89);
        assert_eq!(close(log, &path), 605 - 302 - 3 * 89);
        let (log, mut replayed) = Log::open(&path).unwrap();
        assert_eq!(replayed, ledger);
        // It goes on, with no number given again.
        write(&log, &mut replayed, [registered(4)]);
        write(&log, &mut replayed, invoked(4, 1));
        close(log, &path);
        assert_eq!(Log::open(&path).unwrap().1, replayed);
    }
}
