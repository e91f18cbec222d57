//! The server: one port, where the first byte and ALPN tell what a connection is (spec/info, L1): LDAP in the clear,
//! LDAP within TLS, or `kumiko/1`. And the tasks that live as long as it does.

use crate::config::{Config, Place};
use crate::error::StartError;
use crate::index::Index;
use crate::ldap::{self, Broken, Client, End};
use crate::legacy::{self, Listed};
use crate::time::Clock;
use crate::{desk, keep, provider, register, rest, uplink};
use kumiko_directory::provider::Provider;
use kumiko_identity::tls::{Acceptor, Connector, TlsStream};
use kumiko_identity::{Credential, TrustStore};
use kumiko_session::{Options, Server as Sessions};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// After an accept that failed, for want of descriptors as a rule: some may be free again.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
const SESSION: &[u8] = b"kumiko/1";
const HTTP: &[u8] = b"http/1.1";
/// From a connection's begin to the end of its handshake, or to its first byte.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// The first byte of a TLS record that begins a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// For goodbyes.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// Certificates and trust are read again so often: a renewed one is used without a restart.
const RENEW: Duration = Duration::from_secs(60);

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    index: Arc<Index>,
    acceptor: watch::Sender<Acceptor>,
    place: Place,
    uplinks: Vec<(crate::config::Above, uplink::Dialer)>,
}

impl Server {
    /// Reads what it knew before, and listens.
    ///
    /// # Errors
    /// `StartError`.
    pub async fn bind(mut config: Config, place: Place) -> Result<Server, StartError> {
        if config.name.trim().is_empty() || config.name.len() > 255 {
            return Err(StartError::Name { name: config.name });
        }
        let (credential, acceptor, connector) = tls(&place)?;
        if config.allow.is_empty() {
            config.allow.push(crate::config::Allow {
                subject: credential.identity().to_string(),
                name: "*".to_owned(),
                hosts: "*".to_owned(),
            });
        }
        let mut uplinks = Vec::new();
        for above in &config.register {
            let dialer = uplink::Dialer::new(&above.address, connector.clone())?;
            uplinks.push((above.clone(), dialer));
        }
        let legacy = config.legacy.iter().map(Listed::new);
        let legacy = legacy.collect::<Result<Vec<Listed>, StartError>>()?;
        let clock = Clock::start();
        let known = keep::load(&config, &place.state, clock)?;
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|cause| StartError::Listen {
            address: config.listen,
            cause,
        })?;
        let index = Index::new(
            config,
            clock,
            known.inner,
            known.epoch,
            known.started,
            legacy,
        );
        Ok(Server {
            listener,
            index,
            acceptor: watch::Sender::new(acceptor),
            place,
            uplinks,
        })
    }

    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What the server knows: for those that put it together with others, and for measurements.
    pub fn index(&self) -> Arc<Index> {
        self.index.clone()
    }

    /// Serves until `stop` resolves; `providers` besides those of the configuration.
    pub async fn run(self, providers: Vec<Box<dyn Provider>>, stop: impl Future<Output = ()>) {
        let Server {
            listener,
            index,
            acceptor,
            place,
            uplinks,
        } = self;
        let (stopping, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for provider in provider::of_config(&index.config, &place) {
            tasks.spawn(provider::run(index.clone(), provider));
        }
        for provider in providers {
            tasks.spawn(provider::run(index.clone(), provider));
        }
        for number in 0..index.legacy.len() {
            tasks.spawn(legacy::follow(index.clone(), number));
        }
        tasks.spawn(register::watch_time(index.clone()));
        tasks.spawn(keep::keep(index.clone(), place.state.clone()));
        let certificates = acceptor.subscribe();
        tasks.spawn(renew(acceptor, place.clone()));
        let mut above = JoinSet::new();
        for (config, dialer) in uplinks {
            above.spawn(uplink::keep(index.clone(), config, dialer, stopped.clone()));
        }
        let sessions = Sessions::new(Options::default());
        let door = Door {
            index: index.clone(),
            certificates,
            sessions: sessions.clone(),
            open: Arc::default(),
        };
        let mut visitors = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((tcp, peer)) => door.admit(&mut visitors, tcp, peer),
                    Err(cause) => {
                        // Out of descriptors, most likely: others may end meanwhile.
                        tracing::warn!(%cause, "a connection was not accepted");
                        tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                    }
                },
                Some(_) = visitors.join_next(), if !visitors.is_empty() => {}
                () = &mut stop => break,
            }
        }
        // Those above are told first, then those below.
        stopping.send_replace(true);
        let goodbye = async {
            while above.join_next().await.is_some() {}
            sessions.shutdown().await;
        };
        if tokio::time::timeout(CLOSE_WITHIN, goodbye).await.is_err() {
            tracing::warn!("not everybody was told of the end");
        }
        tasks.shutdown().await;
        keep::save_or_warn(&index, &place.state);
    }
}

fn tls(place: &Place) -> Result<(Credential, Acceptor, Arc<Connector>), StartError> {
    let credential = Credential::load_pair(&place.certificate, &place.key)?;
    let trust = TrustStore::load(&place.trust)?;
    let acceptor = Acceptor::new(&credential, &trust, &[SESSION, HTTP])?;
    let connector = Arc::new(Connector::new(Some(&credential), &trust, &[SESSION])?);
    Ok((credential, acceptor, connector))
}

