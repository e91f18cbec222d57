//! The log of calls: SQLite in WAL mode, one writer, many events in one commit (spec/rpc P23). The only file here that speaks SQL.
//! Not here: what events mean (kumiko-call).

use kumiko_call::event::{BadEvent, Event, Record};
use kumiko_call::ledger::{Illegal, Ledger};
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use tokio::sync::watch;

/// "kmrp", in `PRAGMA application_id`.
const APPLICATION_ID: i64 = 0x6b6d_7270;
/// Raised with every change of tables or events that an older program would misread.
const SCHEMA: i64 = 1;
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
    #[error("no thread for the log of calls: {0}")]
    Thread(std::io::Error),
}

/// How far the log is on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of the last record.
    pub record: u64,
    /// It could not be written when it was last tried; it is tried again.
    pub stuck: bool,
}

/// The writing side.
#[derive(Debug)]
pub struct Log {
    records: Sender<Record>,
    written: watch::Receiver<Written>,
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
            (0, 0) => create(&connection).map_err(sql)?,
            _ => {
                return Err(LogError::Foreign {
                    log: path.to_owned(),
                });
            }
        }
        let ledger = replay(path, &connection)?;
        let (records, asked) = mpsc::channel();
        let written = Written {
            record: ledger.last_record,
            stuck: false,
        };
        let (tell, written) = watch::channel(written);
        std::thread::Builder::new()
            .name("calls-log".to_owned())
            .spawn(move || keep(connection, &asked, &tell))
            .map_err(LogError::Thread)?;
        Ok((Log { records, written }, ledger))
    }

    /// Takes records in the order of their numbers; `written` tells when they are on the disk.
    pub fn write(&self, record: Record) {
        // The thread ends only after this side has gone.
        let _ = self.records.send(record);
    }

    pub fn written(&self) -> watch::Receiver<Written> {
        self.written.clone()
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // What was told outlives a power failure (sqlite.org/pragma.html#pragma_synchronous).
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA};
         COMMIT;"
    ))
}

fn replay(path: &Path, connection: &Connection) -> Result<Ledger, LogError> {
    let log = || path.to_owned();
    let sql = |cause| LogError::Sql { log: log(), cause };
    let mut ledger = Ledger::default();
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
        ledger
            .apply(&Record { number, event })
            .map_err(|cause| LogError::Illegal { log: log(), cause })?;
    }
    Ok(ledger)
}

/// Until nobody writes any more.
fn keep(mut connection: Connection, asked: &Receiver<Record>, tell: &watch::Sender<Written>) {
    while let Ok(first) = asked.recv() {
        let mut batch = vec![first];
        batch.extend(asked.try_iter());
        while let Err(error) = write(&mut connection, &batch) {
            tracing::error!(%error, "the log of calls cannot be written; it is tried again");
            tell.send_modify(|written| written.stuck = true);
            std::thread::sleep(AGAIN);
        }
        let record = batch.last().map_or(0, |record| record.number);
        tell.send_replace(Written {
            record,
            stuck: false,
        });
    }
}

fn write(connection: &mut Connection, batch: &[Record]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert =
            transaction.prepare_cached("INSERT INTO records (number, body) VALUES (?1, ?2)")?;
        for record in batch {
            let number = i64::try_from(record.number).unwrap_or(i64::MAX);
            insert.execute(params![number, record.event.to_json()])?;
        }
    }
    transaction.commit()
}
