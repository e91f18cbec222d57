//! The site's side (spec/jobs/pilots.md, PL40 to PL47): it lets in the ferries of its own places, each by the credential that it
//! put there, and asks them for connections.

use crate::bridge::bridge;
use crate::wish::{self, Wish};
use crate::{
    ADDRESS, ALPN, Address, CONNECT_WITHIN, DIRECTORY, HERE, LANDED, TICKET, TRUST, options,
};
use bytes::Bytes;
use kumiko_identity::ca::{self, Authority, CaError, Kind};
use kumiko_identity::tls::{Acceptor, TlsError};
use kumiko_identity::{Credential, CredentialError, Dn, DnError, KeyKind, Peer, ProxyKind};
use kumiko_identity::{TrustError, TrustStore};
use kumiko_linux::{tcp, unix_socket};
use kumiko_session::{Server, Stream};
use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The CA's own name; those of ferries and of the site are below `/O=kumiko landing`.
const AUTHORITY: &str = "/O=kumiko landing/CN=CA";
const SITE: &str = "site";
/// How long a credential is good: as long as a site may be away and have its ferries back.
const LIFETIME: Duration = Duration::from_secs(3 * 86_400);
/// So often all are made anew.
const RENEW: Duration = Duration::from_secs(86_400);
/// The site's own lasts as long as a site may be up.
const OWN_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);
/// Strangers in the middle of a handshake, at once; the others wait in the kernel's queue.
const HANDSHAKES: usize = 64;
/// A ferry waits 5 s for the socket to be there; and the way.
const WISH_WITHIN: Duration = Duration::from_secs(8);
/// So often it is looked whether a ferry's place is there still.
const LOOK: Duration = Duration::from_secs(10);
/// After an accept that failed, as for want of descriptors (accept(2)).
const PAUSE: Duration = Duration::from_millis(100);

