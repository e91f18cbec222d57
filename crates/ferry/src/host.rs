//! The host's side (spec/jobs/pilots.md, PL42 to PL46): it calls the site, and connects to the sockets that the site names. It
//! reads anew all that the site has written before each call, for another site may have started meanwhile.

use crate::bridge::bridge;
use crate::wish::{self, Wish};
use crate::{ADDRESS, ALPN, CONNECT_WITHIN, DIRECTORY, HERE, TICKET, TRUST, options};
use bytes::Bytes;
use kumiko_identity::tls::{Connector, TlsStream};
use kumiko_identity::{Credential, TrustStore};
use kumiko_linux::{process, tcp, unix_socket};
use kumiko_session::{Dial, Session, Stream};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// A runner has its socket within milliseconds of being started.
const SOCKET_WITHIN: Duration = Duration::from_secs(5);
const SOCKET_AGAIN: Duration = Duration::from_millis(10);
/// Between calls: twice as long each time.
const CALL_AGAIN: Duration = Duration::from_millis(250);
/// A pilot waits 120 s for a site that was away (PL4); many ferries are not to call a site at once all the time.
const CALL_AGAIN_MOST: Duration = Duration::from_secs(8);
/// For what was said last.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);
/// Which field of /proc/PID/stat has the time of its start, from 1 (proc(5)).
const BEGAN: usize = 22;

/// Ferries for the place as long as that process lives, which began then. Nothing is to be done where the site's own sockets
/// lead here.
///
/// # Errors
/// The process cannot be watched.
pub async fn run(place: PathBuf, pid: i32, began: &str) -> io::Result<()> {
    let ended = match process::pidfd(pid) {
        Ok(process) if began_then(pid, began) => {
            // What stands in its place is unsafe: its caller has to know that the descriptor is its owner's for good. It is.
            #[allow(deprecated)]
            AsyncFd::new(process)?
        }
        // It has ended, and its number may be another's by now.
        _ => return Ok(()),
    };
    tokio::select! {
        ready = ended.readable() => ready.map(|_| ()),
        () = keep_calling(&place) => Ok(()),
    }
}

fn began_then(pid: i32, began: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, which is second, stands in brackets and may hold anything.
    let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind.split_whitespace().nth(BEGAN - 3) == Some(began)
}

async fn keep_calling(place: &Path) {
    let Some(root) = place.parent() else {
        return;
    };
    let (mut pause, mut last) = (CALL_AGAIN, String::new());
    loop {
        if unix_socket::connect(&root.join(DIRECTORY).join(HERE)).is_ok() || !place.exists() {
            return;
        }
        let called = Instant::now();
        if let Err(error) = call(root, place).await {
            let words = error.to_string();
            if words != last {
                eprintln!("kumiko-ferry: the site is not reached: {words}");
                last = words;
            }
        }
        // It stood for longer than the one before was waited for: a site that is started again and again is not called ever more seldom.
        if called.elapsed() > pause {
            pause = CALL_AGAIN;
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(CALL_AGAIN_MOST);
    }
}

struct Call {
    landing: PathBuf,
    ticket: PathBuf,
}

impl Dial for Call {
    type Io = TlsStream<TcpStream>;

    async fn dial(&self) -> io::Result<Self::Io> {
        let address = fs::read_to_string(self.landing.join(ADDRESS))?;
        let credential = Credential::load(&self.ticket).map_err(io::Error::other)?;
        let trust = TrustStore::load(&self.landing.join(TRUST)).map_err(io::Error::other)?;
        dial(&address, &credential, &trust).await
    }
}

/// Calls the site, which shows that it is it.
pub async fn dial(
    address: &str,
    credential: &Credential,
    trust: &TrustStore,
) -> io::Result<TlsStream<TcpStream>> {
    let site = credential.identity().parent().with("CN", "site");
    let connector = Connector::new(Some(credential), trust, &[ALPN]).map_err(io::Error::other)?;
    let host = address.rsplit_once(':').map_or("", |(host, _)| host);
    let connect = async {
        let tcp = TcpStream::connect(address).await?;
        tcp::tune(&tcp)?;
        let (mut tls, _) = connector
            .connect_to_identity(host, &site, tcp)
            .await
            .map_err(io::Error::other)?;
        tls.gather();
        Ok(tls)
    };
    let called = timeout(CONNECT_WITHIN, connect).await;
    called.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Calls once, and does what the site wishes until it hangs up.
async fn call(root: &Path, place: &Path) -> io::Result<()> {
    let dial = Call {
        landing: root.join(DIRECTORY),
        ticket: place.join(TICKET),
    };
    let session = Session::connect(dial, options())
        .await
        .map_err(io::Error::other)?;
    let wishes = session.open(Bytes::new()).await.map_err(io::Error::other)?;
    let ended = grant(root, place, &session, wishes).await;
    // It is over, or soon is.
    let _ = timeout(GOODBYE_WITHIN, session.close()).await;
    ended
}

async fn grant(root: &Path, place: &Path, session: &Session, wishes: Stream) -> io::Result<()> {
    let own = place.file_name().unwrap_or_default().to_string_lossy();
    let (mut sender, mut receiver) = wishes.split();
    let (failed, mut failures) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            wish = receiver.recv() => {
                let Some(message) = wish.map_err(io::Error::other)? else {
                    return Ok(());
                };
                let wish = Wish::decode(&message.data).ok_or(ErrorKind::InvalidData)?;
                // A pilot's is for the runners in it too.
                let allowed = wish.name == own || (wish::is_pilot(&own) && wish::is_attempt(&wish.name));
                let socket = root.join(&wish.name).join("control");
                let (session, failed) = (session.clone(), failed.clone());
                tokio::spawn(async move {
                    let number = Bytes::copy_from_slice(&wish.number.to_le_bytes());
                    let reached = match allowed {
                        true => reach(&socket).await,
                        false => Err(ErrorKind::PermissionDenied.into()),
                    };
                    match reached {
                        Ok(socket) => {
                            if let Ok(stream) = session.open(number).await {
                                bridge(stream, socket).await;
                            }
                        }
                        // Nobody to tell it to: the session is over.
                        Err(_) => drop(failed.send(number)),
                    }
                });
            }
            Some(number) = failures.recv() => {
                sender.send(0, number).await.map_err(io::Error::other)?;
            }
        }
    }
}

