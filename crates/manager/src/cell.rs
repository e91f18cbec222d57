//! One job in memory: its state, what its attempt reported since the last event, and the bell that wakes who waits for it.
//! Only the keeper changes the state, and only after it is recorded; the sink changes lengths.

use kumiko_job::attempt::{Cost, OutputStream};
use kumiko_job::contract::EventView;
use kumiko_job::event::Record;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::state::{Job, Stage};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Events of a job that are kept in memory: a plain life has four. Older ones are in the log.
const RECENT_EVENTS: usize = 4;
/// Ended jobs that stay in memory, for those who ask right after the end. At about 1 kB each.
const ENDED_CELLS: usize = 1024;

#[derive(Debug)]
pub struct Cell {
    face: watch::Sender<Face>,
    /// Bytes of stdout and stderr that were freed in the spool (`Flow` only).
    freed: [AtomicU64; 2],
}

/// What can be seen of a job.
#[derive(Debug)]
pub struct Face {
    pub job: Arc<Job>,
    pub recent: VecDeque<EventView>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Told before the end, which it is recorded with.
    pub cost: Option<Cost>,
    /// The batch system knows the attempt: commands reach it.
    pub ready: bool,
    pub stdin_taken: u64,
    pub stdin_closed: bool,
    /// How many clients are attached, and how many ever came.
    pub attached: usize,
    pub came: u64,
    /// The manager is going down: nothing more will be seen.
    pub closing: bool,
}

impl Cell {
    pub fn new(job: Arc<Job>, records: &[Record]) -> Cell {
        let views = kumiko_job::state::views(job.id, records);
        let mut recent = VecDeque::with_capacity(RECENT_EVENTS);
        let old = views.len().saturating_sub(RECENT_EVENTS);
        recent.extend(views.into_iter().skip(old));
        let (stdout_bytes, stderr_bytes) = match &job.stage {
            Stage::StagingOut(end, _) | Stage::Ended(end) => (end.stdout_bytes, end.stderr_bytes),
            _ => (0, 0),
        };
        Cell {
            face: watch::Sender::new(Face {
                job,
                recent,
                stdout_bytes,
                stderr_bytes,
                cost: None,
                ready: false,
                stdin_taken: 0,
                stdin_closed: false,
                attached: 0,
                came: 0,
                closing: false,
            }),
            freed: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    pub fn job(&self) -> Arc<Job> {
        Arc::clone(&self.face.borrow().job)
    }

    pub fn look(&self) -> watch::Ref<'_, Face> {
        self.face.borrow()
    }

    pub fn watch(&self) -> watch::Receiver<Face> {
        self.face.subscribe()
    }

    /// The keeper's: the job after a recorded event.
    pub fn publish(&self, job: Arc<Job>, event: EventView) {
        self.face.send_modify(|face| {
            if job.attempt() != face.job.attempt() && job.is_live() {
                face.ready = false;
                face.stdin_taken = 0;
                face.stdin_closed = false;
                face.stdout_bytes = 0;
                face.stderr_bytes = 0;
                face.cost = None;
            }
            face.job = job;
            push(&mut face.recent, event);
        });
    }

    /// Changes what is seen of a living attempt; not for one that is fenced off or over.
    pub fn update(&self, attempt: AttemptId, change: impl FnOnce(&mut Face)) {
        self.face.send_if_modified(|face| {
            let current = face.job.attempt() == Some(attempt);
            if current {
                change(face);
            }
            current
        });
    }

    /// Somebody is attached until what this gives is dropped.
    pub fn attend(self: Arc<Self>) -> Attendance {
        self.face.send_modify(|face| {
            face.attached += 1;
            face.came += 1;
        });
        Attendance { cell: self }
    }

    pub fn close(&self) {
        self.face.send_modify(|face| face.closing = true);
    }

    pub fn freed(&self, stream: OutputStream) -> &AtomicU64 {
        match stream {
            OutputStream::Stdout => &self.freed[0],
            OutputStream::Stderr => &self.freed[1],
        }
    }

    /// Raises what is freed to `offset`; says whether it was less.
    pub fn free(&self, stream: OutputStream, offset: u64) -> bool {
        self.freed(stream).fetch_max(offset, Ordering::Relaxed) < offset
    }
}

#[derive(Debug)]
pub struct Attendance {
    cell: Arc<Cell>,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.cell.face.send_modify(|face| face.attached -= 1);
    }
}

impl Face {
    pub fn length(&self, stream: OutputStream) -> u64 {
        match (&self.job.stage, stream) {
            (Stage::StagingOut(end, _) | Stage::Ended(end), OutputStream::Stdout) => {
                end.stdout_bytes
            }
            (Stage::StagingOut(end, _) | Stage::Ended(end), OutputStream::Stderr) => {
                end.stderr_bytes
            }
            (_, OutputStream::Stdout) => self.stdout_bytes,
            (_, OutputStream::Stderr) => self.stderr_bytes,
        }
    }
}

fn push(recent: &mut VecDeque<EventView>, event: EventView) {
    if recent.len() == RECENT_EVENTS {
        recent.pop_front();
    }
    recent.push_back(event);
}

/// All jobs in memory: every living one, and ended ones that were looked at lately.
#[derive(Debug, Default)]
pub struct Cells {
    cells: Mutex<HashMap<JobId, Arc<Cell>>>,
}

impl Cells {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<JobId, Arc<Cell>>) -> T) -> T {
        work(&mut self.cells.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn get(&self, job: JobId) -> Option<Arc<Cell>> {
        self.with(|cells| cells.get(&job).cloned())
    }

    /// Adds a cell, unless another was faster: then that one counts, so that a job has one bell.
    pub fn add(&self, job: JobId, cell: Cell) -> Arc<Cell> {
        self.with(|cells| Arc::clone(cells.entry(job).or_insert_with(|| Arc::new(cell))))
    }

    pub fn remove(&self, job: JobId) {
        self.with(|cells| cells.remove(&job));
    }

    pub fn all(&self) -> Vec<Arc<Cell>> {
        self.with(|cells| cells.values().cloned().collect())
    }

    /// Drops ended jobs that nobody holds, when there are `ended` of them and that is too many.
    pub fn evict(&self, ended: usize) -> usize {
        if ended <= ENDED_CELLS {
            return ended;
        }
        self.with(|cells| {
            cells.retain(|_, cell| Arc::strong_count(cell) > 1 || cell.look().job.is_live());
            cells
                .values()
                .filter(|cell| !cell.look().job.is_live())
                .count()
        })
    }
}
