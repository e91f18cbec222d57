//! Doing what the log says of files (spec/staging, "Files of a job"): one after the other, each told to the keeper as it is
//! done, each done again after a crash. Not here: which ones and in what order (`kumiko_job::staging`), moving them
//! (the contract `Transfer`).

use crate::act::Actor;
use crate::cell::{Cell, Face};
use crate::keeper::Ask;
use crate::output::Output;
use bytes::Bytes;
use kumiko_job::attempt::OutputStream;
use kumiko_job::contract::{BatchSystem, OutputReader, Refusal};
use kumiko_job::id::JobId;
use kumiko_job::staging::{self, Item};
use kumiko_job::state::Stage;
use kumiko_job::transfer::{Answer, Fetch, Source, Streamed, Transfer, TransferFailure, Work};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Between two tries of what may work later: a server that restarts is back within these, and who waits for the job is
/// told within half a minute that it is not.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(20),
];

pub fn unavailable() -> Refusal {
    Refusal::new(
        "no_staging",
        "this site moves no files for jobs: send a folder with the job, and fetch its results",
    )
}

impl<B: BatchSystem> Actor<B> {
    pub async fn stage_in(self: Arc<Self>, cell: Arc<Cell>) {
        let job = cell.job();
        let items = job.to_move();
        if let (Some(first), Err(failure)) = (items.first(), self.prepare(&cell).await) {
            return self.moved(job.id, *first, None, Err(failure));
        }
        let gone = |face: &Face| !matches!(face.job.stage, Stage::StagingIn(_));
        for item in items {
            let Some(what) = staging::fetched(&job.description, item) else {
                continue;
            };
            let how = Fetch {
                item,
                shared: matches!(item, Item::Shared(_)),
                executable: item == Item::Executable,
            };
            let fetch = |work: Arc<Work>, transfer: Arc<dyn Transfer>| {
                let what = what.clone();
                async move { transfer.fetch(&work, &what, how).await }
            };
            let Some(done) = self.persist(&cell, gone, fetch).await else {
                return;
            };
            let failed = done.is_err();
            if failed {
                // Before the job is said to have ended: a crash in between does both again.
                self.clean(&cell, gone).await;
            }
            self.moved(job.id, item, None, done);
            if failed {
                break;
            }
        }
    }

    /// Removes what the description wants removed. None: it has become of no use.
    async fn clean(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        gone: impl Fn(&Face) -> bool + Copy,
    ) -> Option<Result<u64, Refusal>> {
        let description = Arc::clone(&cell.job().description);
        let scratch = description.scratch.iter();
        let paths: Arc<[String]> = description
            .clean_up
            .iter()
            .chain(scratch)
            .cloned()
            .collect();
        if paths.is_empty() {
            return Some(Ok(0));
        }
        let clean = |work: Arc<Work>, transfer: Arc<dyn Transfer>| {
            let paths = Arc::clone(&paths);
            async move { transfer.clean_up(&work, &paths).await.map(|()| 0) }
        };
        self.persist(cell, gone, clean).await
    }

    /// Sends one stream to all its destinations.
    pub fn send_streams(self: &Arc<Self>, cell: &Arc<Cell>, stream: OutputStream, given: u64) {
        let job = cell.job();
        let (current, list) = job.destinations(stream);
        if current != given {
            return;
        }
        // A site that comes after a kill is not to make anew what was sent: the job may end before it is whole again.
        let is_sent =
            |item| matches!(job.stage, Stage::StagingOut(..)) && !job.to_move().contains(&item);
        for (index, to) in (0u32..).zip(list) {
            if is_sent(staging::stream_item(stream, index)) {
                continue;
            }
            let (actor, cell, to) = (Arc::clone(self), Arc::clone(cell), to.clone());
            drop(self.runtime.spawn(async move {
                let gone = move |face: &Face| {
                    !face.job.is_live() || face.job.destinations(stream).0 != given
                };
                let bytes: Arc<dyn Source> = Arc::new(Spool {
                    actor: Arc::clone(&actor),
                    cell: Arc::clone(&cell),
                    stream,
                });
                let send = |work: Arc<Work>, transfer: Arc<dyn Transfer>| {
                    let (to, bytes) = (to.clone(), Arc::clone(&bytes));
                    async move {
                        let what = Streamed {
                            stream,
                            index,
                            given,
                            to: &to,
                            bytes,
                        };
                        transfer.stream(&work, what).await
                    }
                };
                let Some(done) = actor.persist(&cell, gone, send).await else {
                    return;
                };
                // It may have failed while the program runs on: then it may still be redirected.
                let over = |face: &Face| matches!(face.job.stage, Stage::StagingOut(..));
                if until(&cell, |face| over(face) || gone(face)).await {
                    let item = staging::stream_item(stream, index);
                    actor.moved(cell.job().id, item, Some(given), done);
                }
            }));
        }
    }

