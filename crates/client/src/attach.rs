//! A job whose streams are here: output comes with offsets, and stdin is kept until the job has taken it, so that
//! after a lost session both go on exactly (spec/services, V4 and V5).
//!
//! Output is read straight from the stream. What is sent (stdin, signals, `Consumed`) goes through one small task, the
//! pump, because it must go on while nobody reads and while the link is away.

use crate::ClientError;
use crate::client::{Broken, Client, is_lost, next_message};
use bytes::Bytes;
use kumiko_job::attempt::{Outcome, OutputStream, STDIN_WINDOW_BYTES};
use kumiko_job::description::{JobDescription, WindowSize};
use kumiko_job::id::JobId;
use kumiko_session::{Receiver, Sender, SessionError};
use kumiko_wire::api::{self, Request, Submitted, kind};
use kumiko_wire::exec::{FromJob, ToJob};
use std::collections::VecDeque;
use tokio::sync::{mpsc, watch};

/// Output that has come is acknowledged in steps of this size; the site keeps that much of a `Flow` output more.
const CONSUMED_STEP_BYTES: u64 = 1 << 20;
/// Signals and window sizes on their way to the pump.
const ORDERS: usize = 16;
/// Stdin beyond this is cut, so that a message is one frame or a few.
const STDIN_MESSAGE_BYTES: usize = 32 * 1024;

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
    generation: u64,
    receiver: Receiver,
    input: Input,
    senders: mpsc::Sender<Sender>,
    taken: watch::Sender<Taken>,
    consumed: watch::Sender<[u64; 2]>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    offset: u64,
    closed: bool,
}

/// The way to a job's stdin, for any number of tasks. Dropping it does not end the stdin: `end` does.
#[derive(Clone, Debug)]
pub struct Input {
    stdin: mpsc::Sender<Option<Bytes>>,
    orders: mpsc::Sender<ToJob>,
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
    let (stdin_in, stdin_out) = mpsc::channel(1);
    let (orders_in, orders_out) = mpsc::channel(ORDERS);
    let (senders, new_senders) = mpsc::channel(1);
    let (taken, taken_seen) = watch::channel(Taken::default());
    let (consumed, consumed_seen) = watch::channel(from);
    let pump = Pump {
        sender: Some(sender),
        new_senders,
        stdin: stdin.then_some(stdin_out),
        orders: orders_out,
        taken: taken_seen,
        consumed: consumed_seen,
        kept: VecDeque::new(),
        unsent: VecDeque::new(),
        // An older job may have taken stdin from somebody else: its first `StdinTaken` says where to begin.
        next: matches!(subject, Subject::New { .. }).then_some(0),
        end: false,
    };
    tokio::spawn(pump.run());
    Ok(Attached {
        client: client.clone(),
        subject,
        stdin,
        at: from,
        acknowledged: from,
        ended: false,
        generation,
        receiver,
        input: Input {
            stdin: stdin_in,
            orders: orders_in,
        },
        senders,
        taken,
        consumed,
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
        self.input.clone()
    }

    /// Known from the first `Heard` on.
    pub fn job(&self) -> Option<JobId> {
        match self.subject {
            Subject::Job(job) => Some(job),
            Subject::New { .. } => None,
        }
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
                    self.taken.send_modify(|t| t.offset = t.offset.max(offset));
                }
                FromJob::StdinClosed => self.taken.send_modify(|t| t.closed = true),
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
            self.consumed.send_modify(|c| c[i] = self.at[i]);
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
        let _ = self.senders.send(sender).await; // the pump lives as long as this
        Ok(())
    }
}

struct Pump {
    sender: Option<Sender>,
    new_senders: mpsc::Receiver<Sender>,
    /// None once the end of stdin is known, or no more is taken.
    stdin: Option<mpsc::Receiver<Option<Bytes>>>,
    orders: mpsc::Receiver<ToJob>,
    taken: watch::Receiver<Taken>,
    consumed: watch::Receiver<[u64; 2]>,
    /// Sent and not known to be taken, with their offsets.
    kept: VecDeque<(u64, Bytes)>,
    unsent: VecDeque<Bytes>,
    /// Offset of the first byte of `unsent`; None: not told yet.
    next: Option<u64>,
    end: bool,
}

