//! One live attempt: how it was started, and its runner followed to the end.

use super::Shared;
use super::blank::Leash;
use super::start::{self, Runner};
use crate::link::Link;
use crate::spool;
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec};
use kumiko_job::contract::BatchError;
use kumiko_job::id::AttemptId;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

/// Before a runner is tried a second time that lets us go: one that dies closes one socket after the other.
const REACH_AGAIN: Duration = Duration::from_millis(2);
/// From time to time longer, up to this: that it lets us go, or cannot be reached for want of our own, may not pass in a moment.
const REACH_AT_LAST: Duration = Duration::from_secs(1);

pub struct Live {
    id: AttemptId,
    /// Set once the engine has accepted the attempt.
    accepted: OnceCell<()>,
    task: OnceLock<AbortHandle>,
    link: Link,
}

impl Live {
    pub fn new(id: AttemptId) -> Self {
        Self {
            id,
            accepted: OnceCell::new(),
            task: OnceLock::new(),
            link: Link::new(id),
        }
    }

    /// Makes the spool and starts the runner, once; whoever asks meanwhile or later gets the same answer.
    pub async fn start(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        spec: AttemptSpec,
    ) -> Result<(), BatchError> {
        let begin = || async {
            let blanks = Arc::clone(shared);
            let prepared = tokio::task::spawn_blocking(move || {
                let blank = blanks.take_blank();
                start::prepare(&blanks.root, &blanks.runner, &spec, blank)
            });
            let prepared = prepared.await.map_err(|error| BatchError::Spool {
                path: shared.spool(self.id).display().to_string(),
                cause: error.to_string(),
            })?;
            match prepared? {
                start::Prepared::Started(stream, runner) => {
                    self.link.connected(Ok(stream));
                    self.follow(shared, Some(runner));
                }
                start::Prepared::Before => self.reattach(shared),
            }
            Ok(())
        };
        let started = self.accepted.get_or_try_init(begin).await;
        if started.is_err() {
            shared.live().remove(&self.id);
        }
        started.map(|_| ())
    }

    pub fn adopt(self: &Arc<Self>, shared: &Arc<Shared>) {
        if self.accepted.set(()).is_ok() {
            self.reattach(shared);
        }
    }

    fn reattach(self: &Arc<Self>, shared: &Arc<Shared>) {
        self.link.connected(spool::connect(&shared.spool(self.id)));
        self.follow(shared, None);
    }

    fn follow(self: &Arc<Self>, shared: &Arc<Shared>, runner: Option<Runner>) {
        let (live, shared) = (Arc::clone(self), Arc::clone(shared));
        let task = tokio::spawn(async move { live.attend(&shared, runner).await });
        let _ = self.task.set(task.abort_handle()); // an attempt is followed once
    }

    /// Lets go of the runner; it goes on by itself.
    pub fn leave(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
        self.link.hang_up();
    }

    /// Passes on what the runner reports until it is gone, then what is left on disk.
    async fn attend(&self, shared: &Arc<Shared>, mut runner: Option<Runner>) {
        let ended = loop {
            let (child, mut leash) = match runner {
                Some(Runner { child, leash }) => (Some(child), leash),
                None => (None, None),
            };
            let ended = self.hear_out(shared, &mut leash).await;
            let Some(mut child) = child else {
                break ended; // another site's child
            };
            let (spool, shared) = (shared.spool(self.id), Arc::clone(shared));
            let again = tokio::task::spawn_blocking(move || {
                // It has hung up and refuses, so it is about to end: a moment, not a wait. Its guests are dead then (R7).
                let _ = child.wait();
                let unheard = !ended && leash.is_some_and(|leash| !leash.heard());
                unheard.then(|| start::anew(&spool, &shared.runner))
            });
            match again.await {
                Ok(Some(Ok((stream, anew)))) => {
                    self.link.connected(Ok(stream));
                    runner = Some(anew);
                }
                Ok(Some(Err(error))) => {
                    tracing::error!(attempt = %self.id, %error, "it cannot be started anew");
                    break false;
                }
                _ => break ended,
            }
        };
        self.link.no_more_stdin();
        if !ended {
            let path = shared.spool(self.id);
            let remains = tokio::task::spawn_blocking(move || spool::remains(&path)).await;
            for report in remains.into_iter().flatten() {
                shared.sink.report(self.id, report);
            }
        }
        shared.live().remove(&self.id);
    }

    /// Passes on what the runner reports, on one connection after the other, until it is gone; true: the last was `Ended`.
    async fn hear_out(&self, shared: &Arc<Shared>, leash: &mut Option<Leash>) -> bool {
        let mut pause = Duration::ZERO;
        loop {
            let connected = Instant::now();
            if let Some(stream) = self.link.connection() {
                let pass = |report| {
                    *leash = None; // it began
                    if let AttemptReport::Started { .. } = report {
                        // The guest runs: now is the time that the next start saves.
                        let shared = Arc::clone(shared);
                        tokio::task::spawn_blocking(move || shared.make_blank());
                    }
                    shared.sink.report(self.id, report);
                    ControlFlow::Continue(())
                };
                let ended = self.link.listen(&stream, pass).await;
                self.link.hang_up();
                if ended {
                    return true;
                }
            }
            if connected.elapsed() > REACH_AT_LAST {
                pause = Duration::ZERO;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            pause = (2 * pause).clamp(REACH_AGAIN, REACH_AT_LAST);
            // A runner that let us go is asked again; one that is gone refuses (R6).
            match spool::connect(&shared.spool(self.id)) {
                Ok(stream) => self.link.connected(Ok(stream)),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return false,
                Err(error) if error.kind() == ErrorKind::NotFound => return false,
                Err(error) => {
                    // It may live, so it is not lost: our own want (of descriptors, say) has to pass first.
                    tracing::error!(attempt = %self.id, %error, "its runner cannot be reached");
                }
            }
        }
    }

    pub async fn command(&self, command: AttemptCommand) {
        self.link.command(command).await;
    }
}
