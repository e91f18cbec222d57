//! The network rate of a job (P52): its TCP sockets are found and paced, and the rate is divided among them anew a few
//! times a second. What was sent is added up, and the rate corrected by it. What came to them is told at each look.

use super::balance::{Balance, Sent};
use super::shares::{Claim, divide, is_over};
use kumiko_linux::limits::pacing::{Owner, UNBOUNDED, UNPACED};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often the rate is divided anew, when no socket is new.
const DIVIDE_EVERY: Duration = Duration::from_millis(200);
/// TCP paces nothing of a connection's first ten packets (tcp_update_skb_after_send): they cannot be made good.
const FIRST_BYTES: u64 = 10 << 16;

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
    balance: Balance,
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
        self.balance = Balance::default();
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
        let (mut received, mut sent_bytes) = (0, 0);
        for (inode, socket) in self.sockets.iter_mut().filter(|(_, socket)| socket.counts) {
            let place = places.get(inode);
            let now = place.and_then(|place| place.owner.look(place.descriptor).ok()?);
            if let Some(now) = now {
                received += now.received.saturating_sub(socket.received);
                socket.received = now.received;
                sent_bytes += now.bytes.saturating_sub(socket.bytes);
            }
        }
        let new = places.keys().any(|inode| !self.sockets.contains_key(inode));
        let since = self.divided.map(|at| now.saturating_duration_since(at));
        let count = self.sockets.values().filter(|socket| socket.counts).count();
        let is_due = |since| since >= DIVIDE_EVERY || is_over(rate, since, count, sent_bytes);
        if new || since.is_none_or(is_due) {
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
        let (mut paced_bytes, mut first_bytes) = (0, 0);
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
            match before.is_some_and(|socket| socket.bytes >= FIRST_BYTES) {
                true => paced_bytes += fresh,
                false => first_bytes += fresh,
            }
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
        let only: Vec<Claim> = claims.iter().map(|(_, claim)| *claim).collect();
        let sent = Sent {
            since,
            paced_bytes,
            first_bytes,
            waits: only.iter().any(|claim| claim.waits),
        };
        let rate = self.balance.correct(rate, sent);
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
