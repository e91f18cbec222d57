//! A network that loses, doubles, delays and reorders.

use crate::random::Random;
use kumiko_call::message::{FromClient, FromHost, ToClient, ToHost};
use std::collections::BTreeMap;

/// One number a block: enough to be wrong.
pub type Block = u64;

#[derive(Clone, Debug)]
pub enum Packet {
    FromClient(usize, FromClient, Option<Block>),
    ToClient(usize, ToClient, Option<Block>),
    FromHost(usize, FromHost, Option<Made>),
    ToHost(usize, ToHost, Option<Given>),
}

/// What a host sends beside its words.
#[derive(Clone, Debug)]
pub enum Made {
    Result(Vec<Block>),
    Checkpoint(Image),
}

/// What a host is given to run an attempt.
#[derive(Clone, Debug)]
pub struct Given {
    pub arguments: Vec<Block>,
    pub image: Option<Image>,
    pub routine: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Image {
    pub step: u64,
    pub state: u64,
    pub readable: bool,
}

impl Packet {
    fn host(&self) -> Option<usize> {
        match self {
            Packet::FromHost(host, ..) | Packet::ToHost(host, ..) => Some(*host),
            _ => None,
        }
    }

    fn client(&self) -> Option<usize> {
        match self {
            Packet::FromClient(client, ..) | Packet::ToClient(client, ..) => Some(*client),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Net {
    pub flying: BTreeMap<(u64, u64), Packet>,
    pub count: u64,
    pub lost: u64,
    pub twice: u64,
    /// Often in a thousand.
    pub loses: u64,
    pub doubles: u64,
    pub delays: u64,
    /// Until when nothing comes through.
    pub cut_hosts: Vec<u64>,
    pub cut_clients: Vec<u64>,
}

impl Net {
    pub fn send(&mut self, now: u64, random: &mut Random, packet: Packet) {
        if random.in_thousand(self.loses) {
            self.lost += 1;
            return;
        }
        if random.in_thousand(self.doubles) {
            self.twice += 1;
            self.fly(now, random, packet.clone());
        }
        self.fly(now, random, packet);
    }

    fn fly(&mut self, now: u64, random: &mut Random, packet: Packet) {
        let mut delay = 1 + random.below(2);
        if random.in_thousand(self.delays) {
            // Longer than a host is waited for: it comes from another epoch.
            delay += random.below(60);
        }
        self.count += 1;
        self.flying.insert((now + delay, self.count), packet);
    }

    /// What arrives by now.
    pub fn arrive(&mut self, now: u64) -> Option<Packet> {
        loop {
            let entry = self.flying.first_entry()?;
            if entry.key().0 > now {
                return None;
            }
            let packet = entry.remove();
            let until = |cuts: &[u64], index: Option<usize>| {
                index
                    .and_then(|index| cuts.get(index).copied())
                    .unwrap_or(0)
            };
            let cut = until(&self.cut_hosts, packet.host()) > now
                || until(&self.cut_clients, packet.client()) > now;
            if !cut {
                return Some(packet);
            }
            self.lost += 1;
        }
    }
}
