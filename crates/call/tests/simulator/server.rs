//! The server: a log on a disk that may be full, and a process that may die between any two things it does. All it knows it
//! has by replay; all it does is what `respond` and `decide` say.

use crate::net::{Block, Given, Image, Made, Net, Packet};
use crate::random::Random;
use kumiko_call::call::{Call, Stage};
use kumiko_call::decide::{Action, decide};
use kumiko_call::event::{CallEvent, Event, Record};
use kumiko_call::held::{Held, Noted};
use kumiko_call::id::{AttemptId, CallId, CheckpointId};
use kumiko_call::ledger::{Ledger, is_passing};
use kumiko_call::message::{FromClient, FromHost, Refusal, ToClient, ToHost};
use kumiko_call::respond;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Disk {
    pub log: Vec<String>,
    pub arguments: BTreeMap<CallId, Vec<Block>>,
    pub results: BTreeMap<AttemptId, Vec<Block>>,
    pub images: BTreeMap<(CallId, CheckpointId), Image>,
    pub full: bool,
}

#[derive(Debug, Default)]
pub struct Server {
    pub disk: Disk,
    pub down_until: u64,
    pub ledger: Ledger,
    /// What the log does not have, and since when.
    pub held: Held,
    pub held_since: BTreeMap<CallId, u64>,
    pub forgot: u64,
    pub kept_late: u64,
    /// When each living attempt was heard last, and each call's client.
    pub heard: BTreeMap<AttemptId, u64>,
    pub asked: BTreeMap<CallId, u64>,
    /// In a thousand records after which it dies.
    pub dies: u64,
    pub died: u64,
    pub refused_full: u64,
    pub false_alarms: u64,
    pub expired: u64,
}

/// It died.
struct Dead;

impl Server {
    pub fn is_up(&self, now: u64) -> bool {
        self.down_until <= now
    }

    pub fn die(&mut self, now: u64, for_ticks: u64) {
        self.died += 1;
        self.down_until = now + 1 + for_ticks;
        self.check_log();
        self.heard.clear();
        self.asked.clear();
        self.forgot += self.held.calls().count() as u64;
        self.held = Held::default();
        self.held_since.clear();
        self.ledger = self.replayed();
        self.ledger.begin_anew(self.died);
        // What lies there of calls that it forgot goes.
        let known: Vec<CallId> = self.ledger.calls().map(|call| call.id).collect();
        let disk = &mut self.disk;
        disk.arguments.retain(|call, _| known.contains(call));
        disk.results
            .retain(|attempt, _| known.contains(&attempt.call));
        disk.images.retain(|(call, _), _| known.contains(call));
    }

    /// What it knows is what the log says, at any moment, but for what is held.
    pub fn check_log(&self) {
        let (mut known, mut told) = (self.ledger.clone(), self.replayed());
        for ledger in [&mut known, &mut told] {
            // Of these, what is forgotten, and which process gave the number, is not recorded.
            ledger.last_passing = 0;
            for (_, client) in ledger
                .clients
                .iter_mut()
                .filter(|(number, _)| is_passing(**number))
            {
                client.closed = false;
                client.first_open = 1;
                client
                    .calls
                    .retain(|_, call| !matches!(call.stage, Stage::Done { .. }));
                client.calls.retain(|_, call| !self.held.is_held(call.id));
            }
            ledger
                .clients
                .retain(|number, client| !is_passing(*number) || !client.calls.is_empty());
        }
        assert_eq!(known, told);
    }

    pub fn replayed(&self) -> Ledger {
        let mut ledger = Ledger::default();
        for (index, line) in self.disk.log.iter().enumerate() {
            let record = Record {
                number: index as u64 + 1,
                event: Event::from_json(line.as_bytes()).unwrap(),
            };
            ledger.replay(&record).unwrap();
        }
        ledger
    }

    fn log(&mut self, noted: Vec<Noted>) {
        for one in noted {
            self.ledger.last_record += 1;
            self.disk.log.push(one.event.to_json());
        }
    }

    /// The call is recorded from now on. False: the disk is full, and what needs that does not happen.
    fn keep(&mut self, call: CallId) -> bool {
        if self.held.is_held(call) && self.disk.full {
            return false;
        }
        let noted = self.held.keep(call);
        self.log(noted);
        true
    }

