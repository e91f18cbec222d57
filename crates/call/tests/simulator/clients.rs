//! Clients: what they know survives them only where it was written down: their number, their calls, and what was committed.

use crate::net::{Block, Net, Packet};
use crate::random::{Random, mix};
use crate::world::QUIET;
use kumiko_call::client::{ClientAction, ClientCall, NoResult, Phase};
use kumiko_call::event::Invocation;
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Refusal, Status, ToClient};

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
    /// On the client's disk, too.
    id: Option<CallId>,
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
            id: None,
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
    /// Its calls begin in memory.
    pub passing: bool,
    /// On its disk.
    number: Option<u64>,
    last: u64,
    /// Numbers that it had before: who is told one on a connection hears that again on no other.
    before: Vec<u64>,
    pub wishes: Vec<Wish>,
    pub died: u64,
    pub anew: u64,
}

impl Client {
    pub fn new(index: usize, passing: bool, wishes: Vec<Wish>) -> Client {
        Client {
            index,
            subject: format!("/CN=client {index}"),
            down_until: 0,
            passing,
            number: None,
            last: 0,
            before: Vec::new(),
            wishes,
            died: 0,
            anew: 0,
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

    /// Of those of its number now.
    fn first_open(&self) -> u64 {
        let open = self
            .wishes
            .iter()
            .filter(|wish| !wish.over)
            .flat_map(|wish| wish.id);
        let open = open.filter(|id| Some(id.client) == self.number);
        open.map(|id| id.sequence).min().unwrap_or(self.last + 1)
    }

    pub fn step(&mut self, now: u64, random: &mut Random, net: &mut Net) {
        let from = self.index;
        let Some(number) = self.number else {
            if now % 4 == 0 {
                let passing = self.passing;
                let register = FromClient::Register { passing };
                net.send(now, random, Packet::FromClient(from, register, None));
            }
            return;
        };
        for wish in &mut self.wishes {
            if wish.id.is_none() && wish.begins <= now {
                self.last += 1;
                let (client, sequence) = (number, self.last);
                wish.id = Some(CallId { client, sequence });
            }
        }
        let first_open = self.first_open();
        for wish in &mut self.wishes {
            let Some(id) = wish.id.filter(|_| !wish.over) else {
                continue;
            };
            let first_open = match id.client == number {
                true => first_open,
                false => 1,
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
            if !self.before.contains(client) {
                self.number.get_or_insert(*client);
            }
            return;
        }
        if now < QUIET {
            self.migrate(now, random, net, message);
        }
        for wish in &mut self.wishes {
            let Some(live) = &mut wish.live else { continue };
            let before = live.clone();
            if is_forgotten(live, message) {
                // It is begun anew under another name.
                if self.number == Some(live.id.client) {
                    self.before.extend(self.number);
                    (self.number, self.last) = (None, 0);
                }
                (wish.id, wish.live) = (None, None);
                wish.staging.clear();
                self.anew += 1;
                continue;
            }
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

/// Its server was started anew, and knows nothing of it any more; its arguments are still here.
fn is_forgotten(live: &ClientCall, message: &ToClient) -> bool {
    let ToClient::Refused {
        call: Some(call),
        refusal: Refusal::NoClient { .. },
    } = message
    else {
        return false;
    };
    let is_open = !matches!(live.phase, Phase::Committed { .. } | Phase::Over);
    *call == live.id && live.invocation.is_some() && is_open
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
