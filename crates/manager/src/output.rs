//! Bytes of one output stream for one reader: what lies in the spool below the reported length, then what comes
//! (duty 3 of `Jobs`; spec/jobs, "Output").

use crate::act::Actor;
use crate::cell::{Cell, Face};
use crate::keeper::no_such_job;
use bytes::Bytes;
use kumiko_job::attempt::OutputStream;
use kumiko_job::contract::{BatchSystem, OutputReader, Refusal};
use kumiko_job::description::OutputMode;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::state::Stage;
use kumiko_linux::spooling;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// Most bytes of one read: a few TLS records, and short enough to be copied out of the page cache between two wake-ups.
const MOST: usize = 256 * 1024;
pub struct Output<B> {
    actor: Arc<Actor<B>>,
    cell: Arc<Cell>,
    face: watch::Receiver<Face>,
    stream: OutputStream,
    offset: u64,
    flow: bool,
    /// What reads along ends with the program; who attached hears of the job's end right after its output.
    with_program: bool,
    open: Option<(AttemptId, File)>,
    /// Whose bytes it has given.
    given: Option<AttemptId>,
}

/// What to do next, as the face says.
enum Next {
    Read { attempt: AttemptId, length: u64 },
    Wait,
    End,
}

impl<B: BatchSystem> Output<B> {
    pub fn new(
        actor: Arc<Actor<B>>,
        cell: Arc<Cell>,
        stream: OutputStream,
        offset: u64,
    ) -> Output<B> {
        let flow = cell.job().description.output == OutputMode::Flow;
        let face = cell.watch();
        Output {
            actor,
            cell,
            face,
            stream,
            offset,
            flow,
            with_program: false,
            open: None,
            given: None,
        }
    }

    /// Ends when the program has, though its files may still be on their way.
    pub fn until_the_program_ends(self) -> Output<B> {
        Output {
            with_program: true,
            ..self
        }
    }

    /// Fails at once where the first read would.
    pub fn check(&mut self) -> Result<(), Refusal> {
        if let Next::Read { attempt, .. } = self.next()? {
            self.file(attempt)?;
        }
        self.still_there()
    }

    fn next(&mut self) -> Result<Next, Refusal> {
        let face = self.face.borrow_and_update();
        let length = face.length(self.stream);
        if matches!(face.job.stage, Stage::Removed { .. }) {
            return Err(no_such_job(face.job.id));
        }
        let last = face.job.last_attempt();
        if self.given.is_some() && self.given != last {
            return Err(anew(face.job.id));
        }
        if self.offset < length {
            if let Some(attempt) = face.job.last_attempt() {
                return Ok(Next::Read { attempt, length });
            }
        }
        if !face.job.is_live() || self.with_program && face.job.program_is_over() {
            return Ok(Next::End);
        }
        if face.closing {
            return Err(Refusal::new(
                "site_closing",
                "the site is going down: attach again when it is back",
            ));
        }
        Ok(Next::Wait)
    }

    /// The spool file, opened once. A site that was restarted learns here what its predecessor had freed.
    fn file(&mut self, attempt: AttemptId) -> Result<&File, Refusal> {
        let known = self.open.take().filter(|(of, _)| *of == attempt);
        let open = match known {
            Some(open) => open,
            None => {
                let path = self.actor.batch.spool(attempt).join(self.stream.name());
                let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
                if self.flow {
                    let freed = freed(&file).map_err(|error| unreadable(&path, &error))?;
                    self.cell.free(self.stream, freed);
                }
                (attempt, file)
            }
        };
        Ok(&self.open.insert(open).1)
    }

    fn still_there(&self) -> Result<(), Refusal> {
        let freed = self.cell.freed(self.stream).load(Ordering::Relaxed);
        if self.offset >= freed {
            return Ok(());
        }
        Err(Refusal::new(
            "output_freed",
            format!(
                "{} of this job is kept only until its reader has it, and the bytes below {freed} are freed: begin there, not \
                 at {}",
                self.stream.name(),
                self.offset
            ),
        ))
    }
}

impl<B: BatchSystem> OutputReader for Output<B> {
    async fn read(&mut self, most: usize) -> Result<Option<(u64, Bytes)>, Refusal> {
        loop {
            match self.next()? {
                Next::Read { attempt, length } => {
                    let offset = self.offset;
                    let left = usize::try_from(length - offset).unwrap_or(usize::MAX);
                    let wanted = most.clamp(1, MOST).min(left);
                    let file = self.file(attempt)?;
                    let read = match spooling::read_at(file, offset, wanted) {
                        Ok(data) if data.len() < wanted => Err(ErrorKind::UnexpectedEof.into()),
                        read => read,
                    };
                    self.still_there()?;
                    let data = read.map_err(|error| {
                        let path = self.actor.batch.spool(attempt).join(self.stream.name());
                        unreadable(&path, &error)
                    })?;
                    self.offset += data.len() as u64;
                    self.given = Some(attempt);
                    return Ok(Some((offset, Bytes::from(data))));
                }
                Next::End => return Ok(None),
                Next::Wait => {
                    if self.face.changed().await.is_err() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

fn anew(job: JobId) -> Refusal {
    Refusal::new(
        "output_anew",
        format!(
            "job {job} runs again from its start, and what was read of its output is of an attempt before that: read from its \
             beginning, `kumiko job log {job}` does"
        ),
    )
}

/// Where the data begins; all of a file that holds none was freed.
fn freed(file: &File) -> std::io::Result<u64> {
    match spooling::first_data(file)? {
        Some(first) => Ok(first),
        None => Ok(file.metadata()?.len()),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        "spool_unreadable",
        format!(
            "the output in {} cannot be read: {error}; the site's operator must look at it",
            path.display()
        ),
    )
}
