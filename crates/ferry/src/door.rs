//! Where this machine listens for ferries: at an address that hosts can reach, with a CA of its own, letting in whom a credential of now in
//! a place stands for (spec/jobs/pilots.md, PL40, PL41). Not here: what is said then.

use crate::{ADDRESS, ALPN, AUTHORITY, Address, CONNECT_WITHIN, HERE, LandingError, TRUST, wish};
use kumiko_identity::ca::{self, Authority, Kind};
use kumiko_identity::tls::{Acceptor, TlsError, TlsStream};
use kumiko_identity::{Credential, Dn, KeyKind, Peer, ProxyKind, TrustStore};
use kumiko_linux::{tcp, unix_socket};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The CA's own name; those of ferries and of the site are below `/O=kumiko landing`.
const NAME: &str = "/O=kumiko landing/CN=CA";
const SITE: &str = "site";
/// In the name of another host than the first of a place: before its number, from 1.
const HOST: char = '+';
/// The site's own lasts as long as a site may be up.
const OWN_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);
/// Strangers in the middle of a handshake, at once; the others wait in the kernel's queue.
const HANDSHAKES: usize = 64;
/// So often it is looked whether a ferry's place is there still.
const LOOK: Duration = Duration::from_secs(10);
/// After an accept that failed, as for want of descriptors (accept(2)).
const PAUSE: Duration = Duration::from_millis(100);

/// Why a ferry is not let in, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum Turned {
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

/// What is opened before anybody is let in.
#[derive(Debug)]
pub struct Opened {
    pub listener: TcpListener,
    pub here: UnixListener,
    pub door: Door,
}

#[derive(Debug)]
pub struct Door {
    pub authority: Authority,
    acceptor: Acceptor,
}

/// Whether those whom the one before let in are let in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Kept,
    Forgotten,
}

/// Makes `place`, with all that ferries read of it, and listens. It blocks, briefly.
pub fn open(place: &Path, at: &Address, before: Before) -> Result<Opened, LandingError> {
    let listen = |cause| LandingError::Listen {
        at: at.to_string(),
        cause,
    };
    let listener = TcpListener::bind((at.host.as_str(), at.port)).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let file = |tried| {
        let path = place.to_owned();
        move |cause| LandingError::File { tried, path, cause }
    };
    if before == Before::Forgotten {
        match fs::remove_dir_all(place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(file("removing")(error));
            }
            _ => {}
        }
    }
    let mut private = DirBuilder::new();
    private.mode(0o700).recursive(true);
    private.create(place).map_err(file("making"))?;
    let kept = place.join(AUTHORITY);
    let authority = match Authority::load(&kept) {
        Ok(authority) => authority,
        Err(_) => {
            // It was not wholly there.
            let _ = fs::remove_dir_all(&kept);
            Authority::init(&kept, &Dn::parse(NAME)?, &ca::Options::default())?
        }
    };
    authority.install_trust(&place.join(TRUST))?;
    let subject = authority.name_space().with("CN", SITE);
    let own = authority.enrol(&subject, KeyKind::P256, &Kind::User, OWN_LIFETIME)?;
    let trust = TrustStore::load(&place.join(TRUST))?;
    let acceptor = Acceptor::new(&own, &trust, &[ALPN])?;
    // One that was killed has left it.
    let _ = fs::remove_file(place.join(HERE));
    let here = unix_socket::listen(&place.join(HERE)).map_err(file("listening in"))?;
    here.set_nonblocking(true).map_err(file("listening in"))?;
    Ok(Opened {
        listener,
        here,
        door: Door {
            authority,
            acceptor,
        },
    })
}

/// Writes down where it listens. Last: by then all else that a ferry reads is there.
pub fn announce(place: &Path, at: &Address, listener: &TcpListener) -> Result<(), LandingError> {
    let new = place.join("address.new");
    let tell = || -> io::Result<()> {
        let port = listener.local_addr()?.port();
        fs::write(&new, Address { port, ..at.clone() }.to_string())?;
        fs::rename(&new, place.join(ADDRESS))
    };
    tell().map_err(|cause| LandingError::File {
        tried: "writing to",
        path: place.to_owned(),
        cause,
    })
}

