//! One history: a world from a seed, its faults for a while, then quiet; and what must be true in the end.

use crate::clients::{Client, Had, Wish};
use crate::hosts::{Host, Routine};
use crate::net::{Net, Packet};
use crate::random::Random;
use crate::server::Server;
use kumiko_call::call::Stage;
use kumiko_call::client::NoResult;
use kumiko_call::event::{CallEvent, End, Event, Failure};
use kumiko_call::id::CallId;
use std::cmp::Ordering;
use std::collections::BTreeMap;

pub const TICK_MS: u64 = 500;
pub const BLOCK_BYTES: u64 = 8;
/// From then on nothing fails.
pub const QUIET: u64 = 240;
/// And by then everything is over: each of some calls may lose hosts for so long as eight attempts take.
const END: u64 = QUIET + 2000;

pub struct World {
    pub told: Vec<String>,
    pub counted: BTreeMap<&'static str, u64>,
}

struct Play {
    seed: u64,
    random: Random,
    net: Net,
    server: Server,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    routines: Vec<Routine>,
    /// In a thousand ticks: how often each kind of fault happens in this history.
    faults: [u64; 8],
    counted: BTreeMap<&'static str, u64>,
}

impl World {
    pub fn run(seed: u64) -> World {
        let mut play = Play::new(seed);
        let mut now = 0;
        // When the clients have what they want, the server tidies up.
        let mut idle = 0;
        while now < QUIET || idle < 2 {
            idle += u32::from(play.is_over() && play.server.is_up(now));
            now += 1;
            assert!(now < END, "seed {seed}: a hang: {:?}", play.server.ledger);
            play.tick(now);
        }
        play.check();
        World {
            told: play.server.disk.log.clone(),
            counted: play.counted,
        }
    }
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut random = Random(seed);
        let routines: Vec<Routine> = (0..3)
            .map(|_| {
                let steps = 1 + random.below(60);
                Routine {
                    steps,
                    out_blocks: random.below(4),
                    checkpoint_every: (random.below(3) > 0).then(|| 1 + random.below(15)),
                    crashes_at: random.in_thousand(150).then(|| random.below(steps)),
                }
            })
            .collect();
        let clients = (0..1 + random.below(2) as usize).map(|index| {
            let wishes = (0..1 + random.below(3)).map(|_| {
                let begins = 1 + random.below(60);
                let cancels = random.in_thousand(100).then(|| begins + random.below(80));
                // A month, or less than a cut may last.
                let keep_ms = if random.in_thousand(100) {
                    20_000
                } else {
                    2_678_400_000
                };
                let routine = random.below(3) as usize;
                Wish::new(begins, cancels, routine, random.below(5), keep_ms)
            });
            let wishes = wishes.collect();
            Client::new(index, random.below(2) == 0, wishes)
        });
        let clients: Vec<Client> = clients.collect();
        let hosts: Vec<Host> = (0..2 + random.below(2)).map(|_| Host::default()).collect();
        // Some histories are calm in some respect, so that rare meetings of others show.
        let mut often = |most: u64| {
            if random.below(3) == 0 {
                0
            } else {
                random.below(most)
            }
        };
        let faults = [0; 8].map(|_: u64| often(30));
        let net = Net {
            loses: often(200),
            doubles: often(200),
            delays: often(100),
            cut_hosts: vec![0; hosts.len()],
            cut_clients: vec![0; clients.len()],
            ..Net::default()
        };
        let mut server = Server {
            dies: often(60),
            ..Server::default()
        };
        server.ledger.begin_anew(0);
        Play {
            seed,
            random,
            net,
            server,
            hosts,
            clients,
            routines,
            faults,
            counted: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.counted.entry(what).or_default() += count;
        }
    }

    fn fail(&mut self, now: u64) {
        let random = &mut self.random;
        let faults = self.faults;
        let mut happens = |fault: usize| random.in_thousand(faults[fault]);
        let which: Vec<usize> = (0..faults.len()).filter(|fault| happens(*fault)).collect();
        for fault in which {
            let random = &mut self.random;
            let host = random.below(self.hosts.len() as u64) as usize;
            let client = random.below(self.clients.len() as u64) as usize;
            let until = now + 1 + random.below(50);
            match fault {
                0 if self.server.is_up(now) => self.server.die(now, random.below(20)),
                1 => {
                    self.hosts[host].die(until);
                    self.count("host died", 1);
                }
                2 => {
                    self.hosts[host].still_until = until;
                    self.count("host silent", 1);
                }
                3 => self.net.cut_hosts[host] = until,
                4 => self.net.cut_clients[client] = until,
                5 => self.clients[client].die(until),
                6 => self.server.disk.full = !self.server.disk.full,
                7 => {
                    let cause = "by somebody".to_owned();
                    let end = [End::Killed { cause }, End::Preempted, End::NoSpace];
                    let end = &end[random.below(3) as usize];
                    self.hosts[host].full = *end == End::NoSpace;
                    self.hosts[host].kill(end);
                }
                _ => {}
            }
        }
    }

    /// From here on nothing fails.
    fn calm(&mut self) {
        self.server.disk.full = false;
        self.server.dies = 0;
        (self.net.loses, self.net.doubles, self.net.delays) = (0, 0, 0);
        self.hosts.iter_mut().for_each(|host| host.full = false);
    }

    fn tick(&mut self, now: u64) {
        match now.cmp(&QUIET) {
            Ordering::Less => self.fail(now),
            Ordering::Equal => self.calm(),
            Ordering::Greater => {}
        }
        let (random, net) = (&mut self.random, &mut self.net);
        while let Some(packet) = net.arrive(now) {
            match packet {
                Packet::FromClient(from, message, block) => {
                    if self.server.is_up(now) {
                        let who = (from, self.clients[from].subject.as_str());
                        self.server
                            .client_says(now, random, net, who, (&message, block));
                    }
                }
                Packet::FromHost(from, message, made) => {
                    if self.server.is_up(now) {
                        self.server
                            .host_says(now, random, net, from, (&message, made));
                    }
                }
                Packet::ToClient(to, message, part) => {
                    let client = &mut self.clients[to];
                    if client.down_until <= now {
                        client.heard(now, random, net, &message, part);
                    }
                }
                // What comes while a host stands still is heard when it goes on.
                Packet::ToHost(to, message, given) => {
                    let host = &mut self.hosts[to];
                    if host.is_up(now) && !host.works(now) {
                        let later = host.still_until;
                        net.send(later, random, Packet::ToHost(to, message, given));
                    } else if host.works(now) {
                        host.heard(&message, given);
                    }
                }
            }
        }
        for client in &mut self.clients {
            if client.down_until <= now {
                client.step(now, random, net);
            }
        }
        if self.server.is_up(now) {
            let routine_of = |name: &str| name.strip_prefix("m/").unwrap().parse().unwrap();
            let hosts = self.hosts.len();
            self.server.act(now, random, net, hosts, routine_of);
        }
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if !host.works(now) {
                continue;
            }
            let mut bad = random.clone();
            random.next();
            for (words, made) in host.step(now, &self.routines, || bad.in_thousand(60)) {
                net.send(now, random, Packet::FromHost(index, words, made));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(Client::is_over)
    }

    fn check(&mut self) {
        let seed = self.seed;
        self.server.check_log();
        let log: Vec<Event> = self
            .server
            .disk
            .log
            .iter()
            .map(|line| Event::from_json(line.as_bytes()).unwrap())
            .collect();
        for (index, client) in self.clients.iter().enumerate() {
            for (sequence, wish) in client.wishes.iter().enumerate() {
                let at = format!("seed {seed}, client {index}, call {}", sequence + 1);
                let [had] = wish.had.as_slice() else {
                    panic!("{at}: outcomes {:?}", wish.had);
                };
                let routine = &self.routines[wish.routine];
                let right = match had {
                    Had::Result(result) => {
                        *result == routine.result(&wish.arguments) && routine.crashes_at.is_none()
                    }
                    Had::None(NoResult::Failed(failure)) => match failure {
                        Failure::Crashes { point, .. } => routine.crashes_at == Some(*point),
                        Failure::Cancelled => wish.cancels.is_some(),
                        Failure::Fruitless { .. } => true,
                        Failure::Raised { .. } | Failure::TimeLimit | Failure::Refused { .. } => {
                            false
                        }
                    },
                    Had::None(NoResult::Expired) => wish.keep_ms < 60_000,
                    Had::None(NoResult::NoArguments) => client.died > 0,
                    // Nobody else took it; and a refusal is for one who attached before anything was said.
                    Had::None(NoResult::Taken) => false,
                    Had::None(NoResult::Refused(_)) => client.died > 0,
                };
                assert!(right, "{at}: {had:?} of {routine:?}");
            }
        }
        check_log(seed, &log);
        // Of a call that is done nothing is left, whatever a fenced attempt brought since.
        let disk = &self.server.disk;
        let left = disk.arguments.keys().copied();
        let left = left.chain(disk.results.keys().map(|attempt| attempt.call));
        for call in left.chain(disk.images.keys().map(|(call, _)| *call)) {
            let mut known = self.server.ledger.calls();
            let known = known.find(|known| known.id == call);
            let kept = known.is_some_and(|known| !matches!(known.stage, Stage::Done { .. }));
            assert!(kept, "seed {seed}: left on the disk of {call}: {known:?}");
        }
        let had = self.clients.iter().flat_map(|client| &client.wishes);
        let had: Vec<&'static str> = had
            .flat_map(|wish| &wish.had)
            .map(|had| match had {
                Had::Result(_) => "results",
                Had::None(NoResult::Failed(Failure::Crashes { .. })) => "crashes told",
                Had::None(NoResult::Failed(Failure::Cancelled)) => "cancelled",
                Had::None(NoResult::Failed(_)) => "fruitless",
                Had::None(NoResult::Expired) => "expired",
                Had::None(_) => "given up",
            })
            .collect();
        had.into_iter().for_each(|what| self.count(what, 1));
        let sum = |of: fn(&Host) -> u64, hosts: &[Host]| hosts.iter().map(of).sum::<u64>();
        let rows = [
            ("fenced", sum(|host| host.fenced, &self.hosts)),
            (
                "resumed from a checkpoint",
                sum(|host| host.resumed, &self.hosts),
            ),
            (
                "bad checkpoint",
                sum(|host| host.bad_checkpoints, &self.hosts),
            ),
            ("server died", self.server.died),
            ("disk full", self.server.refused_full),
            ("forgotten in memory", self.server.forgot),
            ("recorded after a while", self.server.kept_late),
            (
                "begun anew",
                self.clients.iter().map(|client| client.anew).sum(),
            ),
            ("false alarm", self.server.false_alarms),
            (
                "client died",
                self.clients.iter().map(|client| client.died).sum(),
            ),
            ("message lost", self.net.lost),
            ("message twice", self.net.twice),
        ];
        rows.into_iter()
            .for_each(|(what, count)| self.count(what, count));
    }
}

/// Of each call: one end with a result at most, one outcome, and never more than two crashes at one point.
fn check_log(seed: u64, log: &[Event]) {
    let mut results: BTreeMap<CallId, u32> = BTreeMap::new();
    let mut crashes: BTreeMap<(CallId, u64), u32> = BTreeMap::new();
    for event in log {
        let Event::Call { call, event } = event else {
            continue;
        };
        if let CallEvent::AttemptEnded { end, .. } = event {
            match end {
                End::Finished { .. } => *results.entry(*call).or_default() += 1,
                End::Crashed { point, .. } => *crashes.entry((*call, *point)).or_default() += 1,
                _ => {}
            }
        }
    }
    assert!(results.values().all(|count| *count == 1), "seed {seed}");
    assert!(crashes.values().all(|count| *count <= 2), "seed {seed}");
}
