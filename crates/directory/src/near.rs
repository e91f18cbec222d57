//! Which sites have the ranks of one program among them (spec/jobs/placement.md, PM41 to PM43): those that are judged by [`choose`],
//! what each has room for; out comes how many ranks each has. Pure.
//!
//! [`choose`]: crate::choose::choose

use crate::choose::Judged;
use std::cmp::Reverse;
use std::collections::BTreeSet;

const LATENCY: &str = "kumiko-latency-seconds";
const ROOM: &str = "kumiko-slots-host";

/// Ranks of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its place among those that were judged.
    pub at: usize,
    pub ranks: u64,
}

/// How many ranks could begin at a site at once, on one host. None that it would keep waiting, since the others would wait with them.
pub fn room(one: &Judged, cpus: u64) -> u64 {
    let begins = one.can_be_asked() && one.misses.is_empty() && one.stale_since.is_none();
    let slots = number::<u64>(one, ROOM).filter(|_| begins);
    slots.unwrap_or(0) / cpus.max(1)
}

/// As few sites as have room for all ranks; of so few, those that answered soonest, to a factor of two, for sites that are both near to
/// here are near to each other. `in_order`: instead, the first ones, as they were judged. None: there is too little room.
pub fn shares(judged: &[Judged], ranks: u64, cpus: u64, in_order: bool) -> Option<Vec<Share>> {
    let rooms = judged.iter().map(|one| room(one, cpus)).enumerate();
    let rooms: Vec<(usize, u64)> = rooms.filter(|(_, room)| *room > 0).collect();
    let chosen = match in_order {
        true => enough(&rooms, ranks)?,
        false => {
            let fewest = enough(&roomiest(rooms.clone()), ranks)?.len();
            let ways: Vec<u32> = judged.iter().map(way).collect();
            let within = |most: u32| {
                let near = rooms.iter().filter(|(at, _)| ways.get(*at) <= Some(&most));
                let chosen = enough(&roomiest(near.copied().collect()), ranks)?;
                (chosen.len() == fewest).then_some(chosen)
            };
            let bounds: BTreeSet<u32> = ways.iter().copied().collect();
            bounds.into_iter().find_map(within)?
        }
    };
    Some(filled(chosen, ranks))
}

/// Those with most room first; among equals as they were judged.
fn roomiest(mut rooms: Vec<(usize, u64)>) -> Vec<(usize, u64)> {
    rooms.sort_by_key(|(_, room)| Reverse(*room));
    rooms
}

/// The first ones that have room for all.
fn enough(rooms: &[(usize, u64)], ranks: u64) -> Option<Vec<(usize, u64)>> {
    let mut sum = 0u64;
    let last = rooms.iter().position(|(_, room)| {
        sum = sum.saturating_add(*room);
        sum >= ranks
    })?;
    Some(rooms.get(..=last)?.to_vec())
}

/// Each as full as it can be, in the order in which they were judged, so that consecutive ranks are together.
fn filled(mut chosen: Vec<(usize, u64)>, ranks: u64) -> Vec<Share> {
    chosen.sort_by_key(|(at, _)| *at);
    let mut left = ranks;
    let share = |(at, room): (usize, u64)| {
        let ranks = room.min(left);
        left -= ranks;
        Share { at, ranks }
    };
    let shares = chosen.into_iter().map(share);
    shares.filter(|share| share.ranks > 0).collect()
}

/// How far a site is from here, in doublings of a millisecond; one that was never asked is the furthest.
fn way(one: &Judged) -> u32 {
    match number::<f64>(one, LATENCY) {
        Some(seconds) if seconds >= 0.0 => (seconds * 1000.0).max(1.0).log2().ceil() as u32,
        _ => u32::MAX,
    }
}

fn number<N: std::str::FromStr>(one: &Judged, name: &str) -> Option<N> {
    one.candidate.first(name)?.parse().ok()
}