/// Why there is no landing.
#[derive(Debug, thiserror::Error)]
pub enum LandingError {
    #[error("landing {at}: this machine cannot listen there, so hosts cannot reach it: {cause}")]
    Listen { at: String, cause: io::Error },
    #[error("{tried} {}: {cause}", path.display())]
    File {
        tried: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("the credentials of ferries cannot be made: {0}")]
    Authority(#[from] CaError),
    #[error("the credentials of ferries cannot be made: {0}")]
    Name(#[from] DnError),
    #[error("the credential of a ferry cannot be kept: {0}")]
    Credential(#[from] CredentialError),
    #[error("the landing's own CA is not to be read: {0}")]
    Trust(#[from] TrustError),
    #[error("the landing cannot speak TLS: {0}")]
    Tls(#[from] TlsError),
}

/// Clones are the same.
#[derive(Clone, Debug)]
pub struct Landing(Arc<Inner>);

impl PartialEq for Landing {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Landing {}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    listener: Mutex<Option<TcpListener>>,
    authority: Authority,
    acceptor: Acceptor,
    server: Server,
    /// By name of their places.
    ferries: Mutex<HashMap<String, Ferry>>,
    tasks: Mutex<Vec<AbortHandle>>,
    here: Mutex<Option<UnixListener>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
    }
}

/// A ferry that is there.
#[derive(Debug, Clone)]
struct Ferry {
    wishes: mpsc::UnboundedSender<Wanted>,
    waiting: Arc<Mutex<HashMap<u32, oneshot::Sender<Stream>>>>,
}

#[derive(Debug)]
struct Wanted {
    name: String,
    answer: oneshot::Sender<Stream>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Landing {
    /// `root`: of the spools. `at`: where hosts reach this machine. It blocks, briefly; whom it lets in are
    /// served from [`Landing::serve`] on.
    ///
    /// # Errors
    /// It cannot listen there, or not write below `root`.
    pub fn open(root: &Path, at: &Address) -> Result<Landing, LandingError> {
        let listen = |cause| LandingError::Listen {
            at: at.to_string(),
            cause,
        };
        let listener = TcpListener::bind((at.host.as_str(), at.port)).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let place = root.join(DIRECTORY);
        let file = |tried| {
            let path = place.clone();
            move |cause| LandingError::File { tried, path, cause }
        };
        // Each site has a CA of its own, so that what one before it has issued is of no more use.
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(file("removing")(error));
            }
            _ => {}
        }
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true);
        private.create(&place).map_err(file("making"))?;
        let authority = Authority::init(
            &place.join("ca"),
            &Dn::parse(AUTHORITY)?,
            &ca::Options::default(),
        )?;
        authority.install_trust(&place.join(TRUST))?;
        let subject = authority.name_space().with("CN", SITE);
        let own = authority.enrol(&subject, KeyKind::P256, &Kind::User, OWN_LIFETIME)?;
        let trust = TrustStore::load(&place.join(TRUST))?;
        let acceptor = Acceptor::new(&own, &trust, &[ALPN])?;
        let here = unix_socket::listen(&place.join(HERE)).map_err(file("listening in"))?;
        here.set_nonblocking(true).map_err(file("listening in"))?;
        let landing = Landing(Arc::new(Inner {
            root: root.to_owned(),
            listener: Mutex::new(Some(listener)),
            authority,
            acceptor,
            server: Server::new(options()),
            ferries: Mutex::default(),
            tasks: Mutex::default(),
            here: Mutex::new(Some(here)),
        }));
        landing.0.renew();
        // Last: by then all that a ferry reads is there.
        let new = place.join("address.new");
        fs::write(&new, Address { port, ..at.clone() }.to_string())
            .and_then(|()| fs::rename(&new, place.join(ADDRESS)))
            .map_err(file("writing to"))?;
        Ok(landing)
    }

    /// Needs a tokio runtime around it; once.
    pub fn serve(&self) {
        let Some(listener) = lock(&self.0.listener).take() else {
            return;
        };
        // That it leads here is all that is asked of it.
        if let Some(Ok(here)) = lock(&self.0.here)
            .take()
            .map(tokio::net::UnixListener::from_std)
        {
            let accept = tokio::spawn(async move { while here.accept().await.is_ok() {} });
            lock(&self.0.tasks).push(accept.abort_handle());
        }
        let (accepting, renewing) = (Arc::downgrade(&self.0), Arc::downgrade(&self.0));
        let accept = tokio::spawn(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            let room = Arc::new(Semaphore::new(HANDSHAKES));
            loop {
                let Ok(permit) = room.clone().acquire_owned().await else {
                    return;
                };
                let accepted = listener.accept().await;
                let Some(inner) = accepting.upgrade() else {
                    return;
                };
                match accepted {
                    Ok((stream, from)) => tokio::spawn(async move {
                        let served = inner.one(stream, permit).await;
                        if let Err(why) = served {
                            tracing::warn!(%from, %why, "a ferry is not let in, or not any more");
                        }
                    }),
                    Err(error) => {
                        tracing::warn!(%error, "the landing accepts nobody just now");
                        drop(permit);
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                };
            }
        });
        let renew = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEW).await;
                let Some(inner) = renewing.upgrade() else {
                    return;
                };
                // A task that was dropped half-way has renewed some of them.
                let _ = tokio::task::spawn_blocking(move || inner.renew()).await;
            }
        });
        lock(&self.0.tasks).extend([accept.abort_handle(), renew.abort_handle()]);
    }

    /// Puts the credential of its ferry into a place, which is there. It blocks, briefly.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn ticket(&self, place: &Path) -> Result<(), LandingError> {
        self.0.ticket(place)
    }

    /// Connects to the socket in the place of this name, by the ferry of the place `by`.
    ///
    /// # Errors
    /// `NotFound`: no ferry of that place is here. `ConnectionRefused`: it has not reached the socket.
    pub async fn connect(&self, by: &str, name: &str) -> io::Result<UnixStream> {
        let (answer, come) = oneshot::channel();
        let wanted = Wanted {
            name: name.to_owned(),
            answer,
        };
        let ferry = lock(&self.0.ferries).get(by).cloned();
        let sent = ferry.map(|ferry| ferry.wishes.send(wanted));
        if !matches!(sent, Some(Ok(()))) {
            return Err(ErrorKind::NotFound.into());
        }
        let stream = match timeout(WISH_WITHIN, come).await {
            Ok(Ok(stream)) => stream,
            _ => return Err(ErrorKind::ConnectionRefused.into()),
        };
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let theirs = tokio::net::UnixStream::from_std(theirs)?;
        tokio::spawn(bridge(stream, theirs));
        Ok(ours)
    }
}

