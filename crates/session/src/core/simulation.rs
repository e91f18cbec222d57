//! Seeded histories of two cores and the link between them: cuts at any byte, noticed by either side at any time,
//! slow readers, streams given up. Whatever happens, each stream's messages arrive once, in order and whole, memory
//! stays bounded, and nobody is accused. A failure names its seed; `history(seed)` repeats it.

use super::{Core, Phase, Role};
use crate::{Options, SessionError};
use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::{self, Frame, PART_BYTES, reset::TOO_MANY_STREAMS};
use std::collections::{BTreeMap, VecDeque};
use std::task::{Poll, Waker};

const HISTORIES: u64 = 10_000;
const STEPS: u32 = 200;
const STREAMS: usize = 12;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// The messages of one direction of a stream, the same for who sends and who checks.
struct Script {
    random: Random,
    text: Bytes,
}

impl Script {
    fn of(seed: u64, stream: u32, role: Role, text: &Bytes) -> Script {
        let random = Random(seed ^ (u64::from(stream) << 32) ^ ((role as u64) << 63));
        Script {
            random,
            text: text.clone(),
        }
    }
    fn message(&mut self) -> (u8, Bytes) {
        let most = [0, 20, 20, 500, 500, 5_000, PART_BYTES, 100_000][self.random.below(8)];
        let (start, length) = (self.random.below(1000), self.random.below(most + 1));
        (
            self.random.next() as u8,
            self.text.slice(start..start + length),
        )
    }
}

/// One user of one half.
struct Writer {
    script: Script,
    current: Option<(u8, Bytes)>,
    left: u32,
    /// Set when it ended: how many messages it has sent whole, and whether it gave up.
    ended: Option<Option<u32>>,
}

struct Reader {
    script: Script,
    current: Option<(u8, Bytes)>,
    messages: u32,
    sleepy: bool,
    ended: Option<Result<(), u32>>,
    stopped: bool,
}

struct Side {
    core: Core,
    input: BytesMut,
    writers: BTreeMap<u32, Writer>,
    readers: BTreeMap<u32, Reader>,
}

struct World {
    seed: u64,
    random: Random,
    text: Bytes,
    /// Client and server.
    sides: [Side; 2],
    /// From the client, from the server.
    pipes: [BytesMut; 2],
    now_us: u64,
    cuts: u32,
    /// The server has read HELLO of the connection that is.
    greeted: bool,
}

impl World {
    fn new(seed: u64, text: &Bytes) -> World {
        let mut random = Random(seed);
        let options = Options {
            max_streams: STREAMS as u32,
            session_buffer_bytes: 512 << 10,
            stream_credit_bytes: [70_000, 200_000, 1 << 20][random.below(3)],
            ..Options::default()
        };
        let side = |role| Side {
            core: Core::new(role, options.clone(), [1; 16], [2; 16]),
            input: BytesMut::new(),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
        };
        let mut world = World {
            seed,
            random,
            text: text.clone(),
            sides: [side(Role::Client), side(Role::Server)],
            pipes: [BytesMut::new(), BytesMut::new()],
            now_us: 0,
            cuts: 0,
            greeted: false,
        };
        world.sides[0].core.greet();
        world
    }

    fn admit(&mut self, side: usize, id: u32) {
        let (mine, other) = if side == 0 {
            (Role::Client, Role::Server)
        } else {
            (Role::Server, Role::Client)
        };
        let (left, sleepy) = (self.random.below(12) as u32, self.random.one_in(4));
        let script = |role| Script::of(self.seed, id, role, &self.text);
        let writer = Writer {
            script: script(mine),
            current: None,
            left,
            ended: None,
        };
        let reader = Reader {
            script: script(other),
            current: None,
            messages: 0,
            sleepy,
            ended: None,
            stopped: false,
        };
        self.sides[side].writers.insert(id, writer);
        self.sides[side].readers.insert(id, reader);
    }

