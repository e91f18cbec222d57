//! The network rate of a job (P52): its TCP sockets are found and paced, and the rate is divided among them anew a few
//! times a second. What was sent is added up, and the rate corrected by it. What came to them is told at each look.

use super::shares::{Claim, divide};
use kumiko_linux::limits::pacing::{Owner, UNBOUNDED, UNPACED};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often the rate is divided anew, when no socket is new.
const DIVIDE_EVERY: Duration = Duration::from_millis(200);
/// What was sent too much or too little is made good within a second, if it is not more than one part in so many of what
/// may be sent in one: so a correction is never a burst, and what a new socket sent before it was found is forgotten.
const CORRECTION: i128 = 10;

/// What may come to a socket that is not read, in time at the rate: more than a round trip takes, so that it is no limit
/// itself, and little enough to wait for when the job is stopped.
const WINDOW: Duration = Duration::from_millis(250);
/// A window of some packets lets a slow connection, too, have several under way.
const WINDOW_LEAST_BYTES: u32 = 1 << 16;

#[derive(Debug, Default)]
pub struct Pacer {
    /// Bytes a second.
    rate: Option<u64>,
    sockets: BTreeMap<u64, Socket>,
    divided: Option<Instant>,
    /// Bytes that may be sent still, or were sent too much.
    balance: i128,
    /// Sockets may still have a pace, though there is no rate any more.
    left: bool,
}

#[derive(Clone, Copy, Debug)]
struct Socket {
    /// Of TCP, and connected.
    counts: bool,
    share: Option<u64>,
    bytes: u64,
    received: u64,
}

/// Where a socket is.
struct Place<'a> {
    owner: &'a Owner,
    descriptor: i32,
}

impl Pacer {
    pub fn set(&mut self, rate: Option<u64>) {
        self.left |= self.rate.is_some() && rate.is_none();
        self.rate = rate;
        self.balance = 0;
        self.divided = None;
    }

    pub fn has_paced(&self) -> bool {
        self.left
    }

    /// How many bytes came since the last look.
    pub fn look(&mut self, now: Instant, all: &[i32]) -> u64 {
        if self.rate.is_none() && !self.left {
            return 0;
        }
        let owners: Vec<Owner> = all.iter().filter_map(|pid| Owner::new(*pid).ok()).collect();
        let mut places = BTreeMap::new();
        for owner in &owners {
            for (inode, descriptor) in owner.sockets() {
                let descriptor = *descriptor;
                places.insert(*inode, Place { owner, descriptor });
            }
        }
        let Some(rate) = self.rate else {
            for place in places.values() {
                // An error: closed by now.
                let _ = place.owner.pace(place.descriptor, UNPACED);
                let _ = place.owner.bound_window(place.descriptor, UNBOUNDED);
            }
            self.sockets.clear();
            self.left = false;
            return 0;
        };
        self.sockets.retain(|inode, _| places.contains_key(inode));
        let mut received = 0;
        for (inode, socket) in self.sockets.iter_mut().filter(|(_, socket)| socket.counts) {
            let place = places.get(inode);
            let now = place.and_then(|place| place.owner.look(place.descriptor).ok()?);
            if let Some(now) = now {
                received += now.received.saturating_sub(socket.received);
                socket.received = now.received;
            }
        }
        let new = places.keys().any(|inode| !self.sockets.contains_key(inode));
        let since = self.divided.map(|at| now.saturating_duration_since(at));
        if new || since.is_none_or(|since| since >= DIVIDE_EVERY) {
            received += self.divide(rate, since.unwrap_or(DIVIDE_EVERY), &places);
            self.divided = Some(now);
        }
        received
    }

    /// How many bytes came to sockets that were not known before.
    fn divide(&mut self, rate: u64, since: Duration, places: &BTreeMap<u64, Place<'_>>) -> u64 {
        let window = window_bytes(rate);
        let mut came = 0;
        // Asked first with the share that they have; a new one with a fair one, since it may send before we are done.
        let fair = rate / (places.len() as u64).max(1);
        let mut claims = Vec::with_capacity(places.len());
        let mut sent_bytes = 0;
        for (inode, place) in places {
            let before = self.sockets.get(inode).copied();
            let share = before.and_then(|socket| socket.share);
            let pace = share.unwrap_or(fair).max(1);
            let Ok(Some(sent)) = place.owner.pace(place.descriptor, pace) else {
                // Of another kind: known, so that it is not new each time.
                let other = Socket {
                    counts: false,
                    share: None,
                    bytes: 0,
                    received: 0,
                };
                self.sockets.insert(*inode, other);
                continue;
            };
            let _ = place.owner.bound_window(place.descriptor, window); // closed by now
            came += sent
                .received
                .saturating_sub(before.map_or(0, |socket| socket.received));
            let fresh = sent
                .bytes
                .saturating_sub(before.map_or(0, |socket| socket.bytes));
            sent_bytes += fresh;
            let counts = !sent.apart;
            let socket = Socket {
                counts,
                share,
                bytes: sent.bytes,
                received: sent.received,
            };
            self.sockets.insert(*inode, socket);
            if counts {
                let used = per_second(fresh, since);
                let waits = sent.waiting > 0;
                claims.push((*inode, Claim { share, used, waits }));
            }
        }
        let most = i128::from(rate) / CORRECTION;
        let due = i128::try_from(u128::from(rate) * since.as_nanos() / 1_000_000_000);
        let balance = self.balance + due.unwrap_or(i128::MAX) - i128::from(sent_bytes);
        self.balance = balance.clamp(-most, most);
        let rate = u64::try_from(i128::from(rate) + self.balance).unwrap_or(rate);
        let only: Vec<Claim> = claims.iter().map(|(_, claim)| *claim).collect();
        // What is not connected yet has what one more would have.
        let next = rate / (claims.len() as u64 + 1);
        let shares = divide(rate, &only);
        for (inode, socket) in &mut self.sockets {
            let Some(place) = places.get(inode) else {
                continue;
            };
            let at = claims.iter().position(|(of, _)| of == inode);
            let share = at.and_then(|at| shares.get(at)).copied();
            let pace = share.unwrap_or(next).max(1);
            if socket.counts || share.is_none() {
                let _ = place.owner.pace(place.descriptor, pace); // closed by now, or no TCP
            }
            socket.share = share;
        }
        came
    }
}

fn window_bytes(rate: u64) -> u32 {
    let bytes = u128::from(rate) * WINDOW.as_millis() / 1000;
    let bytes = u32::try_from(bytes).unwrap_or(UNBOUNDED);
    bytes.clamp(WINDOW_LEAST_BYTES, UNBOUNDED)
}

fn per_second(bytes: u64, since: Duration) -> u64 {
    let nanoseconds = since.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}