    pub async fn stage_out(self: Arc<Self>, cell: Arc<Cell>) {
        let job = cell.job();
        let gone = |face: &Face| !matches!(face.job.stage, Stage::StagingOut(..));
        for item in job.to_move() {
            let Item::Out(index) = item else {
                continue;
            };
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let Some(what) = job.description.stage_out.get(at) else {
                continue;
            };
            let send = |work: Arc<Work>, transfer: Arc<dyn Transfer>| {
                let what = what.clone();
                async move { transfer.send(&work, &what).await }
            };
            let Some(done) = self.persist(&cell, gone, send).await else {
                return;
            };
            self.moved(job.id, item, None, done);
        }
        let only_cleaning = |face: &Face| face.job.to_move() == [Item::CleanUp];
        if !until(&cell, |face| only_cleaning(face) || gone(face)).await {
            return;
        }
        if only_cleaning(&cell.look()) {
            let Some(done) = self.clean(&cell, gone).await else {
                return;
            };
            self.moved(job.id, Item::CleanUp, None, done);
        }
    }

    /// Tries until it is done, cannot be done, or is `gone`: then None. Each time with the newest credential.
    async fn persist<T, F: Future<Output = Result<T, TransferFailure>>>(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        gone: impl Fn(&Face) -> bool + Copy,
        work: impl Fn(Arc<Work>, Arc<dyn Transfer>) -> F,
    ) -> Option<Result<T, Refusal>> {
        let Some(transfer) = self.transfer.clone() else {
            return Some(Err(unavailable()));
        };
        let mut pauses = PAUSES.iter();
        let mut runs = cell.job().attempt().is_some();
        loop {
            if gone(&cell.look()) {
                return None;
            }
            let given = match self.work(cell).await {
                Ok(given) => given,
                Err(refusal) => return Some(Err(refusal)),
            };
            let mut face = cell.watch();
            let done = tokio::select! {
                done = work(Arc::new(given), Arc::clone(&transfer)) => done,
                () = end(&mut face, gone) => return None,
            };
            let TransferFailure {
                code,
                message,
                retry,
            } = match done {
                Ok(done) => return Some(Ok(done)),
                Err(failure) => failure,
            };
            // While the program runs there is no hurry: what became of it is told at the end, after as many tries again.
            let ran = std::mem::replace(&mut runs, cell.job().attempt().is_some());
            if ran && !runs {
                pauses = PAUSES.iter();
            }
            let pause = match pauses.next() {
                _ if !retry => None,
                None if runs => PAUSES.last(),
                pause => pause,
            };
            let Some(pause) = pause else {
                return Some(Err(Refusal::new(&code, message)));
            };
            tracing::info!(job = %cell.job().id, %code, %message, "a transfer is tried again");
            tokio::select! {
                () = tokio::time::sleep(*pause) => {}
                () = end(&mut face, gone) => return None,
            }
        }
    }

    /// What a transfer is given. It may come before the attempt, so the job's own directory is made here as well.
    async fn work(self: &Arc<Self>, cell: &Arc<Cell>) -> Result<Work, Refusal> {
        let (actor, job) = (Arc::clone(self), cell.job());
        blocking(move || {
            let credential = actor.credentials.of_job(&job).map_err(|error| {
                Refusal::new(
                    "credential_not_read",
                    format!("the credential of job {} cannot be read: {error}", job.id),
                )
            })?;
            Ok(Work {
                job: job.id,
                directory: actor.job_directory(&job)?,
                policy: (actor.effective)(&job.caller, &job.description)?,
                cache: job.description.cache.clone(),
                credential,
            })
        })
        .await
    }

    /// Makes the job's scratch, if it wants one.
    pub async fn prepare(self: &Arc<Self>, cell: &Arc<Cell>) -> Result<(), Refusal> {
        let job = cell.job();
        let (Some(scratch), Some(transfer)) = (&job.description.scratch, &self.transfer) else {
            return Ok(());
        };
        let work = self.work(cell).await?;
        let made = transfer.make_scratch(&work, scratch).await;
        made.map_err(|TransferFailure { code, message, .. }| Refusal::new(&code, message))
    }

    fn moved(&self, job: JobId, item: Item, given: Option<u64>, how: Result<u64, Refusal>) {
        let ask = Ask::Moved {
            job,
            item,
            given,
            how,
        };
        // The keeper is gone only when the site goes down: the next one does it again.
        let _ = self.asks.send(ask);
    }
}

/// Waits for it; false, if the site goes down before.
async fn until(cell: &Cell, condition: impl Fn(&Face) -> bool) -> bool {
    let mut face = cell.watch();
    face.wait_for(|face| face.closing || condition(face))
        .await
        .is_ok_and(|face| condition(&face))
}

async fn end(face: &mut watch::Receiver<Face>, gone: impl Fn(&Face) -> bool) {
    // An error says that the cell is gone, and so are we.
    let _ = face.wait_for(|face| face.closing || gone(face)).await;
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Refusal::new("bug", error.to_string())),
    }
}

/// The kept output of a job.
struct Spool<B> {
    actor: Arc<Actor<B>>,
    cell: Arc<Cell>,
    stream: OutputStream,
}

impl<B: BatchSystem> Source for Spool<B> {
    fn read(&self, offset: u64, most: usize) -> Answer<'_, Result<Option<Bytes>, Refusal>> {
        Box::pin(async move {
            let (actor, cell) = (Arc::clone(&self.actor), Arc::clone(&self.cell));
            let output = Output::new(actor, cell, self.stream, offset);
            let mut output = output.until_the_program_ends();
            let read = output.read(most).await?;
            Ok(read.map(|(_, bytes)| bytes))
        })
    }
}