/// Takes renewed certificates and revocation lists into use.
async fn renew(acceptor: watch::Sender<Acceptor>, place: Place) {
    let mut ticks = tokio::time::interval(RENEW);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match tls(&place) {
            Ok((_, fresh, _)) => {
                acceptor.send_replace(fresh);
            }
            Err(error) => tracing::warn!(%error, "the old certificates stay in use"),
        }
    }
}

/// What a connection needs.
struct Door {
    index: Arc<Index>,
    certificates: watch::Receiver<Acceptor>,
    sessions: Sessions,
    open: Arc<Open>,
}

/// Connections, in all and by address.
#[derive(Debug, Default)]
struct Open {
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place; given back when dropped.
struct Seat {
    open: Arc<Open>,
    address: IpAddr,
}

impl Open {
    fn take(
        self: &Arc<Open>,
        address: IpAddr,
        most: usize,
        most_per_address: usize,
    ) -> Option<Seat> {
        let mut open = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let count = open.entry(address).or_default();
        if all >= most || *count >= most_per_address {
            return None;
        }
        *count += 1;
        Some(Seat {
            open: self.clone(),
            address,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self
            .open
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

impl Door {
    fn admit(&self, visitors: &mut JoinSet<()>, tcp: TcpStream, peer: SocketAddr) {
        let limits = &self.index.config.limits;
        let address = peer.ip().to_canonical();
        let seat = self
            .open
            .take(address, limits.connections, limits.connections_per_address);
        let Some(seat) = seat else {
            self.index.counts.turned_away.fetch_add(1, Relaxed);
            tracing::warn!(%peer, "turned away: too many connections");
            return;
        };
        self.index.counts.connections.fetch_add(1, Relaxed);
        let visit = Visit {
            index: self.index.clone(),
            acceptor: self.certificates.borrow().clone(),
            sessions: self.sessions.clone(),
            peer,
        };
        visitors.spawn(async move {
            let _seat = seat;
            visit.serve(tcp).await;
        });
    }
}

struct Visit {
    index: Arc<Index>,
    acceptor: Acceptor,
    sessions: Sessions,
    peer: SocketAddr,
}

impl Visit {
    async fn serve(self, mut tcp: TcpStream) {
        if let Err(cause) = kumiko_linux::tcp::tune(&tcp) {
            tracing::debug!(peer = %self.peer, %cause, "the connection is gone already");
            return;
        }
        let mut first = [0];
        let peeked = tokio::time::timeout(HANDSHAKE_WITHIN, tcp.peek(&mut first)).await;
        match peeked {
            Ok(Ok(1)) if first == [TLS_HANDSHAKE] => self.encrypted(tcp).await,
            Ok(Ok(1)) => {
                let client = Client {
                    identity: None,
                    encrypted: false,
                    peer: self.peer.ip(),
                };
                match ldap::serve(self.index.clone(), &mut tcp, client).await {
                    Ok(End::StartTls) => self.encrypted(tcp).await,
                    Ok(End::Closed) => {}
                    Err(error) => self.give_up(&error),
                }
            }
            _ => {}
        }
    }

    async fn encrypted(self, tcp: TcpStream) {
        let accepted =
            tokio::time::timeout(HANDSHAKE_WITHIN, self.acceptor.accept_anybody(tcp)).await;
        let mut tls = match accepted {
            Ok(Ok(tls)) => tls,
            Ok(Err(error)) => {
                tracing::info!(peer = %self.peer, %error, "no TLS");
                return;
            }
            Err(_) => return,
        };
        let identity = tls.peer().map(|p| p.identity.to_string());
        let alpn = tls.alpn();
        let client = Client {
            identity,
            encrypted: true,
            peer: self.peer.ip(),
        };
        match alpn.as_deref() {
            None => {
                if let Err(error) = ldap::serve(self.index.clone(), &mut tls, client).await {
                    self.give_up(&error);
                }
            }
            Some(HTTP) => rest::serve(self.index.clone(), tls, client).await,
            Some(_) => self.session(tls, client.identity).await,
        }
    }

    fn give_up(&self, error: &Broken) {
        self.index.counts.given_up.fetch_add(1, Relaxed);
        tracing::debug!(peer = %self.peer, %error, "connection given up");
    }

    async fn session<S>(self, tls: TlsStream<S>, identity: Option<String>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(identity) = identity else {
            // Sessions are resumed by their owner, so that there must be one.
            tracing::info!(peer = %self.peer, "a session without a certificate is not served");
            return;
        };
        let subject: Arc<str> = identity.as_str().into();
        let index = self.index.clone();
        let handler = move |request, stream| {
            tokio::spawn(desk::answer(
                index.clone(),
                subject.clone(),
                request,
                stream,
            ));
        };
        if let Err(error) = self.sessions.serve(tls, &identity, handler).await {
            tracing::debug!(peer = %self.peer, identity, %error, "session connection broken");
        }
    }
}
