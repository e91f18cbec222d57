//! The pump: sends what an attached client has to say (stdin, signals, `Consumed`) while nobody reads, and again what
//! may not have arrived after a loss (spec/services V5).

use crate::attach::Input;
use bytes::Bytes;
use kumiko_job::attempt::{OutputStream, STDIN_WINDOW_BYTES};
use kumiko_session::Sender;
use kumiko_wire::exec::ToJob;
use std::collections::VecDeque;
use tokio::sync::{mpsc, watch};

/// Stdin beyond this is cut, so that a message is one frame.
const STDIN_MESSAGE_BYTES: usize = kumiko_wire::frame::PART_BYTES - 8;

/// What the site has said of the job's stdin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub offset: u64,
    pub closed: bool,
}

/// Signals and window sizes on their way to the pump.
const ORDERS: usize = 16;

/// What an attached client holds of its pump. The pump ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Controls {
    pub input: Input,
    /// A new stream, after a loss.
    pub senders: mpsc::Sender<Sender>,
    pub taken: watch::Sender<Taken>,
    /// What has arrived of stdout and stderr.
    pub consumed: watch::Sender<[u64; 2]>,
}

/// `next`: the offset of the first byte of stdin, if it is known.
pub(crate) fn start(
    sender: Sender,
    stdin: bool,
    next: Option<u64>,
    consumed: [u64; 2],
) -> Controls {
    let (stdin_in, stdin_out) = mpsc::channel(1);
    let (orders_in, orders) = mpsc::channel(ORDERS);
    let (senders, new_senders) = mpsc::channel(1);
    let (taken, taken_seen) = watch::channel(Taken::default());
    let (consumed, consumed_seen) = watch::channel(consumed);
    let pump = Pump {
        sender: Some(sender),
        new_senders,
        stdin: stdin.then_some(stdin_out),
        orders,
        taken: taken_seen,
        consumed: consumed_seen,
        kept: VecDeque::new(),
        unsent: VecDeque::new(),
        next,
        end: false,
    };
    tokio::spawn(pump.run());
    Controls {
        input: Input {
            stdin: stdin_in,
            orders: orders_in,
        },
        senders,
        taken,
        consumed,
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
