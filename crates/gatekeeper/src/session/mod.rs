//! The session's door: one request a stream (spec/services).

mod attach;
mod delegation;
mod staging;

use crate::Refused;
use crate::admit::{Link, Visitor, until};
use crate::desk::Desk;
use bytes::Bytes;
use kumiko_job::attempt::{AttemptCommand, OutputStream};
use kumiko_job::contract::{EventStream, Jobs, OutputReader, Refusal};
use kumiko_job::description::Stdin;
use kumiko_session::{Draft, Receiver, Sender, SessionError, Stream};
use kumiko_wire::api::{Done, Narrowed, Request, Submitted, json, kind};
use kumiko_wire::exec::FromJob;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// A message of output is one frame with its offset.
const OUTPUT_MESSAGE_BYTES: usize = kumiko_wire::frame::PART_BYTES - 8;
/// Output is read in pieces of some whole messages, so that reader and connection wake each other seldom.
pub(crate) const OUTPUT_READ_BYTES: usize = 8 * OUTPUT_MESSAGE_BYTES;

/// Serves one connection until it ends; its session may live longer.
pub(crate) async fn serve<J: Jobs>(
    desk: Arc<Desk<J>>,
    visitor: Arc<Visitor>,
    link: impl Link,
    peer: SocketAddr,
) {
    let owner = visitor.caller.subject.clone();
    let ended = ended(visitor.peer.not_after, &owner);
    let handler = {
        let desk = desk.clone();
        move |request: Bytes, stream: Stream| {
            tokio::spawn(answer(desk.clone(), visitor.clone(), request, stream));
        }
    };
    match desk
        .sessions
        .serve_until(link, &owner, ended, handler)
        .await
    {
        Ok(how) => tracing::debug!(%peer, subject = owner, ?how, "session connection ended"),
        Err(cause) => tracing::warn!(%peer, subject = owner, %cause, "session connection broken"),
    }
}

/// Resolves with the word to the client when its certificate has ended.
async fn ended(not_after: SystemTime, owner: &str) -> String {
    until(not_after).await;
    Refused::Ended {
        subject: owner.to_owned(),
    }
    .to_string()
}

