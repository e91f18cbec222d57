//! A client attached to a job (spec/services V4, V5): output out, stdin in, all with offsets.
//!
//! Nothing is queued here. Output is read when the last piece was taken by the stream, so a slow client holds back the
//! reader, and (with `Flow`) the guest. Stdin is bounded by its window, so that signals never wait behind it.

use super::{OUTPUT_READ_BYTES, Out, Stop};
use crate::admit::Visitor;
use crate::desk::Desk;
use kumiko_job::attempt::{AttemptCommand, Outcome, OutputStream, STDIN_WINDOW_BYTES};
use kumiko_job::contract::{Jobs, OutputReader, Refusal};
use kumiko_job::id::JobId;
use kumiko_session::Receiver;
use kumiko_wire::exec::{FromJob, ToJob};
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{Mutex, watch};

/// What is attached to, and from where.
#[derive(Clone, Copy, Debug)]
pub(super) struct To {
    pub job: JobId,
    /// The client sends stdin.
    pub stdin: bool,
    pub from: [u64; 2],
}

pub(super) async fn attach<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    to: To,
    out: &mut Out,
    receiver: &mut Receiver,
) -> Result<(), Stop> {
    let _here = desk.jobs.attend(&visitor.caller, to.job).await?;
    let out = Mutex::new(out);
    // What of the stdin is taken; the client's window counts from there.
    let taken = watch::Sender::new(0);
    let output = async {
        tokio::try_join!(
            follow(desk, visitor, to, OutputStream::Stdout, &out),
            follow(desk, visitor, to, OutputStream::Stderr, &out),
        )?;
        let outcome = desk
            .jobs
            .show(&visitor.caller, to.job)
            .await?
            .outcome
            .unwrap_or_else(|| Outcome::Lost {
                message: "its output has ended, and how it ended is not known".to_owned(),
            });
        out.lock().await.tell(FromJob::Ended(outcome)).await
    };
    tokio::select! {
        told = output => told,
        stop = hear(desk, visitor, to, &taken, receiver) => Err(stop),
        stop = tell_taken(desk, visitor, to, &taken, &out) => Err(stop),
    }
}

async fn follow<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    to: To,
    stream: OutputStream,
    out: &Mutex<&mut Out>,
) -> Result<(), Stop> {
    let from = to.from[usize::from(stream == OutputStream::Stderr)];
    let mut reader = desk
        .jobs
        .output(&visitor.caller, to.job, stream, from)
        .await?;
    while let Some((offset, data)) = reader.read(OUTPUT_READ_BYTES).await? {
        desk.meter
            .output_bytes
            .fetch_add(data.len() as u64, Relaxed);
        out.lock().await.output(stream, offset, data).await?;
    }
    Ok(())
}

/// Carries out what the client says, for as long as it may say something.
async fn hear<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    to: To,
    taken: &watch::Sender<u64>,
    receiver: &mut Receiver,
) -> Stop {
    loop {
        let message = match receiver.recv().await {
            Ok(Some(message)) => message,
            Ok(None) => return Stop::Left,
            Err(e) => return e.into(),
        };
        let command = match ToJob::decode(message.kind, message.data) {
            Ok(ToJob::Stdin { .. } | ToJob::StdinEnd { .. }) if !to.stdin => {
                return Refusal::new(
                    "bad_request",
                    "this client did not attach to the job's stdin",
                )
                .into();
            }
            Ok(ToJob::Stdin { offset, data }) => {
                // A client that keeps to its window never waits here; one that does not holds up itself alone.
                let end = offset.saturating_add(data.len() as u64);
                let mut seen = taken.subscribe();
                // Its sender outlives this.
                let _ = seen
                    .wait_for(|taken| end <= taken.saturating_add(STDIN_WINDOW_BYTES))
                    .await;
                desk.meter.stdin_bytes.fetch_add(data.len() as u64, Relaxed);
                AttemptCommand::Stdin { offset, data }
            }
            Ok(ToJob::StdinEnd { offset }) => AttemptCommand::StdinEnd { offset },
            Ok(ToJob::Window(size)) => AttemptCommand::Window(size),
            Ok(ToJob::Signal { signal }) => AttemptCommand::Signal { signal },
            Ok(ToJob::Consumed { stream, offset }) => AttemptCommand::Consumed { stream, offset },
            Err(e) => return Refusal::new("bad_request", e.to_string()).into(),
        };
        if let Err(refused) = desk.jobs.command(&visitor.caller, to.job, command).await {
            return refused.into();
        }
    }
}

/// Tells what of the stdin is taken; the first is where a client that attaches later begins.
async fn tell_taken<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    to: To,
    taken: &watch::Sender<u64>,
    out: &Mutex<&mut Out>,
) -> Stop {
    if !to.stdin {
        return std::future::pending().await;
    }
    let mut above = None;
    loop {
        let now = match desk.jobs.stdin_taken(&visitor.caller, to.job, above).await {
            Ok(now) => now,
            Err(refused) => return refused.into(),
        };
        above = Some(now.offset);
        taken.send_replace(now.offset);
        let mut out = out.lock().await;
        if let Err(stop) = out.tell(FromJob::StdinTaken { offset: now.offset }).await {
            return stop;
        }
        if now.closed {
            if let Err(stop) = out.tell(FromJob::StdinClosed).await {
                return stop;
            }
            drop(out);
            return std::future::pending().await;
        }
    }
}
