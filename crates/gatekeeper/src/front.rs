//! Accepts connections, each in a task of its own, until it is told to stop.

use crate::admit::{Door, Tls, Visitor, authenticate, authorise, turn_away};
use crate::bounds::{Bounds, Place};
use crate::desk::Desk;
use crate::keys::{Keys, Trust};
use crate::meter::Meter;
use crate::{Config, KeysError, Refused, doors, gram};
use kumiko_identity::Peer;
use kumiko_job::contract::Jobs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// After an accept that failed for want of descriptors or memory: time for others to give some back.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Why a gatekeeper could not begin.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(
        "cannot listen on {address}: {cause}; say another address and port with --listen, port 0 for any that is free"
    )]
    Listen {
        address: SocketAddr,
        cause: io::Error,
    },
    #[error(
        "what the monitor gave this front cannot be used ({cause}): fronts are started by the monitor only"
    )]
    Given { cause: io::Error },
}

/// What serves a connection once it is known who speaks: the doors in this process, or a relay to an agent's.
pub trait Behind: Send + Sync + 'static {
    /// Serves it until it ends, or `stopped` says so.
    fn receive(
        self: Arc<Self>,
        known: Known,
        stopped: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send;

    /// Before the first connection is served: takes up what was there before.
    fn begin(self: &Arc<Self>) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Ends what lives longer than a connection.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

/// A connection whose peer is verified and mapped.
pub struct Known {
    pub(crate) link: Tls,
    pub(crate) who: Peer,
    /// None where the monitor says.
    pub(crate) account: Option<String>,
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known")
            .field("who", &self.who.subject)
            .field("account", &self.account)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl<J: Jobs> Behind for Desk<J> {
    async fn receive(self: Arc<Self>, mut known: Known, stopped: watch::Receiver<bool>) {
        let Some(account) = known.account else {
            let subject = known.who.identity.to_string();
            let why = Refused::Unmapped { subject };
            refuse(&self.meter, known.address, &why);
            return turn_away(known.link, known.door, &why).await;
        };
        if known.door == Door::Session {
            known.link.gather();
        }
        let visitor = Visitor::new(&self.config, known.who, account);
        doors::serve(
            self,
            visitor,
            known.link,
            known.door,
            known.address,
            stopped,
        )
        .await;
    }

    async fn begin(self: &Arc<Self>) {
        if let Err(cause) = gram::begin(self).await {
            tracing::error!(%cause, "GRAM's door stays closed");
        }
    }

    async fn shutdown(&self) {
        if let Some(hall) = self.gram.get() {
            hall.shutdown();
        }
        self.sessions.shutdown().await;
    }
}

/// A gatekeeper that listens and does not serve yet.
pub struct Front<B> {
    listener: TcpListener,
    address: SocketAddr,
    hall: Arc<Hall<B>>,
}

/// What every connection needs before it is served.
struct Hall<B> {
    config: Config,
    keys: Keys,
    bounds: Arc<Bounds>,
    meter: Arc<Meter>,
    behind: Arc<B>,
}

impl<B> std::fmt::Debug for Front<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<J: Jobs> Front<Desk<J>> {
    /// Reads the keys and takes the port; connections wait in the kernel until `run`. The doors are in this process.
    ///
    /// # Errors
    /// A file that cannot be used, or an address that is taken.
    pub async fn bind(config: Config, jobs: Arc<J>) -> Result<Self, FrontError> {
        let trust = Trust::load(&config.trust)?;
        let wrong = |cause| FrontError::Listen {
            address: config.listen,
            cause,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let service = config.service();
        let front = Front::new(config, listener, address, |bounds, meter| {
            Desk::new(service, jobs, trust, bounds, meter)
        })?;
        front.hall.behind.begin().await;
        Ok(front)
    }

    /// Calls of routines are taken by `service`, from the first connection on.
    pub fn offer_calls(&self, service: Arc<dyn kumiko_session::Service>) {
        let _ = self.behind().calls.set(service); // it is offered once
    }
}

impl<B: Behind> Front<B> {
    pub(crate) fn new(
        config: Config,
        listener: TcpListener,
        address: SocketAddr,
        behind: impl FnOnce(Arc<Bounds>, Arc<Meter>) -> B,
    ) -> Result<Self, FrontError> {
        let keys = Keys::load(&config)?;
        let bounds = Bounds::new(
            config.limits.connections,
            config.limits.connections_per_address,
        );
        let meter = Arc::new(Meter::default());
        let behind = Arc::new(behind(bounds.clone(), meter.clone()));
        Ok(Front {
            listener,
            address,
            hall: Arc::new(Hall {
                config,
                keys,
                bounds,
                meter,
                behind,
            }),
        })
    }

    pub(crate) fn behind(&self) -> &B {
        &self.hall.behind
    }

    /// Where it listens; the port is known even if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; then takes no more, lets answers under way end for a moment, and closes the rest.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Front { listener, hall, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {} // a panic there is that connection's alone
                accepted = listener.accept() => match accepted {
                    Ok((tcp, peer)) => match hall.bounds.take(peer.ip()) {
                        Ok(place) => {
                            connections.spawn(connection(hall.clone(), tcp, peer, place, stopped.clone()));
                        }
                        Err(why) => refuse(&hall.meter, peer, &why),
                    },
                    Err(e) if is_of_one_connection(&e) => {}
                    Err(cause) => {
                        tracing::error!(%cause, "no connection can be accepted for the moment");
                        tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                    }
                },
            }
        }
        drop(listener);
        // The receivers are in the connections; there may be none.
        let _ = stop.send(true);
        let drained = async {
            hall.behind.shutdown().await;
            while connections.join_next().await.is_some() {}
        };
        if tokio::time::timeout(hall.config.limits.drain_within, drained)
            .await
            .is_err()
        {
            tracing::warn!(
                connections = connections.len(),
                "closed with answers under way"
            );
        }
    }
}

/// accept(2): errors of the new connection are reported by accept, and say nothing of the listener.
fn is_of_one_connection(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        e.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

pub(crate) fn refuse(meter: &Meter, peer: SocketAddr, why: &Refused) {
    meter.refused(why);
    tracing::warn!(%peer, reason = why.name(), "refused: {why}");
}

async fn connection<B: Behind>(
    hall: Arc<Hall<B>>,
    tcp: TcpStream,
    address: SocketAddr,
    _place: Place,
    mut stopped: watch::Receiver<bool>,
) {
    let known = async {
        let keys = hall.keys.current(&hall.meter).await;
        let known = authenticate(&hall.config, &keys, tcp).await?;
        Ok((known, keys))
    };
    let ((link, who, door), keys) = tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => return,
        known = known => match known {
            Ok(known) => known,
            Err(why) => return refuse(&hall.meter, address, &why),
        },
    };
    let account = match authorise(&hall.config, &keys, &who, door) {
        Ok(account) => account,
        Err(why) => {
            refuse(&hall.meter, address, &why);
            return turn_away(link, door, &why).await;
        }
    };
    drop(keys); // a connection lives longer than they are in force
    let known = Known {
        link,
        who,
        account,
        door,
        address,
    };
    hall.behind.clone().receive(known, stopped).await;
}
