//! The front of a site for many accounts (spec/monitor, M3, M4 and M8): asks the monitor for the way to an account's
//! agent, tells the agent what the peer showed, and carries bytes. What they mean is the agent's.

use crate::admit::{Link, TURN_AWAY_WITHIN, Tls, turn_away};
use crate::channel::Channel;
use crate::front::{Behind, Front, FrontError, Known, refuse};
use crate::meter::Meter;
use crate::{Config, Refused};
use bytes::Bytes;
use kumiko_identity::Peer;
use kumiko_wire::monitor::{FromFront, NotIntroduced, ToFront};
use kumiko_wire::relay::{Door, Preface};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{oneshot, watch};

/// The monitor answers from memory, and starts an agent without waiting for it; one that is slower is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Carried at once: four records of TLS.
const PIECE_BYTES: usize = 64 * 1024;

/// What is behind such a front.
#[derive(Debug)]
pub struct Relay {
    line: Arc<Line>,
    meter: Arc<Meter>,
}

/// The line to the monitor.
#[derive(Debug)]
struct Line {
    channel: Channel,
    next: AtomicU32,
    asked: Mutex<HashMap<u32, oneshot::Sender<Answer>>>,
    gone: watch::Sender<bool>,
}

/// The stream to the agent, and its account.
type Answer = Result<(UnixStream, String), NotIntroduced>;

impl Front<Relay> {
    /// Reads the keys and takes over what the monitor gave: the listening socket, and the line to itself.
    ///
    /// # Errors
    /// A file that cannot be used, or descriptors that are not what they should be.
    pub async fn relaying(
        config: Config,
        listener: std::net::TcpListener,
        monitor: OwnedFd,
    ) -> Result<Self, FrontError> {
        let given = |cause| FrontError::Given { cause };
        listener.set_nonblocking(true).map_err(given)?;
        let listener = TcpListener::from_std(listener).map_err(given)?;
        let address = listener.local_addr().map_err(given)?;
        let line = Arc::new(Line {
            channel: Channel::new(monitor).map_err(given)?,
            next: AtomicU32::new(0),
            asked: Mutex::default(),
            gone: watch::Sender::new(false),
        });
        let front = Front::new(config, listener, address, |_, meter| Relay {
            line: line.clone(),
            meter,
        })?;
        tokio::spawn(async move { line.hear().await });
        Ok(front)
    }

    /// Tells the monitor that connections are accepted from now on.
    ///
    /// # Errors
    /// The monitor is gone.
    pub async fn ready(&self) -> io::Result<()> {
        let channel = &self.behind().line.channel;
        channel.send(&FromFront::Ready.encode()).await
    }

    /// Resolves when the monitor is gone: nothing can be served any more.
    pub fn monitor_gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut gone = self.behind().line.gone.subscribe();
        async move {
            // An error says that the line itself is gone.
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }
}

impl Behind for Relay {
    /// A stop is the agent's to carry out: what is under way ends with it, or with this front's time to drain.
    async fn receive(self: Arc<Self>, known: Known, _stopped: watch::Receiver<bool>) {
        let Known {
            link,
            who,
            door,
            address,
            ..
        } = known;
        let (stream, account) = match self.line.introduce(&who).await {
            Ok(introduced) => introduced,
            Err(why) => return self.refuse(link, door, address, &who, why).await,
        };
        let served = match door {
            Door::Session => &self.meter.sessions,
            Door::Http1 | Door::Http2 | Door::Gram => &self.meter.rest,
        };
        served.fetch_add(1, Relaxed);
        tracing::debug!(peer = %address, subject = %who.identity, account, ?door, "relayed");
        if let Err(cause) = relay(link, stream, preface(&who, door, address)).await {
            tracing::debug!(peer = %address, %cause, "a relayed connection broke");
        }
    }

    /// A relay ends with its connection.
    async fn shutdown(&self) {}
}

impl Relay {
    async fn refuse(&self, link: Tls, door: Door, at: SocketAddr, who: &Peer, why: NotIntroduced) {
        let why = Refused::NotIntroduced {
            subject: who.identity.to_string(),
            why,
        };
        refuse(&self.meter, at, &why);
        turn_away(link, door, &why).await;
    }
}

/// What the peer showed, not what was concluded from it: the agent judges by itself.
fn preface(who: &Peer, door: Door, peer: SocketAddr) -> Preface {
    // One that cannot be written in DER was not read from it: the agent refuses the chain without it.
    let chain = who.chain.iter().filter_map(|c| c.to_der().ok());
    Preface {
        door,
        peer,
        chain: chain.map(Bytes::from).collect(),
    }
}

impl Line {
    /// A stream to the agent of the account that the monitor finds for this peer.
    async fn introduce(&self, who: &Peer) -> Answer {
        let number = self.next.fetch_add(1, Relaxed);
        let (answer, answered) = oneshot::channel();
        self.asked().insert(number, answer);
        let subject = who.identity.to_string();
        let question = FromFront::Introduce { number, subject }.encode();
        let asking = async {
            self.channel.send(&question).await.ok()?;
            answered.await.ok()
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, asking).await;
        self.asked().remove(&number);
        match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(NotIntroduced::Closing),
            Err(_) => Err(NotIntroduced::Busy),
        }
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, HashMap<u32, oneshot::Sender<Answer>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the monitor's answers to those who asked, until it is gone.
    async fn hear(&self) {
        loop {
            let (message, descriptor) = match self.channel.receive().await {
                Ok(Some(came)) => came,
                Ok(None) => break,
                Err(cause) => {
                    tracing::error!(%cause, "the line to the monitor is broken");
                    break;
                }
            };
            let (number, answer) = match (ToFront::decode(&message), descriptor) {
                (Ok(ToFront::Introduced { number, account }), Some(stream)) => {
                    let stream = taken_over(stream).map_err(|_| NotIntroduced::Busy);
                    (number, stream.map(|stream| (stream, account)))
                }
                (Ok(ToFront::Refused { number, why }), None) => (number, Err(why)),
                (other, _) => {
                    tracing::error!(?other, "the monitor said what it never says");
                    break;
                }
            };
            if let Some(asked) = self.asked().remove(&number) {
                // Whoever asked may have left.
                let _ = asked.send(answer);
            }
        }
        self.gone.send_replace(true);
        self.asked().clear();
    }
}

/// A stream that came as a descriptor.
pub(crate) fn taken_over(stream: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Carries bytes both ways until the agent has ended its side, or either is cut.
async fn relay(link: impl Link, agent: UnixStream, preface: Preface) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(link);
    let (from_agent, mut to_agent) = agent.into_split();
    let up = async {
        to_agent.write_all(&preface.encode()).await?;
        carry(from_client, to_agent).await
    };
    let down = carry(from_agent, to_client);
    let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
    let mut client_ended = false;
    loop {
        tokio::select! {
            ended = &mut down => {
                ended?;
                break;
            }
            ended = &mut up, if !client_ended => {
                // Cut: the agent is to hear of it now. In order: it has still the last word.
                ended?;
                client_ended = true;
            }
        }
    }
    // The agent's last word is on its way: the client is given time to take it and close.
    if !client_ended {
        let _ = tokio::time::timeout(TURN_AWAY_WITHIN, up).await;
    }
    Ok(())
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece).await? {
            0 => return to.shutdown().await,
            bytes => to.write_all(piece.get(..bytes).unwrap_or_default()).await?,
        }
        to.flush().await?;
    }
}