/// Puts a credential for this place's ferry into a file of the place. It blocks, briefly.
pub fn ticket(
    authority: &Authority,
    place: &Path,
    file: &str,
    lifetime: Duration,
) -> Result<(), LandingError> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    enrol(authority, &name, &place.join(file), lifetime)
}

/// Of one of the other hosts that have something in a place.
pub fn ticket_of_host(
    authority: &Authority,
    place: &Path,
    (number, file): (u32, &str),
    lifetime: Duration,
) -> Result<(), LandingError> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{name}{HOST}{number}");
    enrol(
        authority,
        &name,
        &place.join(of_host(number, file)),
        lifetime,
    )
}

/// The name of such a file.
pub fn of_host(number: u32, file: &str) -> String {
    format!("{number}.{file}")
}

fn enrol(
    authority: &Authority,
    name: &str,
    file: &Path,
    lifetime: Duration,
) -> Result<(), LandingError> {
    let subject = authority.name_space().with("CN", name);
    let credential = authority.enrol(&subject, KeyKind::P256, &Kind::User, lifetime)?;
    Ok(credential.save_proxy(file)?)
}

/// The place, and the file in it, for which a name stands; None: for none.
pub fn stands_for<'a>(name: &'a str, file: &str) -> Option<(&'a str, String)> {
    let (place, file) = match name.split_once(HOST) {
        None => (name, file.to_owned()),
        Some((place, number)) => (place, of_host(number.parse().ok()?, file)),
    };
    wish::is_place(place).then_some((place, file))
}

impl Door {
    /// Shakes hands with one, and tells its name, which [`stands_for`] a place among `root`'s: it shows what is in the place's file.
    pub async fn let_in(
        &self,
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        root: &Path,
        file: &str,
    ) -> Result<(TlsStream<TcpStream>, String), Turned> {
        tcp::tune(&stream)?;
        let shaken = timeout(CONNECT_WITHIN, self.acceptor.accept(stream)).await;
        let (mut tls, peer) = shaken.map_err(|_| Turned::Slow)??;
        drop(permit);
        tls.gather();
        let name = self.admits(&peer, root, file);
        let name = name.ok_or_else(|| Turned::Unknown(peer.identity.clone()))?;
        Ok((tls, name))
    }

    fn admits(&self, peer: &Peer, root: &Path, file: &str) -> Option<String> {
        let name = peer.identity.common_name()?.to_owned();
        let own = self.authority.name_space().with("CN", &name);
        let plain = peer.kind == ProxyKind::EndEntity && peer.identity == own;
        // Whether it is the credential of now of a place that is there.
        let (place, file) = stands_for(&name, file)?;
        let bears = || {
            let kept = Credential::load(&root.join(place).join(file));
            kept.is_ok_and(|kept| peer.chain.first() == Some(kept.leaf()))
        };
        (plain && bears()).then_some(name)
    }
}

/// Until the place, or its file, is gone.
pub async fn gone(place: &Path, file: &str) -> String {
    while place.join(file).exists() {
        tokio::time::sleep(LOOK).await;
    }
    "its place is gone".to_owned()
}

/// Takes connections as they come, as long as `each` goes on.
pub async fn accept(
    listener: TcpListener,
    mut each: impl FnMut(TcpStream, OwnedSemaphorePermit) -> ControlFlow<()>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let room = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                if each(stream, permit).is_break() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "nobody is accepted just now");
                drop(permit);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_place_and_one_of_its_hosts_or_for_nothing() {
        let own = |place, file: &str| Some((place, file.to_owned()));
        assert_eq!(stands_for("7.1", "f"), own("7.1", "f"));
        assert_eq!(stands_for("pilot-3", "f"), own("pilot-3", "f"));
        assert_eq!(stands_for("7.1+2", "f"), own("7.1", "2.f"));
        for wrong in ["", "+", "+2", "7.1+", "7.1+x", "7.1+2+3", "7.1+../2", "x+1"] {
            assert_eq!(stands_for(wrong, "f"), None, "{wrong}");
        }
    }
}
