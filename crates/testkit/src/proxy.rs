//! A proxy that does harm to TCP connections at a byte, or between records of TLS: it cuts, half-closes, loses, says twice, or holds up what comes.
//!
//! Not here: what the harm is to be; a test decides, by a seed.

use crate::records::Records;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PIECE_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From who connects to who listens.
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Both ways end.
    Cut,
    /// This way ends; the other one goes on until its sender ends it.
    HalfClose,
    /// So many bytes are left out.
    Lose(usize),
    /// What follows in one piece comes twice.
    Twice,
    Hold(Duration),
}

/// Done once, when so many bytes more have gone this way over any connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub way: Way,
    pub after_bytes: usize,
    /// Between two records of TLS: as the next one begins.
    pub between: bool,
    pub harm: Harm,
}

/// Listens until it is dropped; connections that stand go on.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    armed: Mutex<Option<Fault>>,
    over: AtomicBool,
}

impl Proxy {
    /// On loopback, before whoever listens there now or later.
    ///
    /// # Errors
    /// There is no port to be had.
    pub fn before(upstream: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let proxy = Proxy {
            address: listener.local_addr()?,
            shared: Arc::new(Shared {
                upstream,
                armed: Mutex::default(),
                over: AtomicBool::new(false),
            }),
        };
        let shared = Arc::clone(&proxy.shared);
        std::thread::spawn(move || accept(&listener, &shared));
        Ok(proxy)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn arm(&self, fault: Fault) {
        *self.shared.armed() = Some(fault);
    }

    /// Whether what it was armed with has begun.
    pub fn has_struck(&self) -> bool {
        self.shared.armed().is_none()
    }

    /// Whether what it was armed with was done.
    pub fn disarm(&self) -> bool {
        self.shared.armed().take().is_none()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address); // so that it looks
    }
}

impl Shared {
    fn armed(&self) -> MutexGuard<'_, Option<Fault>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where in the next so many bytes, in which records begin there, harm is done.
    fn strikes(&self, way: Way, count: usize, begin: &[usize]) -> Option<(usize, Harm)> {
        let mut armed = self.armed();
        let fault = armed.as_mut().filter(|fault| fault.way == way)?;
        let after = fault.after_bytes;
        let place = match fault.between {
            true => begin.iter().copied().find(|at| *at >= after),
            false => Some(after).filter(|at| *at < count),
        };
        fault.after_bytes = after.saturating_sub(count);
        let place = place?;
        armed.take().map(|fault| (place, fault.harm))
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((near, _)) = listener.accept() {
        if shared.over.load(Ordering::Acquire) {
            return;
        }
        // Who finds nobody there is let go.
        let Ok(far) = TcpStream::connect(shared.upstream) else {
            continue;
        };
        for stream in [&near, &far] {
            let _ = stream.set_nodelay(true);
        }
        let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else {
            continue;
        };
        let (up, down) = (Arc::clone(shared), Arc::clone(shared));
        std::thread::spawn(move || pass(near, far, Way::Up, &up));
        std::thread::spawn(move || pass(far_too, near_too, Way::Down, &down));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, way: Way, shared: &Shared) {
    let mut piece = [0; PIECE_BYTES];
    let mut records = Records::default();
    loop {
        let count = match from.read(&mut piece) {
            Ok(count) if count > 0 => count,
            _ => break,
        };
        let came = &piece[..count];
        let passed = match shared.strikes(way, count, &records.begin(came)) {
            None => to.write_all(came),
            Some((at, harm)) => {
                let (before, after) = came.split_at(at);
                let mut passed = to.write_all(before);
                match harm {
                    Harm::Cut => break,
                    Harm::HalfClose => {
                        let _ = to.shutdown(Shutdown::Write);
                        return;
                    }
                    Harm::Lose(bytes) => {
                        passed = passed.and(to.write_all(&after[bytes.min(after.len())..]));
                    }
                    Harm::Twice => passed = passed.and(to.write_all(&[after, after].concat())),
                    Harm::Hold(time) => {
                        std::thread::sleep(time);
                        passed = passed.and(to.write_all(after));
                    }
                }
                passed
            }
        };
        if passed.is_err() {
            break;
        }
    }
    // The end of either way is the end of both.
    for stream in [&from, &to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
