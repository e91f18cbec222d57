//! The event log: SQLite in WAL mode, one writer, one reader (spec/jobs, "What is durable when"). The only file that speaks SQL.
//! Not here: what events mean (kumiko-job), who writes when (`keeper`).

use crate::setup::OpenError;
use kumiko_job::contract::JobView;
use kumiko_job::event::{Event, Record};
use kumiko_job::id::JobId;
use kumiko_job::state::{Job, replay};
use kumiko_linux::spooling;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// "kmko", in `PRAGMA application_id`: tells a log from any other SQLite file.
const APPLICATION_ID: i64 = 0x6b6d_6b6f;
/// Raised with every change of tables or events that an older program would misread.
const SCHEMA: i64 = 1;

const TABLES: &str = "
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    key TEXT,
    -- 0 lives, 1 ended, 2 removed but not erased yet
    stage INTEGER NOT NULL DEFAULT 0,
    -- running time of the site, ms, when the job ended
    ended_run_ms INTEGER,
    -- its JobView, once it has ended: lists need no replay
    view TEXT
);
CREATE UNIQUE INDEX jobs_by_key ON jobs (subject, key) WHERE key IS NOT NULL;
CREATE INDEX jobs_by_subject ON jobs (subject);
CREATE INDEX jobs_unfinished ON jobs (id) WHERE stage <> 1;
CREATE INDEX jobs_by_end ON jobs (ended_run_ms) WHERE stage = 1;
CREATE TABLE events (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('last_job', 0), ('run_ms', 0);
";

/// Disk space that the WAL holds before it needs it. A disk is filled by jobs, and what ends that (their ends, cancels,
/// removals) must be recorded all the same: some 2,000 events, four times what the WAL holds between two checkpoints.
const WAL_AHEAD_BYTES: u64 = 8 << 20;
/// With less room on the disk no new job is taken: what the WAL holds is for those there are.
const ROOM_FOR_JOBS_BYTES: u64 = 1 << 20;

/// A failed read of what should be there; the log is damaged or the disk is.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the event log cannot be read: {0}")]
    Sql(#[from] rusqlite::Error),
    #[error("event {number} of job {job}: {cause}")]
    Event {
        job: JobId,
        number: u64,
        cause: kumiko_job::event::BadEvent,
    },
    #[error(transparent)]
    Illegal(#[from] kumiko_job::state::Illegal),
    #[error("the view of job {job} is damaged: {cause}")]
    View {
        job: JobId,
        cause: serde_json::Error,
    },
}

/// What is known at start.
#[derive(Debug, Default)]
pub struct Loaded {
    /// All that need something done: living ones, and removed ones that are not erased yet.
    pub jobs: Vec<(Job, Vec<Record>)>,
    /// Kept jobs by subject.
    pub kept: HashMap<String, usize>,
    pub last_job: u64,
    /// Running time of the site so far.
    pub run_ms: u64,
}

/// The writing side. Owned by the keeper's thread alone.
#[derive(Debug)]
pub struct Log {
    connection: Connection,
    synced: bool,
    path: PathBuf,
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // The other connection of this process at most is in the way, and only for a moment.
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

impl Log {
    /// Opens or makes the log. `may_create`: there are no jobs yet whose log this should have been.
    pub fn open(path: &Path, jobs: &Path, may_create: bool) -> Result<Log, OpenError> {
        let failed = |cause| OpenError::Log {
            log: path.to_owned(),
            cause,
        };
        let empty = std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
        if empty && !may_create {
            return Err(OpenError::LogMissing {
                log: path.to_owned(),
                jobs: jobs.to_owned(),
            });
        }
        let mut connection = connect(path).map_err(failed)?;
        let pragma = |connection: &Connection, name: &str| -> rusqlite::Result<i64> {
            connection.pragma_query_value(None, name, |row| row.get(0))
        };
        let application = pragma(&connection, "application_id").map_err(failed)?;
        let schema = pragma(&connection, "user_version").map_err(failed)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        match (application, schema, tables) {
            (APPLICATION_ID, SCHEMA, _) => {}
            (0, 0, 0) if may_create => create(&mut connection).map_err(failed)?,
            (0, 0, 0) => {
                return Err(OpenError::LogMissing {
                    log: path.to_owned(),
                    jobs: jobs.to_owned(),
                });
            }
            (APPLICATION_ID, found, _) => {
                return Err(OpenError::Schema {
                    log: path.to_owned(),
                    found,
                    known: SCHEMA,
                });
            }
            _ => {
                return Err(OpenError::Foreign {
                    log: path.to_owned(),
                });
            }
        }
        connection
            .pragma_update(None, "synchronous", "FULL")
            .map_err(failed)?;
        // Checkpoints wait until nobody does: see `checkpoint`.
        connection
            .pragma_update(None, "wal_autocheckpoint", 0)
            .map_err(failed)?;
        if let Err(error) = hold_ahead(path) {
            tracing::warn!(%error, "no disk space could be held for the event log");
        }
        Ok(Log {
            connection,
            synced: true,
            path: path.to_owned(),
        })
    }

    /// Whether the disk has room for what a new job brings. A disk that does not tell has.
    pub fn has_room_for_jobs(&self) -> bool {
        let free = spooling::free_bytes(&self.path);
        free.map_or(true, |free| free >= ROOM_FOR_JOBS_BYTES)
    }

    /// Replays what lives.
    pub fn load(&self, path: &Path) -> Result<Loaded, OpenError> {
        let failed = |cause| OpenError::Log {
            log: path.to_owned(),
            cause,
        };
        let mut loaded = Loaded::default();
        let counter = |name: &str| -> rusqlite::Result<i64> {
            self.connection
                .query_row("SELECT value FROM counters WHERE name = ?", [name], |row| {
                    row.get(0)
                })
        };
        loaded.last_job = counter("last_job").map_err(failed)?.unsigned_abs();
        let last_end: Option<i64> = self
            .connection
            .query_row(
                "SELECT max(ended_run_ms) FROM jobs WHERE stage = 1",
                [],
                |row| row.get(0),
            )
            .map_err(failed)?;
        loaded.run_ms = counter("run_ms")
            .map_err(failed)?
            .max(last_end.unwrap_or(0))
            .unsigned_abs();
        loaded.kept = self.count_kept().map_err(failed)?;
        let waiting = self.unfinished().map_err(failed)?;
        for id in waiting {
            let records = read_events(&self.connection, id, 0).map_err(|error| at(path, error))?;
            let job = replay(id, &records)
                .map_err(|cause| OpenError::Illegal {
                    log: path.to_owned(),
                    cause,
                })?
                .ok_or_else(|| OpenError::NoEvents {
                    log: path.to_owned(),
                    job: id,
                })?;
            loaded.jobs.push((job, records));
        }
        Ok(loaded)
    }

    fn count_kept(&self) -> rusqlite::Result<HashMap<String, usize>> {
        let mut statement = self
            .connection
            .prepare("SELECT subject, count(*) FROM jobs GROUP BY subject")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
        rows.map(|row| row.map(|(subject, count)| (subject, usize::try_from(count).unwrap_or(0))))
            .collect()
    }

    fn unfinished(&self) -> rusqlite::Result<Vec<JobId>> {
        let mut statement = self
            .connection
            .prepare("SELECT id FROM jobs WHERE stage <> 1 ORDER BY id")?;
        let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
        rows.map(|row| row.map(|id| JobId(id.unsigned_abs())))
            .collect()
    }

    /// Begins a transaction. `promise`: its commit reaches the platter before it returns, else only the kernel, which a
    /// killed process survives and a power cut does not.
    pub fn begin(&mut self, promise: bool) -> rusqlite::Result<()> {
        if promise != self.synced {
            let level = if promise { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synced = promise;
        }
        self.connection.execute_batch("BEGIN IMMEDIATE")
    }

    pub fn commit(&mut self) -> rusqlite::Result<()> {
        self.connection.execute_batch("COMMIT")
    }

    /// Takes back what the open transaction wrote, if one is open.
    pub fn roll_back(&mut self) {
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "the event log could not take back a failed transaction");
        }
    }

    pub fn append(&mut self, job: JobId, record: &Record) -> rusqlite::Result<()> {
        let body = record
            .event
            .to_json()
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        self.connection
            .prepare_cached("INSERT INTO events (job, number, at_ms, body) VALUES (?, ?, ?, ?)")?
            .execute(params![
                sql(job.0),
                sql(record.number),
                sql(record.at_ms),
                body
            ])?;
        Ok(())
    }

    pub fn add_job(&mut self, job: &Job) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("INSERT INTO jobs (id, subject, key) VALUES (?, ?, ?)")?
            .execute(params![sql(job.id.0), job.caller.subject, job.key])?;
        self.connection
            .prepare_cached("UPDATE counters SET value = ? WHERE name = 'last_job'")?
            .execute([sql(job.id.0)])?;
        Ok(())
    }

    pub fn end_job(&mut self, view: &JobView, run_ms: u64) -> rusqlite::Result<()> {
        let text = serde_json::to_string(view)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        self.connection
            .prepare_cached("UPDATE jobs SET stage = 1, ended_run_ms = ?, view = ? WHERE id = ?")?
            .execute(params![sql(run_ms), text, sql(view.id.0)])?;
        Ok(())
    }

    /// The job is removed: it is in no list any more and its key is free.
    pub fn hide_job(&mut self, job: JobId) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE jobs SET stage = 2, view = NULL, key = NULL WHERE id = ?")?
            .execute([sql(job.0)])?;
        Ok(())
    }

    /// Nothing is left of the job: its rows go too.
    pub fn erase_job(&mut self, job: JobId) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM events WHERE job = ?")?
            .execute([sql(job.0)])?;
        self.connection
            .prepare_cached("DELETE FROM jobs WHERE id = ?")?
            .execute([sql(job.0)])?;
        Ok(())
    }

    pub fn job_of_key(&self, subject: &str, key: &str) -> rusqlite::Result<Option<JobId>> {
        self.connection
            .prepare_cached("SELECT id FROM jobs WHERE subject = ? AND key = ?")?
            .query_row([subject, key], |row| row.get::<_, i64>(0))
            .optional()
            .map(|id| id.map(|id| JobId(id.unsigned_abs())))
    }

    pub fn read_job(&self, job: JobId) -> Result<Option<(Job, Vec<Record>)>, ReadError> {
        read_job(&self.connection, job)
    }

    /// Ended jobs, not removed, whose end lies before this running time. At most `most`.
    pub fn ended_before(&self, run_ms: u64, most: usize) -> rusqlite::Result<Vec<JobId>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id FROM jobs WHERE stage = 1 AND ended_run_ms < ? ORDER BY ended_run_ms LIMIT ?",
        )?;
        let rows =
            statement.query_map([sql(run_ms), sql(most as u64)], |row| row.get::<_, i64>(0))?;
        rows.map(|row| row.map(|id| JobId(id.unsigned_abs())))
            .collect()
    }

    pub fn set_run_ms(&mut self, run_ms: u64) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE counters SET value = ? WHERE name = 'run_ms'")?
            .execute([sql(run_ms)])?;
        Ok(())
    }

    /// Moves what the WAL holds into the database, without waiting for readers.
    pub fn checkpoint(&mut self) -> rusqlite::Result<()> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }
}

