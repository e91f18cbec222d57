//! What answers for the site's folders: a program of its own, so that hosts have their files though the site is killed. It ends once it
//! has had neither a site nor a host for a while, or when the spools are gone.

use super::telling::Telling;
use super::tree::{MAX_WRITE_BYTES, Owner, Tree};
use super::{SHOWN, TICKET, files_options, own_place};
use crate::HERE;
use crate::door::{self, Before, Door, Opened, Turned};
use crate::{ADDRESS, Address, LandingError};
use bytes::Bytes;
use fuser::{Config, SessionACL};
use kumiko_linux::packets::{Packet, Packets};
use kumiko_linux::{detach, spooling, this_process, unix_socket};
use kumiko_session::{Served, Server, Stream};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Said on stdout once hosts are let in.
pub const READY: &str = "ready";
/// As a pilot waits for its site (PL4).
const ALONE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_secs(5);
const LOCKED: Duration = Duration::from_secs(10);
/// A host whose connection was closed comes back within this, or has ended: so what it had locked is free soon. One of which nothing is heard
/// has longer (`RESUME_WITHIN`), for that is what a network does.
const CLOSED: Duration = Duration::from_secs(10);
/// What a kernel asks, and is answered, at most: a write or read with its words.
pub const MESSAGE_BYTES: usize = MAX_WRITE_BYTES as usize + 8 * 1024;
/// Of the descriptors that this process may have, one host is to use no more than this part.
const HOST_PART: usize = 4;
/// In a place: what its host complained of.
const COMPLAINTS: &str = "ferry.log";
const COMPLAINT_BYTES: usize = 4096;

#[derive(Debug)]
struct Serving {
    root: PathBuf,
    folders: Vec<PathBuf>,
    door: Door,
    server: Server,
    /// Sites that are connected.
    present: AtomicUsize,
    /// By their names.
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Debug, Default)]
struct Host {
    /// How many it has had.
    connections: u64,
    /// Dropped: its files are answered for no more.
    has_files: Option<oneshot::Sender<()>>,
}

struct Present(Arc<Serving>);

