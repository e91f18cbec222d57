//! A job whose streams are here: output comes with offsets, and stdin is kept until the job has taken it, so that
//! after a lost session both go on exactly (spec/services, V4 and V5).
//!
//! Output is read straight from the stream. What is sent (stdin, signals, `Consumed`) goes through one small task, the
//! pump, because it must go on while nobody reads and while the link is away.

use crate::ClientError;
use crate::client::Client;
use crate::pump::{self, Controls};
use crate::reading::{Broken, is_lost, next_message};
use bytes::Bytes;
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::description::{JobDescription, WindowSize};
use kumiko_job::id::JobId;
use kumiko_session::{Receiver, SessionError};
use kumiko_wire::api::{self, Request, Submitted, kind};
use kumiko_wire::exec::{FromJob, ToJob};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::sync::mpsc;

/// Output that has come is acknowledged in steps of this size; the site keeps that much of a `Flow` output more.
const CONSUMED_STEP_BYTES: u64 = 1 << 20;

/// What an attached job tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The job that `exec` has made; the first thing heard.
    Submitted(JobId),
    /// The next bytes of a stream.
    Output { stream: OutputStream, data: Bytes },
    /// How the job ended; comes after all output.
    Ended(Outcome),
}

/// A job that this client is attached to. Dropped, it detaches; the job goes on.
#[derive(Debug)]
pub struct Attached {
    client: Client,
    subject: Subject,
    stdin: bool,
    /// Offsets of the next bytes of stdout and stderr.
    at: [u64; 2],
    acknowledged: [u64; 2],
    ended: bool,
    /// Came behind something that was handed out first.
    failed: Option<ClientError>,
    generation: u64,
    receiver: Receiver,
    pump: Controls,
}

/// What is attached to: known by its number, or not answered yet.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Job(JobId),
    New {
        description: Box<JobDescription>,
        key: String,
    },
}

/// The way to a job's stdin, for any number of tasks. Dropping it does not end the stdin: `end` does.
#[derive(Clone, Debug)]
pub struct Input {
    pub(crate) stdin: mpsc::Sender<Option<Bytes>>,
    pub(crate) orders: mpsc::Sender<ToJob>,
}

impl Input {
    /// Waits while the job reads nothing. False: the job takes no more.
    pub async fn send(&self, data: Bytes) -> bool {
        self.stdin.send(Some(data)).await.is_ok()
    }

    /// End of stdin.
    pub async fn end(&self) {
        let _ = self.stdin.send(None).await; // an error: the job takes no more anyway
    }

    /// A signal by number to the job's process group. One that is sent while the link is away is sent afterwards; one
    /// that is on its way when the session is lost is lost with it.
    pub async fn signal(&self, signal: i32) {
        let _ = self.orders.send(ToJob::Signal { signal }).await;
    }

    /// The terminal here has another size now.
    pub async fn window(&self, size: WindowSize) {
        let _ = self.orders.send(ToJob::Window(size)).await;
    }
}

pub(crate) async fn start(
    client: &Client,
    subject: Subject,
    stdin: bool,
    from: [u64; 2],
) -> Result<Attached, ClientError> {
    let (generation, stream) = client.open(request(&subject, stdin, from).encode()).await?;
    let (sender, receiver) = stream.split();
    // An older job may have taken stdin from somebody else: its first `StdinTaken` says where to begin.
    let next = matches!(subject, Subject::New { .. }).then_some(0);
    let pump = pump::start(sender, stdin, next, from);
    Ok(Attached {
        client: client.clone(),
        subject,
        stdin,
        at: from,
        acknowledged: from,
        ended: false,
        failed: None,
        generation,
        receiver,
        pump,
    })
}

fn request(subject: &Subject, stdin: bool, from: [u64; 2]) -> Request {
    match subject {
        Subject::Job(job) => Request::Attach {
            job: *job,
            stdin,
            stdout_from: from[0],
            stderr_from: from[1],
        },
        Subject::New { description, key } => Request::Exec {
            description: (**description).clone(),
            key: Some(key.clone()),
        },
    }
}