/// The WAL is not there yet, or SQLite takes an empty one for none. The database itself must not be opened here: closing
/// it would drop SQLite's locks (fcntl(2), "record locks").
fn hold_ahead(log: &Path) -> std::io::Result<()> {
    let mut name = log.as_os_str().to_owned();
    name.push("-wal");
    let mut options = std::fs::File::options();
    let wal = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(name)?;
    spooling::reserve_ahead(wal, WAL_AHEAD_BYTES)
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()
}

fn at(path: &Path, error: ReadError) -> OpenError {
    let log = path.to_owned();
    match error {
        ReadError::Sql(cause) => OpenError::Log { log, cause },
        ReadError::Event { job, number, cause } => OpenError::BadEvent {
            log,
            job,
            number,
            cause,
        },
        ReadError::Illegal(cause) => OpenError::Illegal { log, cause },
        ReadError::View { job, .. } => OpenError::NoEvents { log, job },
    }
}

/// SQLite's integers are signed; ours stay below 2^63 by what they count.
fn sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn read_events(connection: &Connection, job: JobId, after: u64) -> Result<Vec<Record>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, at_ms, body FROM events WHERE job = ? AND number > ? ORDER BY number",
    )?;
    let mut rows = statement.query([sql(job.0), sql(after)])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let number = row.get::<_, i64>(0)?.unsigned_abs();
        let body = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        let event = Event::from_json(body.as_bytes()).map_err(|cause| ReadError::Event {
            job,
            number,
            cause,
        })?;
        records.push(Record {
            number,
            at_ms: row.get::<_, i64>(1)?.unsigned_abs(),
            event,
        });
    }
    Ok(records)
}