/// Why a ferry is not let in, or not any more.
#[derive(Debug, thiserror::Error)]
enum Turned {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("no handshake within {} s", CONNECT_WITHIN.as_secs())]
    Slow,
    #[error("its connection cannot be used: {0}")]
    Socket(#[from] io::Error),
    #[error("{0} is no place's ferry, or that place is gone, or has another credential by now")]
    Unknown(Dn),
    #[error(transparent)]
    Session(#[from] kumiko_session::SessionError),
}

impl Inner {
    fn ticket(&self, place: &Path) -> Result<(), LandingError> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let subject = self.authority.name_space().with("CN", &name);
        let kind = Kind::User;
        let credential = self
            .authority
            .enrol(&subject, KeyKind::P256, &kind, LIFETIME)?;
        Ok(credential.save_proxy(&place.join(TICKET))?)
    }

    /// Of all places that have one.
    fn renew(&self) {
        let places = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for place in places.map(|entry| entry.path()) {
            if place.join(TICKET).exists() {
                if let Err(error) = self.ticket(&place) {
                    tracing::warn!(place = %place.display(), %error, "the credential of a ferry is not renewed");
                }
            }
        }
    }

    /// The name of the place whose ferry this is.
    fn admits(&self, peer: &Peer) -> Option<String> {
        let name = peer.identity.common_name()?.to_owned();
        let own = self.authority.name_space().with("CN", &name);
        let plain = peer.kind == ProxyKind::EndEntity && peer.identity == own;
        (plain && wish::is_place(&name) && self.bears(&name, peer)).then_some(name)
    }

    /// Whether this is the credential of now of a place that is there.
    fn bears(&self, name: &str, peer: &Peer) -> bool {
        let kept = Credential::load(&self.root.join(name).join(TICKET));
        kept.is_ok_and(|kept| peer.chain.first() == Some(kept.leaf()))
    }

    async fn one(
        self: Arc<Self>,
        stream: tokio::net::TcpStream,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) -> Result<(), Turned> {
        tcp::tune(&stream)?;
        let shaken = timeout(CONNECT_WITHIN, self.acceptor.accept(stream)).await;
        let (mut tls, peer) = shaken.map_err(|_| Turned::Slow)??;
        drop(permit);
        tls.gather();
        let name = self
            .admits(&peer)
            .ok_or_else(|| Turned::Unknown(peer.identity.clone()))?;
        let (inner, place) = (Arc::downgrade(&self), self.root.join(&name));
        let whose = name.clone();
        let handler = move |request: Bytes, stream: Stream| {
            let Some(inner) = inner.upgrade() else {
                return;
            };
            match wish::number(&request) {
                _ if request.is_empty() => drop(tokio::spawn(inner.attend(whose.clone(), stream))),
                Some(number) => inner.answered(&whose, number, stream),
                None => {}
            }
        };
        let over = async {
            while place.join(TICKET).exists() {
                tokio::time::sleep(LOOK).await;
            }
            "its place is gone".to_owned()
        };
        let server = self.server.clone();
        drop(self); // a connection keeps no landing
        server.serve_until(tls, &name, over, handler).await?;
        Ok(())
    }

    /// Has a file come into being in the place, of which whoever follows it hears (inotify(7)). In vain, it looks after a while.
    fn ring(&self, name: &str) {
        let bell = self.root.join(name).join(LANDED);
        let _ = fs::remove_file(&bell);
        let _ = fs::File::create(bell);
    }

    fn answered(&self, name: &str, number: u32, stream: Stream) {
        let ferry = lock(&self.ferries).get(name).cloned();
        let waiting = ferry.and_then(|ferry| lock(&ferry.waiting).remove(&number));
        if let Some(waiting) = waiting {
            // Who does not wait any more has no use for it.
            let _ = waiting.send(stream);
        }
    }

    /// Tells a ferry what is wished of it, until it is gone or another has come in its place.
    fn attend(self: Arc<Self>, name: String, mut stream: Stream) -> impl Future<Output = ()> {
        let (wishes, mut wanted) = mpsc::unbounded_channel::<Wanted>();
        let waiting: Arc<Mutex<HashMap<u32, oneshot::Sender<Stream>>>> = Arc::default();
        let ferry = Ferry {
            wishes,
            waiting: Arc::clone(&waiting),
        };
        lock(&self.ferries).insert(name.clone(), ferry);
        self.ring(&name);
        tracing::info!(%name, "a ferry is here");
        let inner = Arc::downgrade(&self);
        drop(self);
        async move {
            let mut number = 0;
            loop {
                tokio::select! {
                    one = wanted.recv() => {
                        let Some(Wanted { name, answer }) = one else {
                            return; // another has its place
                        };
                        number += 1;
                        lock(&waiting).insert(number, answer);
                        if stream.send(0, Wish { number, name }.encode()).await.is_err() {
                            break;
                        }
                    }
                    failed = stream.recv() => match failed {
                        Ok(Some(message)) => {
                            let number = wish::number(&message.data);
                            number.map(|number| lock(&waiting).remove(&number));
                        }
                        _ => break,
                    },
                }
            }
            wanted.close();
            if let Some(inner) = inner.upgrade() {
                let mut ferries = lock(&inner.ferries);
                if ferries.get(&name).is_some_and(|it| it.wishes.is_closed()) {
                    ferries.remove(&name);
                }
            }
        }
    }
}