    /// Those that last.
    fn keep_what_lasts(&mut self, now: u64) {
        let old = self
            .held_since
            .iter()
            .filter(|(_, since)| now - **since >= 2);
        let old: Vec<CallId> = old.map(|(call, _)| *call).collect();
        for call in old {
            if self.disk.full {
                return;
            }
            self.kept_late += u64::from(self.held.is_held(call));
            self.keep(call);
            self.held_since.remove(&call);
        }
    }

    /// All of the events or none. None: the disk is full.
    fn record(
        &mut self,
        now: u64,
        random: &mut Random,
        events: &[Event],
    ) -> Result<Option<()>, Dead> {
        if events.is_empty() {
            return Ok(Some(()));
        }
        if self.disk.full {
            self.refused_full += 1;
            return Ok(None);
        }
        for event in events {
            if let Err(illegal) = self.ledger.happen(event) {
                panic!("{illegal}: {event:?}");
            }
            if let Event::Call {
                call,
                event: CallEvent::Invoked(invocation),
            } = event
            {
                if is_passing(call.client) && invocation.blocks() <= 1 {
                    self.held.begin(*call);
                    self.held_since.insert(*call, now);
                }
            }
            let event = event.clone();
            let noted = self.held.take(Noted { event, at_ms: 0 });
            self.log(noted);
        }
        match random.in_thousand(self.dies) {
            true => {
                self.die(now, random.below(12));
                Err(Dead)
            }
            false => Ok(Some(())),
        }
    }

    pub fn client_says(
        &mut self,
        now: u64,
        random: &mut Random,
        net: &mut Net,
        (from, subject): (usize, &str),
        (message, block): (&FromClient, Option<Block>),
    ) {
        let call = message.call();
        let full = ToClient::Refused {
            call,
            refusal: Refusal::LogUnwritable,
        };
        if let Some(call) = call {
            self.asked.insert(call, now);
        }
        if let (FromClient::Block { call, number }, Some(block)) = (message, block) {
            if self.disk.full {
                self.refused_full += 1;
                return net.send(now, random, Packet::ToClient(from, full, None));
            }
            let wanted = self.call(*call).is_some_and(
                |call| matches!(call.stage, Stage::Transferring { blocks } if blocks == *number),
            );
            if wanted {
                // Said again after the server died before it was recorded: it takes the same place.
                let arguments = self.disk.arguments.entry(*call).or_default();
                arguments.truncate(*number as usize);
                arguments.push(block);
            }
        }
        let answer = respond::to_client(&self.ledger, subject, message);
        let say = match self.record(now, random, &answer.events) {
            Ok(Some(())) => answer.say,
            Ok(None) => full,
            Err(Dead) => return,
        };
        let part = match &say {
            ToClient::Part { call, number } => {
                let Some(Stage::Kept(kumiko_call::call::Outcome::Result { epoch, .. })) =
                    self.call(*call).map(|call| call.stage.clone())
                else {
                    panic!("a part is of a result");
                };
                let attempt = AttemptId { call: *call, epoch };
                Some(self.disk.results[&attempt][*number as usize])
            }
            _ => None,
        };
        net.send(now, random, Packet::ToClient(from, say, part));
    }

    pub fn host_says(
        &mut self,
        now: u64,
        random: &mut Random,
        net: &mut Net,
        from: usize,
        (message, made): (&FromHost, Option<Made>),
    ) {
        let attempt = message.attempt();
        // Bytes come before words: a disk that is full takes neither.
        if self.disk.full && made.is_some() {
            self.refused_full += 1;
            return;
        }
        if matches!(message, FromHost::Checkpoint { .. }) && !self.keep(attempt.call) {
            self.refused_full += 1;
            return;
        }
        match (made, message) {
            (Some(Made::Result(output)), _) => {
                self.disk.results.entry(attempt).or_insert(output);
            }
            (Some(Made::Checkpoint(image)), FromHost::Checkpoint { number, .. }) => {
                let (epoch, number) = (attempt.epoch, *number);
                let id = (attempt.call, CheckpointId { epoch, number });
                self.disk.images.entry(id).or_insert(image);
            }
            _ => {}
        }
        let living = self.call(attempt.call).and_then(Call::attempt);
        if living.is_some_and(|living| living.epoch == attempt.epoch) {
            self.heard.insert(attempt, now);
        }
        let answer = respond::to_host(&self.ledger, message);
        let trusted = |event: &&Event| {
            matches!(
                event,
                Event::Call {
                    event: CallEvent::Trusted { .. },
                    ..
                }
            )
        };
        self.false_alarms += answer.events.iter().filter(trusted).count() as u64;
        if let ToHost::Fence { attempt } = &answer.say {
            self.forget(*attempt);
        }
        if let Ok(Some(())) = self.record(now, random, &answer.events) {
            net.send(now, random, Packet::ToHost(from, answer.say, None));
        }
    }

