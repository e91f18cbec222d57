//! One stream in full flow over paths of some length and breadth: how far its window grows, and how much of it is given.

use super::{Core, Role};
use crate::Options;
use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::INITIAL_CREDIT_BYTES;
use std::collections::VecDeque;
use std::ops::Range;
use std::task::{Poll, Waker};

const STEP_US: u64 = 50;

/// One direction: what is under way, with when it arrives.
struct Pipe {
    one_way_us: u64,
    bytes_per_ms: u64,
    /// It is busy with what was written until then.
    busy_us: u64,
    under_way: VecDeque<(u64, BytesMut)>,
}

impl Pipe {
    fn new(one_way_us: u64, bytes_per_ms: u64) -> Pipe {
        Pipe {
            one_way_us,
            bytes_per_ms,
            busy_us: 0,
            under_way: VecDeque::new(),
        }
    }

    fn take(&mut self, from: &mut Core, now_us: u64) {
        while self.busy_us <= now_us {
            let mut written = BytesMut::new();
            from.fill(&mut written, 1);
            if written.is_empty() {
                return;
            }
            let lasts_us = written.len() as u64 * 1000 / self.bytes_per_ms;
            self.busy_us = self.busy_us.max(now_us - STEP_US.min(now_us)) + lasts_us;
            self.under_way
                .push_back((self.busy_us + self.one_way_us, written));
        }
    }

    fn give(&mut self, to: &mut Core, input: &mut BytesMut, now_us: u64) {
        while self.under_way.front().is_some_and(|(at, _)| *at <= now_us) {
            let (_, bytes) = self.under_way.pop_front().expect("there is a front");
            input.unsplit(bytes);
        }
        to.on_bytes(input);
    }
}

/// The window of a reader that never waits, and how many bytes it has read, after `for_us`.
fn flow(one_way_us: u64, bytes_per_ms: u64, for_us: u64) -> (u32, usize) {
    let (client, came) = flow_beside(None, one_way_us, bytes_per_ms, for_us);
    (client.streams[&1].window, came)
}

/// The reader, and how many bytes of its bulk stream it has read, after `for_us`; within the times of `quick` a second
/// stream has a small message each 10 ms.
fn flow_beside(
    quick: Option<Range<u64>>,
    one_way_us: u64,
    bytes_per_ms: u64,
    for_us: u64,
) -> (Core, usize) {
    let core = |role| Core::new(role, Options::default(), [1; 16], [2; 16]);
    let (mut client, mut server) = (core(Role::Client), core(Role::Server));
    let pipe = || Pipe::new(one_way_us, bytes_per_ms);
    let (mut up, mut down) = (pipe(), pipe());
    let (mut client_input, mut server_input) = (BytesMut::new(), BytesMut::new());
    let (data, mut came) = (Bytes::from(vec![0; 32 << 10]), 0);
    client.greet();
    let mut greeted = false;
    for now_us in (0..for_us).step_by(STEP_US as usize) {
        client.set_now(now_us);
        server.set_now(now_us);
        up.take(&mut client, now_us);
        if greeted {
            while let Poll::Ready(Ok(())) =
                server.poll_send(1, 0, [&mut Bytes::new(), &mut data.clone()], Waker::noop())
            {
            }
            let is_quick = quick.as_ref().is_some_and(|times| times.contains(&now_us));
            if is_quick && server.last_stream == 2 && now_us % 10_000 == 0 {
                let small = [&mut Bytes::new(), &mut data.slice(..1)];
                let sent = server.poll_send(2, 0, small, Waker::noop());
                assert!(matches!(sent, Poll::Ready(Ok(()))));
            }
            down.take(&mut server, now_us);
        } else if now_us >= one_way_us {
            greeted = server.welcome(None).is_ok();
            // HELLO is the acceptor's to read; nothing else was written.
            up.under_way.clear();
        }
        up.give(&mut server, &mut server_input, now_us);
        down.give(&mut client, &mut client_input, now_us);
        if client.last_stream == 0 && client.welcomed {
            for id in [1, 2] {
                let opened = client.poll_open(&Bytes::from_static(b"x"), Waker::noop());
                assert!(matches!(opened, Poll::Ready(Ok(opened)) if opened == id));
            }
        }
        let mut parts = VecDeque::new();
        while let Poll::Ready(Ok(Some(part))) = client.poll_recv(1, &mut parts, Waker::noop()) {
            parts.push_back(part);
        }
        came += parts.iter().map(|part| part.data.len()).sum::<usize>();
        while client.poll_recv(2, &mut parts, Waker::noop()).is_ready() && client.last_stream == 2 {
        }
        assert!(client.is_over().is_none(), "{:?}", client.is_over());
    }
    (client, came)
}

/// What the sender of the bulk stream may send that is not read yet.
fn given(client: &Core) -> u64 {
    client.streams[&1].granted - client.streams[&1].read
}

#[test]
fn a_window_grows_to_what_a_long_path_holds_and_no_further() {
    let most = Options::default().stream_credit_bytes;
    let (window, came) = flow(50_000, 100_000, 3_000_000);
    assert_eq!(window, most, "100 ms and 100 MB/s, {came} bytes");
    // A path of 10 ms and 1 MB/s holds 10 kB.
    let (window, came) = flow(5_000, 1_000, 3_000_000);
    assert!(window <= 4 * INITIAL_CREDIT_BYTES, "{window}");
    assert!(came > 2_800_000, "{came} bytes");
}

#[test]
fn a_window_grows_where_the_reader_is_fast() {
    let (window, _) = flow(0, 1_000_000, 200_000);
    assert_eq!(window, Options::default().stream_credit_bytes);
}

#[test]
fn beside_small_messages_no_more_is_under_way_than_a_short_path_needs() {
    let most = u64::from(Options::default().stream_credit_bytes);
    let easy = u64::from(4 * INITIAL_CREDIT_BYTES);
    let (client, came) = flow_beside(Some(0..600_000), 50, 500_000, 600_000);
    assert_eq!(u64::from(client.streams[&1].window), most);
    assert!(given(&client) <= easy, "{} of {easy}", given(&client));
    assert!(came > 200_000_000, "{came} bytes");
    // They were the last for a while.
    let (client, _) = flow_beside(Some(0..600_000), 50, 500_000, 2_000_000);
    assert!(given(&client) > easy, "{} of {easy}", given(&client));
}

#[test]
fn beside_small_messages_a_long_path_stays_full() {
    let (_, alone) = flow(50_000, 100_000, 3_000_000);
    let (_, beside) = flow_beside(Some(0..3_000_000), 50_000, 100_000, 3_000_000);
    assert!(beside >= alone / 100 * 98, "{beside} of {alone} bytes");
}