impl Pump {
    async fn run(mut self) {
        let mut told = *self.consumed.borrow();
        loop {
            self.send_stdin().await;
            let linked = self.sender.is_some();
            let hungry = linked && self.next.is_some() && self.unsent.is_empty() && !self.end;
            tokio::select! {
                sender = self.new_senders.recv() => match sender {
                    Some(sender) => self.anew(sender).await,
                    None => break,
                },
                changed = self.taken.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.prune();
                }
                changed = self.consumed.changed(), if linked => {
                    if changed.is_err() {
                        break;
                    }
                    let now = *self.consumed.borrow_and_update();
                    for (i, stream) in [OutputStream::Stdout, OutputStream::Stderr].into_iter().enumerate() {
                        if now[i] > told[i] {
                            told[i] = now[i];
                            self.send(ToJob::Consumed { stream, offset: now[i] }).await;
                        }
                    }
                }
                Some(order) = self.orders.recv(), if linked => self.send(order).await,
                data = next_stdin(&mut self.stdin), if hungry => match data {
                    Some(Some(data)) => self.unsent.push_back(data),
                    Some(None) => {
                        self.end = true;
                        self.send_end().await;
                    }
                    None => self.stdin = None,
                },
            }
        }
        if let Some(sender) = self.sender {
            let _ = sender.finish().await; // detached in order; if the link is gone, that says it too
        }
    }

    /// Sends of `unsent` what the window admits.
    async fn send_stdin(&mut self) {
        while self.sender.is_some() {
            let (Some(offset), Some(front)) = (self.next, self.unsent.front_mut()) else {
                return;
            };
            let open = (self.taken.borrow().offset + STDIN_WINDOW_BYTES).saturating_sub(offset);
            let most = front
                .len()
                .min(STDIN_MESSAGE_BYTES)
                .min(usize::try_from(open).unwrap_or(usize::MAX));
            let data = front.split_to(most);
            if front.is_empty() {
                self.unsent.pop_front();
            }
            if data.is_empty() {
                return;
            }
            self.next = Some(offset + data.len() as u64);
            self.kept.push_back((offset, data.clone()));
            self.send(ToJob::Stdin { offset, data }).await;
        }
    }

    fn prune(&mut self) {
        let taken = *self.taken.borrow_and_update();
        self.next.get_or_insert(taken.offset);
        while self
            .kept
            .front()
            .is_some_and(|(offset, data)| offset + data.len() as u64 <= taken.offset)
        {
            self.kept.pop_front();
        }
        if taken.closed {
            self.stdin = None; // senders see it
            self.end = true;
            self.kept.clear();
            self.unsent.clear();
        }
    }

    /// A new stream: what may not have arrived is sent again.
    async fn anew(&mut self, sender: Sender) {
        self.sender = Some(sender);
        self.prune();
        for (offset, data) in self.kept.clone() {
            self.send(ToJob::Stdin { offset, data }).await;
        }
        if self.end && !self.taken.borrow().closed {
            self.send_end().await;
        }
    }

    async fn send_end(&mut self) {
        if let Some(offset) = self.next {
            self.send(ToJob::StdinEnd { offset }).await;
        }
    }

    /// An error means that the session is lost: `Attached::next` sees it too, and brings a new sender.
    async fn send(&mut self, message: ToJob) {
        if let Some(sender) = &mut self.sender {
            let (kind, data) = message.encode();
            if sender.send(kind, data).await.is_err() {
                self.sender = None;
            }
        }
    }
}

/// Pends for ever once there is no more to come.
async fn next_stdin(stdin: &mut Option<mpsc::Receiver<Option<Bytes>>>) -> Option<Option<Bytes>> {
    match stdin {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}
