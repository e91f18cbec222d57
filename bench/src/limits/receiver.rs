//! The other end of a guest's connections: counts what comes, by time; or sends as fast as it may. Not here: limits.

use crate::fail::{Failure, While};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Read at once: few calls a second at any rate.
const PIECE_BYTES: usize = 1 << 18;
/// No guest takes so long to come.
const WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked at what has come.
const GLANCE: Duration = Duration::from_millis(5);

/// Counts from the first connection on; its threads end with their connections.
#[derive(Debug)]
pub struct Receiver {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicU64,
    first: Mutex<Option<Instant>>,
    over: AtomicBool,
}

/// What had come at an instant after the first connection.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub at: Duration,
    pub bytes: u64,
}

impl Receiver {
    /// `sending`: sends to whoever connects, instead.
    pub fn open(sending: bool) -> Result<Receiver, Failure> {
        let opening = || "opening a port for the guest";
        let listener = TcpListener::bind("127.0.0.1:0").doing(opening)?;
        let port = listener.local_addr().doing(opening)?.port();
        let shared = Arc::new(Shared::default());
        let of_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if of_all.over.load(Ordering::Relaxed) {
                    return;
                }
                let mut first = of_all.first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(Instant::now);
                drop(first);
                let shared = Arc::clone(&of_all);
                std::thread::spawn(move || match sending {
                    true => send(stream, &shared),
                    false => receive(stream, &shared),
                });
            }
        });
        Ok(Receiver { port, shared })
    }

    /// The instant of the first connection.
    pub fn begun(&self) -> Result<Instant, Failure> {
        let asked = Instant::now();
        while asked.elapsed() < WITHIN {
            let first = self.shared.first.lock();
            if let Some(first) = *first.unwrap_or_else(PoisonError::into_inner) {
                return Ok(first);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Failure::Deadline {
            what: "a connection of the guest".to_owned(),
            within: WITHIN,
        })
    }

    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Bytes a second between two instants after the first connection.
    pub fn rate(&self, from: Duration, to: Duration) -> Result<f64, Failure> {
        let begun = self.begun()?;
        let mut seen = [Seen {
            at: Duration::ZERO,
            bytes: 0,
        }; 2];
        for (at, seen) in [from, to].into_iter().zip(&mut seen) {
            std::thread::sleep(at.saturating_sub(begun.elapsed()));
            *seen = self.seen(begun);
        }
        Ok((seen[1].bytes - seen[0].bytes) as f64 / (seen[1].at - seen[0].at).as_secs_f64())
    }

    fn seen(&self, begun: Instant) -> Seen {
        let (at, bytes) = (begun.elapsed(), self.bytes());
        Seen { at, bytes }
    }

    /// Glances, until an instant after the first connection.
    pub fn glances(&self, until: Duration) -> Result<Vec<Seen>, Failure> {
        let begun = self.begun()?;
        let mut all = Vec::new();
        while begun.elapsed() < until {
            all.push(self.seen(begun));
            std::thread::sleep(GLANCE);
        }
        all.push(self.seen(begun));
        Ok(all)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes the listening thread; refused: it has ended.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn receive(mut stream: TcpStream, shared: &Shared) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count) = stream.read(&mut piece) {
        if count == 0 {
            return;
        }
        shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
}

fn send(mut stream: TcpStream, shared: &Shared) {
    let piece = vec![0; PIECE_BYTES];
    while let Ok(count) = stream.write(&piece) {
        shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
}