/// Waits a moment for a socket to be there.
async fn reach(socket: &Path) -> io::Result<UnixStream> {
    let until = Instant::now() + SOCKET_WITHIN;
    loop {
        let error = match unix_socket::connect(socket) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                return UnixStream::from_std(stream);
            }
            Err(error) => error,
        };
        if Instant::now() >= until {
            return Err(error);
        }
        tokio::time::sleep(SOCKET_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::Landing;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const WITHIN: Duration = Duration::from_secs(30);

    /// A landing, and the place of an attempt.
    fn landing(root: &Path) -> (Landing, PathBuf) {
        let landing = Landing::open(root, &"127.0.0.1".parse().unwrap()).unwrap();
        landing.serve();
        let place = root.join("7.1");
        fs::create_dir(&place).unwrap();
        landing.ticket(&place).unwrap();
        (landing, place)
    }

    /// What a thief has: all that the site tells, and a credential.
    fn stolen(root: &Path, ticket: &Path) -> (tempfile::TempDir, PathBuf) {
        let other = tempfile::tempdir().unwrap();
        let from = root.join(DIRECTORY);
        let copied = std::process::Command::new("cp")
            .args(["-r".as_ref(), from.as_os_str(), other.path().as_os_str()])
            .status();
        assert!(copied.unwrap().success());
        let place = other.path().join("7.1");
        fs::create_dir(&place).unwrap();
        fs::copy(ticket, place.join(TICKET)).unwrap();
        (other, place)
    }

    async fn refused(landing: &Landing, thief: &(tempfile::TempDir, PathBuf), why: &str) {
        let called = timeout(WITHIN, call(thief.0.path(), &thief.1)).await;
        assert!(matches!(called, Ok(Err(_))), "{why}: {called:?}");
        let there = landing.connect("7.1", "7.1").await;
        assert_eq!(there.unwrap_err().kind(), ErrorKind::NotFound, "{why}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_ferry_of_a_place_is_let_in_and_carries_bytes_both_ways() {
        let top = tempfile::tempdir().unwrap();
        let (landing, place) = landing(top.path());
        let listener = tokio::net::UnixListener::bind(place.join("control")).unwrap();
        let root = top.path().to_owned();
        let calling = tokio::spawn(async move { call(&root, &place).await });
        let reached = async {
            loop {
                if let Ok(reached) = landing.connect("7.1", "7.1").await {
                    return UnixStream::from_std(reached).unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        let mut ours = timeout(WITHIN, reached).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        ours.write_all(b"there").await.unwrap();
        let mut read = [0; 5];
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"there");
        theirs.write_all(b"back").await.unwrap();
        drop(theirs);
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"back");
        // Not to another's socket.
        let other = landing.connect("7.1", "8.1").await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // Who has no place any more is let go.
        fs::remove_dir_all(top.path().join("7.1")).unwrap();
        assert!(timeout(WITHIN, calling).await.unwrap().unwrap().is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn strangers_and_credentials_of_what_is_over_are_refused() {
        let top = tempfile::tempdir().unwrap();
        let (landing_, place) = landing(top.path());
        let before = stolen(top.path(), &place.join(TICKET));
        landing_.ticket(&place).unwrap();
        refused(&landing_, &before, "one from before the newest").await;
        let of_now = stolen(top.path(), &place.join(TICKET));
        fs::remove_dir_all(&place).unwrap();
        refused(&landing_, &of_now, "one whose place is gone").await;
        fs::create_dir(&place).unwrap();
        landing_.ticket(&place).unwrap();
        let another = tempfile::tempdir().unwrap();
        let (_other, others) = landing(another.path());
        let stranger = stolen(top.path(), &others.join(TICKET));
        refused(&landing_, &stranger, "one of another site").await;
    }

    #[tokio::test]
    async fn a_site_that_is_not_who_it_says_is_hung_up_on() {
        let (top, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_landing, place) = landing(top.path());
        let (_other, _) = landing(another.path());
        let address = Path::new(DIRECTORY).join(ADDRESS);
        fs::copy(another.path().join(&address), top.path().join(&address)).unwrap();
        let error = timeout(WITHIN, call(top.path(), &place)).await.unwrap();
        let words = error.unwrap_err().to_string();
        assert!(words.contains("certificate"), "{words}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_ferry_has_nothing_to_do_where_sockets_lead_to_the_site_or_its_process_is_over() {
        let top = tempfile::tempdir().unwrap();
        let (_landing, place) = landing(top.path());
        timeout(WITHIN, keep_calling(&place)).await.unwrap();
        let own = std::process::id().try_into().unwrap();
        let not_us = run(place, own, "1");
        timeout(WITHIN, not_us).await.unwrap().unwrap();
    }
}