    fn step(&mut self, calm: bool) {
        self.now_us += self.random.below(50_000) as u64;
        for side in &mut self.sides {
            side.core.set_now(self.now_us);
        }
        let side = self.random.below(2);
        match self.random.below(if calm { 12 } else { 13 }) {
            0 if !calm => {
                let opened = self.sides[0]
                    .core
                    .poll_open(&self.text.slice(..100), Waker::noop());
                if let Poll::Ready(Ok(id)) = opened {
                    self.admit(0, id);
                }
            }
            1..=4 => self.write(side, calm),
            5..=7 => self.read(side, calm),
            8..=9 => {
                let most = 1 + self.random.below(100_000);
                // What a server writes before it has noticed the cut goes nowhere.
                let mut nowhere = BytesMut::new();
                let dead = side == 1 && !self.greeted;
                let pipe = if dead {
                    &mut nowhere
                } else {
                    &mut self.pipes[side]
                };
                self.sides[side].core.fill(pipe, most);
            }
            10 | 11 => self.deliver(side),
            12 if self.random.one_in(3) => self.cut(),
            _ => {
                if self.sides[side].core.phase() == Phase::Up {
                    self.sides[side].core.tick();
                }
            }
        }
        if self.sides[0].core.phase() == Phase::Cut && (calm || self.random.one_in(5)) {
            self.sides[0].core.greet();
        }
        for side in &self.sides {
            let (core, windows) = (&side.core, core_windows(&side.core));
            assert!(core.is_over().is_none(), "{:?}", core.is_over());
            // The budget, and for each stream its unbudgeted end.
            let sending = core.queued_cost + core.retained_cost;
            assert!(
                sending <= core.options.session_buffer_bytes + 40_000,
                "{sending} bytes to send"
            );
            assert!(
                core.inbox_cost <= windows,
                "{} bytes unread of {windows}",
                core.inbox_cost
            );
        }
    }

    fn write(&mut self, side: usize, calm: bool) {
        let give_up = self.random.one_in(300).then_some(7);
        let Side { core, writers, .. } = &mut self.sides[side];
        let running: Vec<u32> = writers
            .iter()
            .filter(|(_, w)| w.ended.is_none())
            .map(|(&id, _)| id)
            .collect();
        if running.is_empty() {
            return;
        }
        let id = running[self.random.below(running.len())];
        let Some(writer) = writers.get_mut(&id) else {
            return;
        };
        if give_up.is_some() && !calm {
            core.end_sending(id, give_up);
            writer.ended = Some(give_up);
            return;
        }
        if writer.current.is_none() && writer.left == 0 {
            core.end_sending(id, None);
            writer.ended = Some(None);
            return;
        }
        let (kind, mut data) = writer
            .current
            .take()
            .unwrap_or_else(|| writer.script.message());
        loop {
            match core.poll_send(id, kind, [&mut Bytes::new(), &mut data], Waker::noop()) {
                Poll::Ready(Ok(())) if data.is_empty() => {
                    break writer.left = writer.left.saturating_sub(1);
                }
                Poll::Ready(Ok(())) => {}
                Poll::Pending => break writer.current = Some((kind, data)),
                Poll::Ready(Err(SessionError::Stopped {
                    code: 8 | TOO_MANY_STREAMS,
                })) => {
                    core.end_sending(id, None);
                    break writer.ended = Some(None);
                }
                Poll::Ready(Err(error)) => panic!("{error}"),
            }
        }
    }

    fn read(&mut self, side: usize, calm: bool) {
        let stop = self.random.one_in(300) && !calm;
        let wake = self.random.one_in(20) || calm;
        let Side { core, readers, .. } = &mut self.sides[side];
        let running: Vec<u32> = readers
            .iter()
            .filter(|(_, r)| r.ended.is_none())
            .map(|(&id, _)| id)
            .collect();
        if running.is_empty() {
            return;
        }
        let id = running[self.random.below(running.len())];
        let Some(reader) = readers.get_mut(&id) else {
            return;
        };
        if reader.sleepy && !wake {
            return;
        }
        if stop {
            core.end_receiving(id, 8);
            reader.stopped = true;
            reader.ended = Some(Ok(()));
            return;
        }
        let mut further = VecDeque::new();
        loop {
            let next = match further.pop_front() {
                Some(part) => Poll::Ready(Ok(Some(part))),
                None => core.poll_recv(id, &mut further, Waker::noop()),
            };
            match next {
                Poll::Pending => return,
                Poll::Ready(Ok(Some(part))) => {
                    let (kind, mut wanted) = reader
                        .current
                        .take()
                        .unwrap_or_else(|| reader.script.message());
                    assert_eq!(part.kind, kind, "stream {id}, message {}", reader.messages);
                    let found = wanted.split_to(part.data.len().min(wanted.len()));
                    assert!(
                        part.data == found,
                        "stream {id}, message {}",
                        reader.messages
                    );
                    assert_eq!(
                        part.more,
                        !wanted.is_empty(),
                        "stream {id}, message {}",
                        reader.messages
                    );
                    if part.more {
                        reader.current = Some((kind, wanted));
                    } else {
                        reader.messages += 1;
                    }
                }
                end => {
                    reader.ended = match end {
                        Poll::Ready(Err(SessionError::Reset { code })) => Some(Err(code)),
                        Poll::Ready(Ok(None)) => Some(Ok(())),
                        other => panic!("{other:?}"),
                    };
                    return core.end_receiving(id, 0);
                }
            }
        }
    }

