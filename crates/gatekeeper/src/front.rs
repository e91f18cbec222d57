//! Accepts connections, each in a task of its own, until it is told to stop.

use crate::admit::{Door, authenticate, authorise, turn_away, until};
use crate::bounds::{Bounds, Place};
use crate::desk::Desk;
use crate::keys::Keys;
use crate::{Config, KeysError, Refused, rest, session};
use kumiko_job::contract::Jobs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
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
}

/// A gatekeeper that listens and does not serve yet.
pub struct Front<J> {
    listener: TcpListener,
    address: SocketAddr,
    desk: Arc<Desk<J>>,
}

impl<J> std::fmt::Debug for Front<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<J: Jobs> Front<J> {
    /// Reads the keys and takes the port; connections wait in the kernel until `run`.
    ///
    /// # Errors
    /// A file that cannot be used, or an address that is taken.
    pub async fn bind(config: Config, jobs: Arc<J>) -> Result<Front<J>, FrontError> {
        let keys = Keys::load(&config)?;
        let wrong = |cause| FrontError::Listen {
            address: config.listen,
            cause,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let bounds = Bounds::new(
            config.limits.connections,
            config.limits.connections_per_address,
        );
        let desk = Arc::new(Desk::new(config, jobs, keys, bounds));
        Ok(Front {
            listener,
            address,
            desk,
        })
    }

    /// Where it listens; the port is known even if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; then takes no more, lets answers under way end for a moment, and closes the rest.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Front { listener, desk, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {} // a panic there is that connection's alone
                accepted = listener.accept() => match accepted {
                    Ok((tcp, peer)) => match desk.bounds.take(peer.ip()) {
                        Ok(place) => {
                            connections.spawn(connection(desk.clone(), tcp, peer, place, stopped.clone()));
                        }
                        Err(why) => refuse(&desk, peer, &why),
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
            desk.sessions.shutdown().await;
            while connections.join_next().await.is_some() {}
        };
        if tokio::time::timeout(desk.config.limits.drain_within, drained)
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

fn refuse<J>(desk: &Desk<J>, peer: SocketAddr, why: &Refused) {
    desk.meter.refused(why);
    tracing::warn!(%peer, reason = why.name(), "refused: {why}");
}

async fn connection<J: Jobs>(
    desk: Arc<Desk<J>>,
    tcp: TcpStream,
    peer: SocketAddr,
    _place: Place,
    mut stopped: watch::Receiver<bool>,
) {
    let known = async {
        let keys = desk.keys.current(&desk.meter).await;
        let known = authenticate(&desk.config, &keys, tcp).await?;
        Ok((known, keys))
    };
    let ((link, caller, door), keys) = tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => return,
        known = known => match known {
            Ok(known) => known,
            Err(why) => return refuse(&desk, peer, &why),
        },
    };
    let visitor = match authorise(&desk.config, &keys, &caller, door) {
        Ok(visitor) => visitor,
        Err(why) => {
            refuse(&desk, peer, &why);
            return turn_away(link, door, &why).await;
        }
    };
    drop(keys); // a connection lives longer than they are in force
    tracing::debug!(%peer, subject = %visitor.caller.subject, ?door, "let in");
    let visitor = Arc::new(visitor);
    match door {
        Door::Session => {
            desk.meter.sessions.fetch_add(1, Relaxed);
            session::serve(desk, visitor, link, peer).await;
        }
        Door::Http1 | Door::Http2 => {
            desk.meter.rest.fetch_add(1, Relaxed);
            let end = until(visitor.peer.not_after);
            let (meter, subject) = (desk.clone(), visitor.caller.subject.clone());
            tokio::select! {
                () = rest::serve(desk, visitor, link, door, peer, stopped) => {}
                () = end => refuse(&meter, peer, &Refused::Ended { subject }),
            }
        }
        Door::Gram => {} // `authorise` lets nobody in here yet
    }
}