impl Present {
    fn of(serving: &Arc<Serving>) -> Present {
        serving.present.fetch_add(1, Ordering::Relaxed);
        Present(Arc::clone(serving))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves until nobody needs it. Another that serves already does; then it ends at once.
///
/// # Errors
/// It cannot listen there, or not write beside the spools.
pub fn run(root: &Path, at: &Address, folders: Vec<PathBuf>) -> Result<(), LandingError> {
    let place = own_place(root);
    let lock = place.with_extension("lock");
    let file = |cause| LandingError::File {
        tried: "locking",
        path: lock.clone(),
        cause,
    };
    let mut private = OpenOptions::new();
    private.create(true).truncate(false).write(true).mode(0o600);
    let held = private.open(&lock).map_err(file)?;
    if !takes(&held, &place).map_err(file)? {
        println!("{READY}"); // by another
        return Ok(());
    }
    // A host that lost its files is to hear that from this one.
    let again = at_again(&place, at);
    let opened = door::open(&place, &again, Before::Kept);
    let opened = opened.or_else(|_| door::open(&place, at, Before::Kept))?;
    let shown: Vec<&[u8]> = folders
        .iter()
        .flat_map(|folder| [folder.as_os_str().as_bytes(), b"\0"])
        .collect();
    std::fs::write(place.join(SHOWN), shown.concat()).map_err(file)?;
    // Each node that a host knows is a descriptor.
    let _ = this_process::raise_open_files();
    let _ = this_process::new_session();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(file)?;
    let _inside = runtime.enter();
    door::announce(&place, at, &opened.listener)?;
    runtime.block_on(serve(root, folders, opened));
    Ok(())
}

/// Takes the lock; false: another has it, and answers. One that was killed may take a moment to be gone.
fn takes(lock: &File, place: &Path) -> io::Result<bool> {
    let until = std::time::Instant::now() + LOCKED;
    while !spooling::try_lock(lock)? {
        if unix_socket::connect(&place.join(HERE)).is_ok() {
            return Ok(false);
        }
        if std::time::Instant::now() > until {
            let words = "another process has it, and answers nobody";
            return Err(io::Error::new(ErrorKind::WouldBlock, words));
        }
        std::thread::sleep(LOCKED / 1000);
    }
    Ok(true)
}

/// Where the one before listened, if any port would do.
fn at_again(place: &Path, at: &Address) -> Address {
    let before: Option<Address> = std::fs::read_to_string(place.join(ADDRESS))
        .ok()
        .and_then(|text| text.parse().ok());
    match before {
        Some(before) if at.port == 0 && before.host == at.host => before,
        _ => at.clone(),
    }
}

/// Whoever started it waits for this, and for the ends of what it wrote to.
fn set_apart() {
    println!("{READY}");
    let _ = io::stdout().flush();
    let _ = detach::take_stdout_and_stderr();
}

async fn serve(root: &Path, folders: Vec<PathBuf>, opened: Opened) {
    let Opened {
        listener,
        here,
        door,
    } = opened;
    let serving = Arc::new(Serving {
        root: root.to_owned(),
        folders,
        door,
        server: Server::new(files_options()),
        present: AtomicUsize::new(0),
        hosts: Mutex::default(),
    });
    let hosts = Arc::clone(&serving);
    tokio::spawn(door::accept(listener, move |stream, permit| {
        let serving = Arc::clone(&hosts);
        // Who is not let in hears it by its connection.
        tokio::spawn(serving.one(stream, permit));
        ControlFlow::Continue(())
    }));
    let Ok(here) = tokio::net::UnixListener::from_std(here) else {
        return;
    };
    let sites = Arc::clone(&serving);
    tokio::spawn(async move {
        while let Ok((site, _)) = here.accept().await {
            let present = Present::of(&sites);
            tokio::spawn(async move {
                let _present = present;
                // It says nothing; it is here until it ends.
                let _ = site.readable().await;
            });
        }
    });
    set_apart();
    let mut alone_since = Instant::now();
    while alone_since.elapsed() < ALONE && serving.root.exists() {
        tokio::time::sleep(LOOK).await;
        let stats = serving.server.stats();
        if serving.present.load(Ordering::Relaxed) + stats.attached + stats.detached > 0 {
            alone_since = Instant::now();
        }
    }
}

impl Serving {
    async fn one(
        self: Arc<Self>,
        stream: tokio::net::TcpStream,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) -> Result<(), Turned> {
        let (tls, name) = self.door.let_in(stream, permit, &self.root, TICKET).await?;
        let Some((place, ticket)) = door::stands_for(&name, TICKET) else {
            return Ok(()); // nobody is let in by such a name
        };
        let place = self.root.join(place);
        let connection = {
            let mut hosts = self.hosts();
            let host = hosts.entry(name.clone()).or_default();
            host.connections += 1;
            host.connections
        };
        let (serving, own, whose) = (Arc::clone(&self), place.clone(), name.clone());
        let handler = move |request: Bytes, stream: Stream| match Asked::read(&request) {
            Some(Asked::Files(owner)) => {
                let folders = serving.folders.clone();
                let (has_files, lost) = oneshot::channel();
                // Whatever had them before by this name has them no more.
                let mut hosts = serving.hosts();
                hosts.entry(whose.clone()).or_default().has_files = Some(has_files);
                tokio::spawn(async move {
                    tokio::select! {
                        () = answer(&folders, owner, stream) => {}
                        _ = lost => {}
                    }
                });
            }
            Some(Asked::Complains(words)) => complain(&own, &words),
            None => {}
        };
        let closed = Arc::new(AtomicBool::new(false));
        let io = Noticed {
            io: tls,
            closed: Arc::clone(&closed),
        };
        let gone = door::gone(&place, &ticket);
        let served = self.server.serve_until(io, &name, gone, handler).await;
        let comes_back = matches!(served, Ok(Served::Detached));
        if comes_back && closed.load(Ordering::Relaxed) {
            tokio::time::sleep(CLOSED).await;
        }
        if !comes_back || closed.load(Ordering::Relaxed) {
            let mut hosts = self.hosts();
            if hosts
                .get(&name)
                .is_some_and(|host| host.connections == connection)
            {
                hosts.remove(&name);
            }
        }
        served?;
        Ok(())
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of which it is noticed that the other side closed it.
struct Noticed<S> {
    io: S,
    closed: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noticed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        let closed = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(error)) => error.kind() != ErrorKind::TimedOut,
            Poll::Pending => false,
        };
        if closed {
            self.closed.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noticed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// What a host asks for when it opens a stream: `files UID GID`, or `complains WORDS`.
#[derive(Debug)]
pub enum Asked {
    /// The folders, as files of this account there; the stream has what its kernel asks and what it is answered, a message each.
    Files(Owner),
    Complains(String),
}

impl Asked {
    /// None: it asks for nothing that is known.
    pub fn read(request: &[u8]) -> Option<Asked> {
        let text = std::str::from_utf8(request).ok()?;
        let (what, rest) = text.split_once(' ')?;
        match what {
            "files" => {
                let (uid, gid) = rest.split_once(' ')?;
                let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
                Some(Asked::Files(Owner { uid, gid }))
            }
            "complains" => {
                let plain = |c: char| if c.is_control() { ' ' } else { c };
                let words = rest.chars().map(plain).take(COMPLAINT_BYTES).collect();
                Some(Asked::Complains(words))
            }
            _ => None,
        }
    }

    pub fn write(&self) -> String {
        match self {
            Asked::Files(Owner { uid, gid }) => format!("files {uid} {gid}"),
            Asked::Complains(words) => format!("complains {words}"),
        }
    }
}

/// Puts it where the site's people look.
fn complain(place: &Path, words: &str) {
    let mut log = OpenOptions::new();
    log.append(true).create(true).mode(0o600);
    let log = log.open(place.join(COMPLAINTS));
    // There is nobody else to tell.
    let _ = log.and_then(|mut log| writeln!(log, "{words}"));
}

/// Between a stream and the thread that answers.
async fn answer(folders: &[PathBuf], owner: Owner, stream: Stream) {
    let answering = (|| {
        let (ours, theirs) = Packets::pair()?;
        let theirs = OwnedFd::from(theirs);
        let telling = Telling::new(File::from(theirs.try_clone()?));
        let most = this_process::most_open_files() / HOST_PART;
        let tree = Tree::new(folders, owner, telling, most)?;
        spooling::set_nonblocking(&theirs, false)?;
        std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || {
                let config = Config::default();
                // It ends with the stream.
                let _ = fuser::Session::from_fd(tree, theirs, SessionACL::All, config)
                    .and_then(fuser::Session::run);
            })?;
        // As in host.rs: the descriptor is its owner's for good.
        #[allow(deprecated)]
        AsyncFd::new(ours)
    })();
    let Ok(ours) = answering else {
        return; // the host hears the end of its stream
    };
    let (mut sender, mut receiver) = stream.split();
    // Neither waits for the other: each may have to, for its peer.
    let asking = async {
        while let Ok(Some(message)) = receiver.recv().await {
            if put(&ours, &message.data).await.is_err() {
                return;
            }
        }
    };
    let answering = async {
        let mut buffer = vec![0; MESSAGE_BYTES];
        while let Ok(mut ready) = ours.readable().await {
            match ready.try_io(|ours| ours.get_ref().receive_bytes(&mut buffer)) {
                Ok(Ok(Packet::Message(count, _))) => {
                    let said = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
                    if sender.send(0, said).await.is_err() {
                        return;
                    }
                }
                Ok(_) => return,
                Err(_) => {} // it was not, after all
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

async fn put(to: &AsyncFd<Packets>, bytes: &[u8]) -> io::Result<()> {
    loop {
        let mut ready = to.writable().await?;
        match ready.try_io(|to| to.get_ref().send(bytes, None)) {
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            Ok(done) => return done,
            Err(_) => {} // it was not, after all
        }
    }
}