impl Attached {
    pub fn input(&self) -> Input {
        self.pump.input.clone()
    }

    /// Known from the first `Heard` on.
    pub fn job(&self) -> Option<JobId> {
        match self.subject {
            Subject::Job(job) => Some(job),
            Subject::New { .. } => None,
        }
    }

    /// What comes next and all else that is here by then, with about `most` bytes of output; nothing after `Ended`.
    ///
    /// # Errors
    /// As of `next`; one that comes behind something is told the next time.
    pub async fn next_few(&mut self, most: usize) -> Result<Vec<Heard>, ClientError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let mut few = Vec::new();
        let mut bytes = 0;
        let mut next = self.next().await?;
        while let Some(heard) = next {
            if let Heard::Output { data, .. } = &heard {
                bytes += data.len();
            }
            few.push(heard);
            if bytes >= most {
                break;
            }
            let mut here = Context::from_waker(Waker::noop());
            let looked = pin!(self.next()).poll(&mut here);
            next = match looked {
                Poll::Ready(Ok(next)) => next,
                Poll::Ready(Err(failed)) => {
                    self.failed = Some(failed);
                    None
                }
                Poll::Pending => None,
            };
        }
        Ok(few)
    }

    /// What comes next; None after `Ended`. A lost session is made anew here, and each byte is still heard once.
    ///
    /// # Errors
    /// Refused by the site, or the site did not come back.
    pub async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let message = match next_message(&mut self.receiver).await {
                Ok(Some(message)) => message,
                Ok(None) => {
                    return Err(ClientError::Short {
                        asked: "an attached job",
                    });
                }
                Err(Broken::Session(cause)) if is_lost(&cause) => {
                    self.again(&cause).await?;
                    continue;
                }
                Err(broken) => return Err(broken.told(&self.client)),
            };
            if message.kind == kind::REPLY {
                let Submitted { job } = api::reply(&message.data)?;
                self.subject = Subject::Job(job);
                return Ok(Some(Heard::Submitted(job)));
            }
            match FromJob::decode(message.kind, message.data)? {
                FromJob::Output {
                    stream,
                    offset,
                    data,
                } => {
                    if let Some(data) = self.fresh(stream, offset, data) {
                        return Ok(Some(Heard::Output { stream, data }));
                    }
                }
                FromJob::StdinTaken { offset } => {
                    self.pump
                        .taken
                        .send_modify(|t| t.offset = t.offset.max(offset));
                }
                FromJob::StdinClosed => self.pump.taken.send_modify(|t| t.closed = true),
                FromJob::Ended(outcome) => {
                    self.ended = true;
                    return Ok(Some(Heard::Ended(outcome)));
                }
            }
        }
    }

    /// What of these bytes was not heard yet.
    fn fresh(&mut self, stream: OutputStream, offset: u64, mut data: Bytes) -> Option<Bytes> {
        let i = usize::from(stream == OutputStream::Stderr);
        let known = self.at[i].saturating_sub(offset);
        if known >= data.len() as u64 {
            return None;
        }
        let data = data.split_off(known as usize); // below data.len(), a usize
        self.at[i] = offset + known + data.len() as u64;
        if self.at[i] - self.acknowledged[i] >= CONSUMED_STEP_BYTES {
            self.acknowledged[i] = self.at[i];
            self.pump.consumed.send_modify(|c| c[i] = self.at[i]);
        }
        Some(data)
    }

    async fn again(&mut self, cause: &SessionError) -> Result<(), ClientError> {
        tracing::debug!(site = %self.client.address(), %cause, "attaching again");
        let request = request(&self.subject, self.stdin, self.at);
        let (generation, stream) = self
            .client
            .open_anew(self.generation, request.encode())
            .await?;
        let (sender, receiver) = stream.split();
        self.generation = generation;
        self.receiver = receiver;
        let _ = self.pump.senders.send(sender).await; // the pump lives as long as this
        Ok(())
    }
}