    /// Some bytes reach the side that they are for.
    fn deliver(&mut self, from: usize) {
        let to = 1 - from;
        let length = match self.random.below(4) {
            0 => self.random.below(40),
            _ => self.random.below(60_000),
        };
        let pipe = &mut self.pipes[from];
        let bytes = pipe.split_to(length.min(pipe.len()));
        let side = &mut self.sides[to];
        side.input.extend_from_slice(&bytes);
        side.core.heard();
        if to == 1 && !self.greeted {
            match frame::decode(&mut side.input) {
                Ok(None) => return,
                Ok(Some(Frame::Hello(hello))) => {
                    side.core
                        .welcome(hello.resume)
                        .expect("the session can be resumed");
                    self.greeted = true;
                }
                other => panic!("{other:?}"),
            }
        }
        side.core.on_bytes(&mut side.input);
        for (id, request) in side.core.take_opened() {
            assert_eq!(request, self.text.slice(..100));
            self.admit(to, id);
        }
    }

    /// What is on its way is gone, from a byte on that chance names; the server may notice later, by the next HELLO.
    fn cut(&mut self) {
        if !self.sides[0].core.was_welcomed() || self.sides[0].core.phase() == Phase::Cut {
            return;
        }
        self.cuts += 1;
        // A last gasp in either direction.
        for from in 0..2 {
            if self.random.one_in(2) {
                self.deliver(from);
            }
        }
        let seen = self.random.one_in(2);
        for (side, pipe) in self.sides.iter_mut().zip(&mut self.pipes) {
            pipe.clear();
            side.input.clear();
            if side.core.role == Role::Client || seen {
                side.core.cut();
            }
        }
        self.greeted = false;
    }

    fn is_settled(&self) -> bool {
        self.sides.iter().all(|side| {
            side.writers.values().all(|writer| writer.ended.is_some())
                && side.readers.values().all(|reader| reader.ended.is_some())
                && !side.core.has_unwritten()
        }) && self.pipes.iter().all(BytesMut::is_empty)
    }
}

fn core_windows(core: &Core) -> u64 {
    core.streams
        .values()
        .map(|stream| u64::from(stream.window))
        .sum()
}

/// Returns the number of cuts and of messages that arrived.
fn history(seed: u64, text: &Bytes) -> (u32, u32) {
    let mut world = World::new(seed, text);
    for _ in 0..STEPS {
        world.step(false);
    }
    let mut calm_steps = 0;
    while !world.is_settled() {
        world.step(true);
        calm_steps += 1;
        assert!(calm_steps < 200_000, "the history does not settle");
    }
    let mut messages = 0;
    for side in 0..2 {
        for (id, reader) in &world.sides[side].readers {
            let ended = reader.ended.expect("settled");
            let Some(writer) = world.sides[1 - side].writers.get(id) else {
                assert!(
                    side == 0 && (reader.stopped || ended == Err(TOO_MANY_STREAMS)),
                    "stream {id} is not admitted"
                );
                continue;
            };
            if !reader.stopped {
                assert_eq!(
                    ended.err(),
                    writer.ended.expect("settled"),
                    "stream {id} ends as its writer said"
                );
                assert!(
                    writer.left == 0 || ended.is_err(),
                    "stream {id} arrives whole"
                );
            }
            messages += reader.messages;
        }
        let core = &world.sides[side].core;
        assert_eq!(core.streams.len(), 0, "all streams are forgotten");
        assert_eq!((core.queued_cost, core.inbox_cost), (0, 0));
        assert_eq!(
            core.pool, core.options.session_buffer_bytes,
            "all windows are given back"
        );
    }
    (world.cuts, messages)
}

#[test]
fn whatever_is_cut_each_stream_arrives_once_and_in_order() {
    let text: Bytes = (0..110_000u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let (mut cuts, mut messages) = (0, 0);
    for seed in 0..HISTORIES {
        let result = std::panic::catch_unwind(|| history(seed, &text));
        let Ok((more_cuts, more_messages)) = result else {
            panic!("seed {seed} fails")
        };
        cuts += u64::from(more_cuts);
        messages += u64::from(more_messages);
    }
    eprintln!("{HISTORIES} histories, {cuts} cuts, {messages} messages");
    assert!(cuts > 2 * HISTORIES && messages > 10 * HISTORIES);
}