fn read_job(connection: &Connection, id: JobId) -> Result<Option<(Job, Vec<Record>)>, ReadError> {
    let records = read_events(connection, id, 0)?;
    let job = replay(id, &records)?;
    Ok(job.map(|job| (job, records)))
}

/// The reading side, for what is not in memory. Blocks; calls belong on a blocking thread.
#[derive(Debug)]
pub struct Reader {
    connection: Mutex<Connection>,
}

impl Reader {
    pub fn open(path: &Path) -> rusqlite::Result<Reader> {
        let connection = connect(path)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(Reader {
            connection: Mutex::new(connection),
        })
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        read(
            &self
                .connection
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    pub fn job(&self, job: JobId) -> Result<Option<(Job, Vec<Record>)>, ReadError> {
        self.with(|connection| read_job(connection, job))
    }

    pub fn ended(&self, subject: &str) -> Result<Vec<JobView>, ReadError> {
        self.with(|connection| {
            let mut statement = connection
                .prepare_cached("SELECT id, view FROM jobs WHERE subject = ? AND stage = 1")?;
            let mut rows = statement.query([subject])?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
                let job = JobId(row.get::<_, i64>(0)?.unsigned_abs());
                views.push(
                    serde_json::from_str(text).map_err(|cause| ReadError::View { job, cause })?,
                );
            }
            Ok(views)
        })
    }
}
