//! Clients: what they know survives them only where it was written down: their number, their calls, and what was committed.

use crate::net::{Block, Net, Packet};
use crate::random::{Random, mix};
use crate::world::QUIET;
use kumiko_call::client::{ClientAction, ClientCall, NoResult};
use kumiko_call::event::Invocation;
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Status, ToClient};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Had {
    Result(Vec<Block>),
    None(NoResult),
}

/// One call, as its caller planned it.
#[derive(Debug)]
pub struct Wish {
    pub begins: u64,
    pub cancels: Option<u64>,
    pub routine: usize,
    pub arguments: Vec<Block>,
    pub keep_ms: u64,
    /// On the client's disk: what the caller has, each time.
    pub had: Vec<Had>,
    /// In memory.
    live: Option<ClientCall>,
    staging: Vec<Block>,
    spoken: u64,
    /// The client died during the call and may not have its arguments any more.
    reborn: bool,
    over: bool,
}

impl Wish {
    pub fn new(
        begins: u64,
        cancels: Option<u64>,
        routine: usize,
        blocks: u64,
        keep_ms: u64,
    ) -> Wish {
        Wish {
            begins,
            cancels,
            routine,
            arguments: (0..blocks)
                .map(|index| mix(begins ^ (index << 32)))
                .collect(),
            keep_ms,
            had: Vec::new(),
            live: None,
            staging: Vec::new(),
            spoken: 0,
            reborn: false,
            over: false,
        }
    }

    fn invocation(&self) -> Invocation {
        Invocation {
            routine: format!("m/{}", self.routine),
            in_bytes: self.arguments.len() as u64 * crate::world::BLOCK_BYTES,
            block_bytes: crate::world::BLOCK_BYTES,
            keep_ms: self.keep_ms,
        }
    }
}

#[derive(Debug)]
pub struct Client {
    pub index: usize,
    pub subject: String,
    pub down_until: u64,
    /// On its disk.
    number: Option<u64>,
    pub wishes: Vec<Wish>,
    pub died: u64,
}

impl Client {
    pub fn new(index: usize, wishes: Vec<Wish>) -> Client {
        Client {
            index,
            subject: format!("/CN=client {index}"),
            down_until: 0,
            number: None,
            wishes,
            died: 0,
        }
    }

    pub fn is_over(&self) -> bool {
        self.wishes.iter().all(|wish| wish.over)
    }

    pub fn die(&mut self, until: u64) {
        self.died += 1;
        self.down_until = until;
        for wish in &mut self.wishes {
            wish.reborn |= wish.live.is_some();
            wish.live = None;
            wish.staging.clear();
        }
    }

    fn first_open(&self) -> u64 {
        let open = self.wishes.iter().position(|wish| !wish.over);
        open.unwrap_or(self.wishes.len()) as u64 + 1
    }

    pub fn step(&mut self, now: u64, random: &mut Random, net: &mut Net) {
        let from = self.index;
        let Some(number) = self.number else {
            if now % 4 == 0 {
                net.send(
                    now,
                    random,
                    Packet::FromClient(from, FromClient::Register, None),
                );
            }
            return;
        };
        let first_open = self.first_open();
        for (index, wish) in self.wishes.iter_mut().enumerate() {
            if wish.over || wish.begins > now {
                continue;
            }
            let id = CallId {
                client: number,
                sequence: index as u64 + 1,
            };
            if wish.live.is_none() {
                // A program that begins anew with its arguments says the same words; one without them attaches.
                wish.live = Some(if !wish.had.is_empty() {
                    ClientCall::attach_committed(id)
                } else if wish.reborn && random.in_thousand(200) {
                    ClientCall::attach(id)
                } else {
                    ClientCall::invoke(id, first_open, wish.invocation())
                });
            }
            let Some(live) = &mut wish.live else { continue };
            live.cancelled = wish.cancels.is_some_and(|at| at <= now);
            if now < wish.spoken + 3 {
                continue;
            }
            wish.spoken = now;
            speak(live, &wish.arguments, now, random, net, from);
        }
    }

    pub fn heard(
        &mut self,
        now: u64,
        random: &mut Random,
        net: &mut Net,
        message: &ToClient,
        part: Option<Block>,
    ) {
        if let ToClient::Registered { client } = message {
            self.number.get_or_insert(*client);
            return;
        }
        if now < QUIET {
            self.migrate(now, random, net, message);
        }
        for wish in &mut self.wishes {
            let Some(live) = &mut wish.live else { continue };
            let before = live.clone();
            let mut action = live.heard(message);
            if let Some(ClientAction::Store { number }) = action {
                wish.staging.truncate(number as usize);
                wish.staging.push(part.unwrap());
                action = live.stored(number);
            }
            match action {
                Some(ClientAction::Commit { out_bytes }) => {
                    let has = wish.staging.len() as u64 * crate::world::BLOCK_BYTES;
                    assert_eq!(out_bytes, has);
                    wish.had
                        .push(Had::Result(std::mem::take(&mut wish.staging)));
                    live.committed();
                }
                Some(ClientAction::Fail(why)) => {
                    wish.had.push(Had::None(why));
                    live.committed();
                }
                Some(ClientAction::Store { .. }) | None => {}
            }
            wish.over = live.next().is_none();
            if *live != before && !wish.over {
                wish.spoken = now;
                speak(live, &wish.arguments, now, random, net, self.index);
            }
        }
    }
}

impl Client {
    /// Now and then; perhaps what is an attempt of before when it is heard.
    fn migrate(&self, now: u64, random: &mut Random, net: &mut Net, message: &ToClient) {
        let ToClient::Status {
            call,
            status: Status::Computing { epoch, .. },
        } = *message
        else {
            return;
        };
        if random.in_thousand(50) {
            let to = random.in_thousand(500).then(|| "host-1".to_owned());
            let message = FromClient::Migrate { call, epoch, to };
            net.send(now, random, Packet::FromClient(self.index, message, None));
        }
    }
}

fn speak(
    live: &ClientCall,
    arguments: &[Block],
    now: u64,
    random: &mut Random,
    net: &mut Net,
    from: usize,
) {
    let Some(message) = live.next() else { return };
    let block = match &message {
        FromClient::Block { number, .. } => Some(arguments[*number as usize]),
        _ => None,
    };
    net.send(now, random, Packet::FromClient(from, message, block));
}