    /// All that a fenced attempt made, but for the checkpoints that were recorded while it lived.
    fn forget(&mut self, attempt: AttemptId) {
        let call = self.call(attempt.call);
        let recorded = call.map_or(Vec::new(), |call| call.checkpoints.clone());
        self.disk.results.remove(&attempt);
        self.disk.images.retain(|(call, id), _| {
            *call != attempt.call || id.epoch != attempt.epoch || recorded.contains(id)
        });
    }

    fn call(&self, id: CallId) -> Option<&Call> {
        self.ledger.clients.get(&id.client)?.calls.get(&id.sequence)
    }

    /// Whatever the states ask for, and what the clock says.
    pub fn act(
        &mut self,
        now: u64,
        random: &mut Random,
        net: &mut Net,
        hosts: usize,
        routine_of: impl Fn(&str) -> usize,
    ) {
        self.keep_what_lasts(now);
        let calls: Vec<CallId> = self.ledger.calls().map(|call| call.id).collect();
        for id in calls {
            let Some(call) = self.call(id).cloned() else {
                continue;
            };
            if let Some(attempt) = call.attempt() {
                let attempt = call.attempt_id(attempt.epoch);
                let since = *self.heard.entry(attempt).or_insert(now);
                let silent_ms = (now - since) * crate::world::TICK_MS;
                if let Some(event) = respond::to_silence(&call, silent_ms) {
                    if self.record(now, random, &[event]).is_err() {
                        return;
                    }
                    continue;
                }
            }
            for action in decide(&call) {
                if self
                    .act_on(now, random, net, hosts, &call, action, &routine_of)
                    .is_err()
                {
                    return;
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a world is many things")]
    fn act_on(
        &mut self,
        now: u64,
        random: &mut Random,
        net: &mut Net,
        hosts: usize,
        call: &Call,
        action: Action,
        routine_of: &impl Fn(&str) -> usize,
    ) -> Result<(), Dead> {
        let host = |name: &str| name.parse::<usize>().unwrap();
        match action {
            Action::Place { avoid, .. } => {
                let mut chosen = random.below(hosts as u64).to_string();
                if Some(&chosen) == avoid.as_ref() {
                    chosen = ((host(&chosen) + 1) % hosts).to_string();
                }
                let event = respond::placed(call, &chosen).unwrap();
                self.record(now, random, &[event])?;
            }
            Action::Run {
                attempt,
                host: name,
                checkpoint,
            } if now % 3 == 0 => {
                let given = Given {
                    arguments: self
                        .disk
                        .arguments
                        .get(&call.id)
                        .cloned()
                        .unwrap_or_default(),
                    // It may be gone when the attempt has made two itself: then it began long ago.
                    image: checkpoint
                        .and_then(|one| self.disk.images.get(&(call.id, one)).copied()),
                    routine: routine_of(&call.invocation.routine),
                };
                let words = ToHost::Run {
                    attempt,
                    checkpoint,
                };
                net.send(now, random, Packet::ToHost(host(&name), words, Some(given)));
            }
            Action::Cancel {
                attempt,
                host: name,
            } if now % 3 == 0 => {
                let words = ToHost::Cancel { attempt };
                net.send(now, random, Packet::ToHost(host(&name), words, None));
            }
            Action::Leave {
                attempt,
                host: name,
            } if now % 3 == 0 => {
                let words = ToHost::Leave { attempt };
                net.send(now, random, Packet::ToHost(host(&name), words, None));
            }
            Action::Run { .. } | Action::Cancel { .. } | Action::Leave { .. } => {}
            Action::Expire { call: id, .. } => {
                let since = *self.asked.entry(id).or_insert(now);
                let absent_ms = (now - since) * crate::world::TICK_MS;
                if let Some(event) = respond::to_absence(call, absent_ms) {
                    self.expired += 1;
                    self.record(now, random, &[event])?;
                }
            }
            Action::Erase { call: id } => {
                self.disk.arguments.remove(&id);
                self.disk.results.retain(|attempt, _| attempt.call != id);
                self.disk.images.retain(|(call, _), _| *call != id);
            }
        }
        Ok(())
    }
}
