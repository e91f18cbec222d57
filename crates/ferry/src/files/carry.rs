//! The host's side: it has the site's folders stand where they stand at the site, in a view of its own, and starts there what it was
//! told to. What was started ends with it, and it with the connection to the site's machine.

use super::cache::{self, Cache};
use super::chunks::Chunks;
use super::notice;
use super::serve::{Asked, MESSAGE_BYTES};
use super::tree::Owner;
use super::{TICKET, TRUST, files_options};
use crate::host::dial;
use bytes::Bytes;
use kumiko_identity::tls::TlsStream;
use kumiko_identity::{Credential, TrustStore};
use kumiko_linux::{mounts, process, spooling};
use kumiko_session::{Dial, Session, Stream};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// In the ferry's own folder: where all that the site shows is mounted, and an empty one for the moment.
const TREE: &str = "tree";
const SPARE: &str = "spare";
/// A site's machine that is not reached within this is given up.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
const CONNECT_AGAIN: Duration = Duration::from_millis(500);
/// The other end of a message's way answers with this for one whom nobody waits for any more (fuse(4)).
const NOBODY_WAITS: ErrorKind = ErrorKind::NotFound;
/// The shell's own way to say by which signal it ended.
const SIGNALLED: i32 = 128;

/// What it is told.
#[derive(Debug)]
pub struct Told {
    /// A folder with the credential and whom to trust, which is removed.
    pub own: PathBuf,
    /// Where the site's machine listens.
    pub address: String,
    pub folders: Vec<PathBuf>,
    /// What to start.
    pub line: Vec<OsString>,
}

struct Call {
    address: String,
    credential: Credential,
    trust: TrustStore,
}

impl Dial for Call {
    type Io = TlsStream<TcpStream>;

    async fn dial(&self) -> io::Result<Self::Io> {
        dial(&self.address, &self.credential, &self.trust).await
    }
}

/// Until what it started has ended, whose exit status it has then. To be called while this process has one thread.
///
/// # Errors
/// The site's machine cannot be reached, or this host cannot show its folders; that it is told.
pub fn run(told: Told) -> io::Result<ExitCode> {
    let own = told.own.clone();
    attempt(told).inspect_err(|_| {
        // It is there still, if the folders were not shown.
        let _ = mounts::unmount(&own.join(TREE));
        let _ = fs::remove_dir_all(&own);
    })
}

fn attempt(told: Told) -> io::Result<ExitCode> {
    let credential = Credential::load(&told.own.join(TICKET)).map_err(io::Error::other)?;
    let trust = TrustStore::load(&told.own.join(TRUST)).map_err(io::Error::other)?;
    fs::remove_file(told.own.join(TICKET))?;
    let call = Call {
        address: told.address.clone(),
        credential,
        trust,
    };
    let mounted = mount(&told.own);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let session = connect(call).await?;
        let done = match mounted {
            Ok(device) => carry(&session, device, told).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &done {
            let asked = Asked::Complains(format!("kumiko-ferry: {error}"));
            // It is said on stderr too.
            let _ = session.open(Bytes::from(asked.write())).await;
        }
        let _ = session.close().await;
        done
    })
}

fn mount(own: &Path) -> io::Result<File> {
    let named = |what: &'static str| {
        move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
    };
    mounts::enter().map_err(named(
        "this host gives the account no namespaces, so that it cannot show the site's folders",
    ))?;
    for name in [TREE, SPARE] {
        fs::create_dir(own.join(name))?;
    }
    mounts::mount_answered(&own.join(TREE)).map_err(named(
        "this host has no file systems of its users' own (/dev/fuse), so that it cannot show the site's folders",
    ))
}

/// It waits a while for somebody to listen there; who lets nobody in is not asked again.
async fn connect(call: Call) -> io::Result<Session> {
    let until = Instant::now() + CONNECT_WITHIN;
    while let Err(error) = TcpStream::connect(&call.address).await {
        if Instant::now() >= until {
            return Err(error);
        }
        tokio::time::sleep(CONNECT_AGAIN).await;
    }
    let session = Session::connect(call, files_options()).await;
    session.map_err(io::Error::other)
}

