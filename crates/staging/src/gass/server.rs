//! A GASS server (spec/staging, G2 to G4, G8, G9): accepts, authenticates, and hands on to `served`. What it gives is what
//! its owner declared, and nothing else; who may come is who its owner is, and whom he named.

use super::prompt::Prompt;
use super::served;
use super::{AGENT, CONNECT_WITHIN, HEAD_BYTES};
use http::header::{HeaderValue, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kumiko_identity::tls::{Acceptor, TlsError};
use kumiko_identity::{Credential, Dn, TrustStore};
use kumiko_linux::Dir;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;

/// After an accept that failed, for want of descriptors as a rule: some may be free again.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Connections at once: each costs a handshake and some buffers; GASS uses one for each file.
const CONNECTIONS: usize = 256;
/// For the head of a request, after the handshake.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Fields of a head; GASS sends six.
const FIELDS: usize = 64;
/// What is under way when the server ends.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Where what is written to `/dev/stdout` or `/dev/stderr` goes.
pub type Sink = Arc<Mutex<dyn AsyncWrite + Send + Unpin>>;

/// A directory that is served. Names beneath are resolved by descriptor, and through no link.
#[derive(Debug)]
pub struct Root {
    /// As clients name it.
    path: PathBuf,
    dir: Dir,
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Root {
    pub fn open(path: PathBuf, read: bool, write: bool) -> io::Result<Root> {
        Ok(Root {
            dir: Dir::open(&path)?,
            path,
            read,
            write,
        })
    }
}

/// What is served. The default is nothing.
#[derive(Default)]
pub struct Rights {
    /// The longest that fits a path counts.
    pub roots: Vec<Root>,
    /// What `/~/` means.
    pub home: Option<PathBuf>,
    pub stdout: Option<Sink>,
    pub stderr: Option<Sink>,
    /// May a client end the server?
    pub shutdown: bool,
    /// Who may come besides the server's owner.
    pub visitors: Vec<Dn>,
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rights")
            .field("roots", &self.roots)
            .field("shutdown", &self.shutdown)
            .finish_non_exhaustive()
    }
}

impl Rights {
    /// The root that a path lies in, and the rest of the path.
    pub(super) fn find(&self, path: &std::path::Path) -> Option<(&Root, PathBuf)> {
        let fitting = self.roots.iter().filter_map(|root| {
            let below = path.strip_prefix(&root.path).ok()?;
            (!below.as_os_str().is_empty()).then(|| (root, below.to_owned()))
        });
        fitting.max_by_key(|(root, _)| root.path.as_os_str().len())
    }
}

impl Root {
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }
}

/// One server, listening.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    acceptor: Acceptor,
    owner: Dn,
    rights: Arc<Rights>,
}

/// Why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was told to here.
    Stopped,
    /// A client asked for it.
    ByClient,
}

impl Server {
    /// Shows `credential`, which is mostly a proxy of the owner's: that is whom GASS clients expect.
    pub async fn bind(
        address: SocketAddr,
        credential: &Credential,
        trust: &TrustStore,
        rights: Rights,
    ) -> Result<Server, TlsError> {
        let listener = TcpListener::bind(address).await.map_err(TlsError::Io)?;
        Ok(Server {
            listener,
            acceptor: Acceptor::new(credential, trust, &[])?,
            owner: credential.identity().clone(),
            rights: Arc::new(rights),
        })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is stopped, or a client that may ends it.
    pub async fn run(self, mut stopped: watch::Receiver<bool>) -> Served {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let (end, mut ended) = watch::channel(false);
        let end = Arc::new(end);
        let guests = Arc::new((self.acceptor, self.owner, self.rights));
        let mut tasks = JoinSet::new();
        let why = loop {
            while tasks.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                break Served::Stopped;
            };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => break Served::Stopped,
                _ = ended.wait_for(|end| *end) => break Served::ByClient,
            };
            match accepted {
                Ok((tcp, peer)) => {
                    let (guests, end) = (Arc::clone(&guests), Arc::clone(&end));
                    tasks.spawn(async move {
                        let (acceptor, owner, rights) = &*guests;
                        if let Err(why) = admit(acceptor, owner, rights, tcp, &end).await {
                            tracing::info!(%peer, %why, "a GASS client was not served");
                        }
                        drop(place);
                    });
                }
                // Out of descriptors, or the client has gone: the next one may come.
                Err(error) => {
                    tracing::warn!(%error, "no GASS connection could be taken");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        };
        let rest = async { while tasks.join_next().await.is_some() {} };
        // What does not end by then is cut.
        let _ = tokio::time::timeout(END_WITHIN, rest).await;
        why
    }
}

#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("no handshake within {} s", CONNECT_WITHIN.as_secs())]
    Slow,
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0} may not come here")]
    Stranger(Dn),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Socket(#[from] io::Error),
}

async fn admit(
    acceptor: &Acceptor,
    owner: &Dn,
    rights: &Arc<Rights>,
    tcp: TcpStream,
    end: &Arc<watch::Sender<bool>>,
) -> Result<(), NotServed> {
    kumiko_linux::tcp::tune(&tcp)?;
    let (tls, peer) = tokio::time::timeout(CONNECT_WITHIN, acceptor.accept(Prompt::new(tcp)))
        .await
        .map_err(|_| NotServed::Slow)??;
    if peer.identity != *owner && !rights.visitors.contains(&peer.identity) {
        return Err(NotServed::Stranger(peer.identity));
    }
    let service = service_fn(|request| {
        let (rights, end) = (Arc::clone(rights), Arc::clone(end));
        async move {
            let mut answer = served::answer(&rights, request, &end).await;
            answer
                .headers_mut()
                .insert(SERVER, HeaderValue::from_static(AGENT));
            Ok::<_, Infallible>(answer)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .title_case_headers(true)
        .keep_alive(false)
        .max_headers(FIELDS)
        .max_buf_size(HEAD_BYTES.max(super::PIECE_BYTES))
        .serve_connection(TokioIo::new(tls), service)
        .await?;
    Ok(())
}
