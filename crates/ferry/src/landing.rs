//! The site's side (spec/jobs/pilots.md, PL40 to PL47): it lets in the ferries of its own places, each by the credential that it
//! put there, and asks them for connections.

use crate::bridge::bridge;
use crate::door::{self, Before, Door, Turned};
use crate::wish::{self, Wish};
use crate::{Address, DIRECTORY, LANDED, TICKET, options};
use bytes::Bytes;
use kumiko_identity::ca::CaError;
use kumiko_identity::tls::TlsError;
use kumiko_identity::{CredentialError, DnError, TrustError};
use kumiko_session::{Server, Stream};
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// How long a credential is good: as long as a site may be away and have its ferries back.
const LIFETIME: Duration = Duration::from_secs(3 * 86_400);
/// So often all are made anew.
const RENEW: Duration = Duration::from_secs(86_400);
/// A ferry waits 5 s for the socket to be there; and the way.
const WISH_WITHIN: Duration = Duration::from_secs(8);

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
    door: Door,
    server: Server,
    /// By name of their places.
    ferries: Mutex<HashMap<String, Ferry>>,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Until they are served: for ferries, and for whom sockets of this kernel reach.
    listeners: Mutex<Option<(TcpListener, UnixListener)>>,
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
        let place = root.join(DIRECTORY);
        // With a CA of its own, so that what one before it has issued is of no more use.
        let opened = door::open(&place, at, Before::Forgotten)?;
        let landing = Landing(Arc::new(Inner {
            root: root.to_owned(),
            door: opened.door,
            server: Server::new(options()),
            ferries: Mutex::default(),
            tasks: Mutex::default(),
            listeners: Mutex::new(None),
        }));
        landing.0.renew();
        door::announce(&place, at, &opened.listener)?;
        *lock(&landing.0.listeners) = Some((opened.listener, opened.here));
        Ok(landing)
    }

    /// Needs a tokio runtime around it; once.
    pub fn serve(&self) {
        let Some((listener, here)) = lock(&self.0.listeners).take() else {
            return;
        };
        // That it leads here is all that is asked of it.
        if let Ok(here) = tokio::net::UnixListener::from_std(here) {
            let accept = tokio::spawn(async move { while here.accept().await.is_ok() {} });
            lock(&self.0.tasks).push(accept.abort_handle());
        }
        let (accepting, renewing) = (Arc::downgrade(&self.0), Arc::downgrade(&self.0));
        let accept = tokio::spawn(door::accept(listener, move |stream, permit| {
            let Some(inner) = accepting.upgrade() else {
                return ControlFlow::Break(());
            };
            let from = stream.peer_addr().ok();
            tokio::spawn(async move {
                if let Err(why) = inner.one(stream, permit).await {
                    tracing::warn!(?from, %why, "a ferry is not let in, or not any more");
                }
            });
            ControlFlow::Continue(())
        }));
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

    /// Tells who follows a place that its socket may be reached now: by the ferry of another.
    pub fn ring(&self, name: &str) {
        self.0.ring(name);
    }
}

impl Inner {
    fn ticket(&self, place: &Path) -> Result<(), LandingError> {
        door::ticket(&self.door.authority, place, TICKET, LIFETIME)
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

    async fn one(
        self: Arc<Self>,
        stream: tokio::net::TcpStream,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) -> Result<(), Turned> {
        let (tls, name) = self.door.let_in(stream, permit, &self.root, TICKET).await?;
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
        let server = self.server.clone();
        drop(self); // a connection keeps no landing
        server
            .serve_until(tls, &name, door::gone(&place, TICKET), handler)
            .await?;
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