/// Why an answer stops before its end.
enum Stop {
    /// The client hears it.
    Refused(Refusal),
    /// The client has heard enough (V2).
    Left,
    /// The client is not there any more, or reads no more.
    Gone(SessionError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<SessionError> for Stop {
    fn from(e: SessionError) -> Stop {
        Stop::Gone(e)
    }
}

/// The sending side of a stream, in the terms of spec/services.
struct Out {
    sender: Sender,
}

impl Out {
    async fn reply<T: Serialize>(&mut self, value: &T) -> Result<(), Stop> {
        Ok(self.sender.send(kind::REPLY, json(value)).await?)
    }

    async fn tell(&mut self, message: FromJob) -> Result<(), Stop> {
        Ok(self.sender.send_all(&mut [draft(message)].into()).await?)
    }

    /// Bytes of an output stream from `offset`, in messages that each fit one frame.
    async fn output(
        &mut self,
        stream: OutputStream,
        mut offset: u64,
        mut bytes: Bytes,
    ) -> Result<(), Stop> {
        let mut drafts = VecDeque::new();
        while !bytes.is_empty() {
            let data = bytes.split_to(bytes.len().min(OUTPUT_MESSAGE_BYTES));
            let next = offset + data.len() as u64;
            drafts.push_back(draft(FromJob::Output {
                stream,
                offset,
                data,
            }));
            offset = next;
        }
        Ok(self.sender.send_all(&mut drafts).await?)
    }
}

fn draft(message: FromJob) -> Draft {
    let (kind, [first, data]) = message.encode();
    Draft { kind, first, data }
}

async fn answer<J: Jobs>(
    desk: Arc<Desk<J>>,
    visitor: Arc<Visitor>,
    request: Bytes,
    stream: Stream,
) {
    desk.meter.requests.fetch_add(1, Relaxed);
    let request = Request::decode(&request);
    if let (Ok(Request::Rpc), Some(calls)) = (&request, desk.calls.get()) {
        let peer = kumiko_session::Peer {
            subject: visitor.caller.subject.clone(),
            account: visitor.caller.account.clone(),
            may_start: visitor.may_start,
        };
        return calls.serve(peer, stream).await;
    }
    let (sender, mut receiver) = stream.split();
    let mut out = Out { sender };
    let done = match request {
        Ok(request) => dispatch(&desk, &visitor, request, &mut out, &mut receiver).await,
        Err(e) => Err(Refusal::new("bad_request", e.to_string()).into()),
    };
    let ended = match done {
        Ok(()) => out.sender.finish().await,
        Err(Stop::Refused(refusal)) => {
            desk.refused(&refusal);
            match out.sender.send(kind::REFUSED, json(&refusal)).await {
                Ok(()) => out.sender.finish().await,
                Err(e) => Err(e),
            }
        }
        Err(Stop::Left) => out.sender.finish().await,
        Err(Stop::Gone(e)) => Err(e),
    };
    if let Err(cause) = ended {
        tracing::debug!(subject = %visitor.caller.subject, %cause, "the client did not hear the answer's end");
    }
}

async fn dispatch<J: Jobs>(
    desk: &Arc<Desk<J>>,
    visitor: &Arc<Visitor>,
    request: Request,
    out: &mut Out,
    receiver: &mut Receiver,
) -> Result<(), Stop> {
    let caller = &visitor.caller;
    match request {
        Request::Submit { description, key } => {
            let job = desk.submit(visitor, description, key).await?;
            out.reply(&Submitted { job }).await
        }
        Request::Exec { description, key } => {
            let stdin = description.stdin == Stdin::Live;
            let job = desk.submit(visitor, description, key).await?;
            out.reply(&Submitted { job }).await?;
            attach::attach(
                desk,
                visitor,
                attach::To {
                    job,
                    stdin,
                    from: [0, 0],
                },
                out,
                receiver,
            )
            .await
        }
        Request::List => {
            for view in desk.jobs.list(caller).await? {
                out.reply(&view).await?;
            }
            Ok(())
        }
        Request::Show { job } => out.reply(&desk.jobs.show(caller, job).await?).await,
        Request::Explain { job } => out.reply(&desk.jobs.explain(caller, job).await?).await,
        Request::Watch { job, after } => {
            let mut events = desk.jobs.watch(caller, job, after).await?;
            let telling = async {
                while let Some(event) = events.next().await {
                    out.reply(&event).await?;
                }
                Ok(desk.events_ended(visitor, job).await?)
            };
            while_heard(receiver, telling).await
        }
        Request::Cancel { job, grace_ms } => {
            desk.jobs.cancel(caller, job, grace_ms).await?;
            out.reply(&Done {}).await
        }
        Request::Signal { job, signal } => {
            desk.jobs
                .command(caller, job, AttemptCommand::Signal { signal })
                .await?;
            out.reply(&Done {}).await
        }
        Request::Limit { job, limits } => {
            let command = AttemptCommand::Limits(limits);
            desk.jobs.command(caller, job, command).await?;
            out.reply(&Done {}).await
        }
        Request::Narrow { job, policy } => {
            let not_followed = desk.jobs.narrow(caller, job, &policy).await?;
            out.reply(&Narrowed { not_followed }).await
        }
        Request::Migrate { job, to } => {
            desk.jobs.migrate(caller, job, to).await?;
            out.reply(&Done {}).await
        }
        Request::Release { job } => {
            desk.jobs
                .command(caller, job, AttemptCommand::Release)
                .await?;
            out.reply(&Done {}).await
        }
        Request::Hold { job } => {
            drop(desk.jobs.attend(caller, job).await?);
            out.reply(&Done {}).await
        }
        Request::Remove { job } => {
            desk.jobs.remove(caller, job).await?;
            out.reply(&Done {}).await
        }
        Request::Attach {
            job,
            stdin,
            stdout_from,
            stderr_from,
        } => {
            let to = attach::To {
                job,
                stdin,
                from: [stdout_from, stderr_from],
            };
            attach::attach(desk, visitor, to, out, receiver).await
        }
        Request::Output { job, stream, from } => {
            let mut reader = desk.jobs.output(caller, job, stream, from).await?;
            let telling = async {
                while let Some((offset, data)) = reader.read(OUTPUT_READ_BYTES).await? {
                    desk.meter
                        .output_bytes
                        .fetch_add(data.len() as u64, Relaxed);
                    out.output(stream, offset, data).await?;
                }
                Ok(())
            };
            while_heard(receiver, telling).await
        }
        Request::Stocked { sums } => out.reply(&desk.stocked(visitor, sums).await?).await,
        Request::Upload => staging::upload(desk, visitor, out, receiver).await,
        Request::Download { job, since_us } => {
            let sending = staging::download(desk, visitor, job, since_us, out);
            while_heard(receiver, sending).await
        }
        Request::Delegate => delegation::delegate(desk, visitor, out, receiver).await,
        Request::Renew { job } => delegation::renew(desk, visitor, job, out, receiver).await,
        Request::Site => out.reply(&desk.site(visitor)).await,
        // Where there is a service for it, it has the stream by now.
        Request::Rpc => Err(Refusal::new(
            "no_rpc",
            "this site does not take calls of routines".to_owned(),
        )
        .into()),
    }
}

/// Runs `telling` until the client stops listening.
async fn while_heard<F>(receiver: &mut Receiver, telling: F) -> Result<(), Stop>
where
    F: Future<Output = Result<(), Stop>>,
{
    tokio::select! {
        told = telling => told,
        gone = gone(receiver) => Err(gone),
    }
}

/// Resolves when the client ends its side of the stream, in order or not.
async fn gone(receiver: &mut Receiver) -> Stop {
    match receiver.recv_part().await {
        Ok(Some(part)) => Refusal::new(
            "bad_request",
            format!(
                "a message of kind {:#04x} came where the client has nothing to say",
                part.kind
            ),
        )
        .into(),
        Ok(None) => Stop::Left,
        Err(e) => e.into(),
    }
}