async fn carry(session: &Session, device: File, told: Told) -> io::Result<ExitCode> {
    let mut wanted = signal(SignalKind::terminate())?;
    let (mut hung_up, mut interrupted) = (
        signal(SignalKind::hangup())?,
        signal(SignalKind::interrupt())?,
    );
    let asked = Asked::Files(Owner {
        uid: spooling::own_uid(),
        gid: spooling::own_gid(),
    });
    let stream = session.open(Bytes::from(asked.write())).await;
    // What stands in its place is unsafe: its caller has to know that the descriptor is its owner's for good. It is.
    #[allow(deprecated)]
    let device = AsyncFd::new(device)?;
    // A host that keeps nothing reads all from the site.
    let cache = Cache::open().ok();
    let chunks = Arc::new(Mutex::new(cache.clone().map(Chunks::new)));
    let Told {
        own, folders, line, ..
    } = told;
    let (forget, asked_to_forget) = mpsc::sync_channel(1);
    let pumping = pump(
        device,
        stream.map_err(io::Error::other)?,
        Arc::clone(&chunks),
        forget,
    );
    let mut pumping = tokio::spawn(pumping);
    // What may wait for the answers is done in threads that do not have what is answered by: they end with this process, wherever they are.
    let showing = process::thread_apart(move || {
        show(&own, &folders)?;
        let cache = cache.map(|cache| {
            let missing = cache.put_in_place(cache::programs(&folders));
            (cache, missing)
        });
        Ok::<_, io::Error>((cache, folders))
    })?;
    let shown = tokio::task::spawn_blocking(|| showing.join());
    let shown = shown.await.map_err(io::Error::other)?;
    let (cache, folders) = shown.map_err(|_| io::Error::other("a thread of it failed"))???;
    // Without it, as where it fails, the kernel keeps all until it needs the memory.
    let _ = process::thread_apart(move || {
        let mounted = folders.first()?;
        while asked_to_forget.recv().is_ok() {
            let _ = mounts::forget_unused(mounted);
        }
        Some(())
    });
    let mut child = start(&line)?;
    if let Some((cache, missing)) = cache {
        // What is not kept is read from the site the next time.
        let _ = process::thread_apart(move || cache.keep(&missing));
    }
    loop {
        tokio::select! {
            ended = child.wait() => {
                if let Some(chunks) = lock(&chunks).take() {
                    chunks.finish();
                }
                return Ok(code(ended?));
            }
            _ = &mut pumping => {
                child.kill().await?;
                return Err(io::Error::other("the connection to the site's machine is lost, and its files with it"));
            }
            // What a pilot heeds (spec/jobs/pilots.md, PL4). Of the others nothing does.
            _ = wanted.recv() => pass_on(&child),
            _ = hung_up.recv() => {}
            _ = interrupted.recv() => {}
        }
    }
}

fn show(own: &Path, folders: &[PathBuf]) -> io::Result<()> {
    let tree = own.join(TREE);
    let trees: Vec<(PathBuf, PathBuf)> = folders
        .iter()
        .enumerate()
        .map(|(number, folder)| (tree.join(number.to_string()), folder.clone()))
        .collect();
    mounts::show(&trees, &own.join(SPARE))?;
    mounts::unmount(&tree)?;
    fs::remove_dir_all(own)
}

fn start(line: &[OsString]) -> io::Result<Child> {
    let Some((program, arguments)) = line.split_first() else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    process::die_with_parent(&mut command);
    Command::from(command).spawn()
}

fn pass_on(child: &Child) {
    const SIGTERM: i32 = 15;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    // It may have ended just now.
    let _ = pid.map(|pid| {
        process::pidfd(pid).map(|pidfd| process::signal(std::os::fd::AsFd::as_fd(&pidfd), SIGTERM))
    });
}

fn code(ended: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let signalled = ended.signal().map(|signal| SIGNALLED + signal);
    let code = ended.code().or(signalled).unwrap_or(SIGNALLED);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn lock(chunks: &Mutex<Option<Chunks>>) -> MutexGuard<'_, Option<Chunks>> {
    chunks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the kernel asks goes to the site's machine, and what that answers to the kernel, until one of them ends; but chunks that are here are
/// not asked for. `forget`: what the site asks for that is not the kernel's.
async fn pump(
    device: AsyncFd<File>,
    stream: Stream,
    chunks: Arc<Mutex<Option<Chunks>>>,
    forget: SyncSender<()>,
) {
    let (mut sender, mut receiver) = stream.split();
    // Neither waits for the other: each may have to, for its peer.
    let asking = async {
        let mut buffer = vec![0; MESSAGE_BYTES];
        while let Ok(mut ready) = device.readable().await {
            let asked = match ready.try_io(|device| device.get_ref().read(&mut buffer)) {
                Ok(Ok(count)) if count > 0 => buffer.get(..count).unwrap_or_default(),
                // It was interrupted before it was read.
                Ok(Err(error))
                    if [NOBODY_WAITS, ErrorKind::Interrupted].contains(&error.kind()) =>
                {
                    continue;
                }
                Ok(_) => return,
                Err(_) => continue,
            };
            let here = lock(&chunks)
                .as_mut()
                .and_then(|chunks| chunks.asked(asked));
            let goes_on = match here {
                Some(answer) => tell(&device, &answer),
                None => sender.send(0, Bytes::copy_from_slice(asked)).await.is_ok(),
            };
            if !goes_on {
                return;
            }
        }
    };
    let answering = async {
        while let Ok(Some(message)) = receiver.recv().await {
            if *message.data == notice::FORGET {
                // It does already, if there is no room.
                let _ = forget.try_send(());
                continue;
            }
            let mut chunks = lock(&chunks);
            let is_for_kernel = match chunks.as_mut() {
                Some(chunks) => chunks.answered(&message.data),
                None => !notice::is_notice(&message.data),
            };
            drop(chunks);
            if is_for_kernel && !tell(&device, &message.data) {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

/// False: it has no file system of ours any more.
fn tell(device: &AsyncFd<File>, answer: &[u8]) -> bool {
    match device.get_ref().write(answer) {
        Err(error) => error.kind() == NOBODY_WAITS,
        Ok(count) => count == answer.len(),
    }
}
