//! An account's agent (spec/monitor, M5 to M9): takes the connections that the monitor introduces, judges by itself who
//! speaks on them, and serves them at the doors. It ends when the monitor lets it, and asks for that when it is idle.

use crate::admit::Visitor;
use crate::bounds::Bounds;
use crate::channel::Channel;
use crate::desk::Desk;
use crate::front::Behind;
use crate::keys::Trust;
use crate::meter::Meter;
use crate::relay::taken_over;
use crate::{KeysError, Refused, Service, doors};
use bytes::Bytes;
use kumiko_identity::{Certificate, Dn, Peer, ProxyKind, Purpose, verify};
use kumiko_job::contract::Jobs;
use kumiko_wire::monitor::{FromAgent, ToAgent};
use kumiko_wire::relay::{Door, LENGTH_BYTES, Preface, PrefaceError};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often it is looked whether there is anything to do, at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Why an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// It had nothing to do, and the monitor let it go.
    Idle,
    /// It was told to.
    Asked,
    /// The monitor is gone, or broke the rules.
    MonitorGone,
}

/// Why a connection was not served; the front is at fault, or the agent's trust directory differs from the front's.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("no preface came within {} s", within.as_secs_f32())]
    Slow { within: Duration },
    #[error("the connection broke before its preface: {0}")]
    Broken(#[from] io::Error),
    #[error(transparent)]
    Preface(#[from] PrefaceError),
    #[error("the chain that came with it cannot be read: {0}")]
    Unreadable(#[from] kumiko_identity::CertificateError),
    #[error("the chain that came with it is not accepted: {0}")]
    Chain(#[from] kumiko_identity::VerifyError),
    #[error("the monitor introduced {introduced}, the chain is of {shown}")]
    Another { introduced: String, shown: Dn },
    #[error("an independent proxy of {0} has no rights here")]
    Independent(Dn),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The doors of one account.
#[derive(Debug)]
pub struct Agent<J> {
    desk: Arc<Desk<J>>,
    account: String,
}

impl<J: Jobs> Agent<J> {
    /// # Errors
    /// The trust directory cannot be read.
    pub fn new(
        service: Service,
        trust: &Path,
        account: String,
        jobs: Arc<J>,
    ) -> Result<Self, KeysError> {
        let trust = Trust::load(trust)?;
        let limits = &service.limits;
        let bounds = Bounds::new(limits.connections, limits.connections_per_address);
        let desk = Desk::new(service, jobs, trust, bounds, Arc::new(Meter::default()));
        Ok(Agent {
            desk: Arc::new(desk),
            account,
        })
    }

    /// Offers calls of routines on sessions, to who comes from now on.
    pub fn offer_calls(&self, service: Arc<dyn kumiko_session::Service>) {
        let _ = self.desk.calls.set(service); // it is offered once
    }

    /// Serves what comes over `monitor` until told to end. When `has_work` is false and nobody is connected for
    /// `idle_after`, the monitor is asked whether this may end.
    ///
    /// # Errors
    /// The descriptor is not a line to a monitor.
    pub async fn run(
        self,
        monitor: OwnedFd,
        idle_after: Duration,
        has_work: impl Fn() -> bool,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<AgentEnd> {
        let channel = Channel::new(monitor)?;
        self.desk.begin().await;
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut taken = 0;
        let mut busy_at = Instant::now();
        let mut look =
            tokio::time::interval(LOOK_EVERY.min(idle_after / 4 + Duration::from_millis(1)));
        let mut shutdown = std::pin::pin!(shutdown);
        let end = loop {
            tokio::select! {
                () = &mut shutdown => break AgentEnd::Asked,
                Some(_) = connections.join_next() => {} // a panic there is that connection's alone
                came = channel.receive() => match heard(came) {
                    Some((ToAgent::Connection { subject }, Some(stream))) => {
                        taken += 1;
                        busy_at = Instant::now();
                        let work = connection(self.desk.clone(), self.account.clone(), subject, stream, stopped.clone());
                        connections.spawn(work);
                    }
                    Some((ToAgent::Go, None)) => break AgentEnd::Idle,
                    _ => break AgentEnd::MonitorGone,
                },
                _ = look.tick() => {
                    let sessions = self.desk.sessions.stats();
                    if !connections.is_empty() || sessions.attached + sessions.detached > 0 || has_work() {
                        busy_at = Instant::now();
                    } else if busy_at.elapsed() >= idle_after {
                        busy_at = Instant::now(); // asks again only after as long
                        if channel.send(&FromAgent::Idle { taken }.encode()).await.is_err() {
                            break AgentEnd::MonitorGone;
                        }
                    }
                }
            }
        };
        // The receivers are in the connections; there may be none.
        let _ = stop.send(true);
        let drained = async {
            self.desk.shutdown().await;
            while connections.join_next().await.is_some() {}
        };
        // What does not end in time is closed with answers under way.
        let _ = tokio::time::timeout(self.desk.config.limits.drain_within, drained).await;
        Ok(end)
    }
}

/// What the monitor said; None: it is gone, or this is not a monitor.
fn heard(
    came: io::Result<Option<(Vec<u8>, Option<OwnedFd>)>>,
) -> Option<(ToAgent, Option<OwnedFd>)> {
    match came {
        Ok(Some((message, descriptor))) => match ToAgent::decode(&message) {
            Ok(message) => Some((message, descriptor)),
            Err(cause) => {
                tracing::error!(%cause, "the monitor said what it never says");
                None
            }
        },
        Ok(None) => None,
        Err(cause) => {
            tracing::error!(%cause, "the line to the monitor is broken");
            None
        }
    }
}

async fn connection<J: Jobs>(
    desk: Arc<Desk<J>>,
    account: String,
    subject: String,
    stream: OwnedFd,
    mut stopped: watch::Receiver<bool>,
) {
    let admitted = tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => return,
        admitted = admit(&desk, &subject, stream) => admitted,
    };
    match admitted {
        Ok((link, who, door, peer)) => match desk.bounds.take(peer.ip()) {
            Ok(_place) => {
                let visitor = Visitor::new(&desk.config, who, account);
                doors::serve(desk.clone(), visitor, link, door, peer, stopped).await;
            }
            Err(why) => tracing::warn!(%peer, subject, "refused: {why}"),
        },
        Err(why) => tracing::warn!(subject, "a connection from the front is not served: {why}"),
    }
}

/// Judges who speaks, by the chain alone: the front is believed only that the peer has the key to it.
async fn admit<J>(
    desk: &Desk<J>,
    subject: &str,
    stream: OwnedFd,
) -> Result<(UnixStream, Peer, Door, SocketAddr), NotServed> {
    let mut link = taken_over(stream)?;
    let within = desk.config.limits.handshake_within;
    let reading = async {
        let mut length = [0; LENGTH_BYTES];
        link.read_exact(&mut length).await?;
        let mut body = vec![0; Preface::length(length)?];
        link.read_exact(&mut body).await?;
        Ok::<_, NotServed>(Preface::decode(Bytes::from(body))?)
    };
    let Ok(preface) = tokio::time::timeout(within, reading).await else {
        return Err(NotServed::Slow { within });
    };
    let Preface { door, peer, chain } = preface?;
    let chain: Result<Vec<Certificate>, _> =
        chain.iter().map(|c| Certificate::from_der(c)).collect();
    let trust = desk.trust.current(&desk.meter).await;
    let who = verify(&chain?, &trust, SystemTime::now(), &Purpose::Client)?;
    if Dn::parse(subject).ok().as_ref() != Some(&who.identity) {
        return Err(NotServed::Another {
            introduced: subject.to_owned(),
            shown: who.identity,
        });
    }
    match who.kind {
        ProxyKind::Independent => Err(NotServed::Independent(who.identity)),
        _ => Ok((link, who, door, peer)),
    }
}
