//! Calls that move data of a socket, where the library keeps the rate of the network (spec/policy P92): each is made as the
//! guest wants it, and then waits for what it moved. Not in it: how long (rate.rs).

use crate::gate::{ASK, Call, Done, call, nr, told};
use crate::layout::SHARED;
use crate::rate::{Shared, WORDS, Way};
use core::sync::atomic::AtomicU64;

/// Who waits looks as often whether there is another rate by now.
const GLANCE_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;

pub fn moved(asked: &Call) -> Done {
    let rate = shared().rate();
    if rate == 0 {
        return ASK;
    }
    let arguments = [
        asked.rdi, asked.rsi, asked.rdx, asked.r10, asked.r8, asked.r9,
    ];
    // SAFETY: what the guest wants, as it wants it.
    let got = unsafe { call(asked.number, arguments) };
    if got > 0 {
        if let Some(way) = way(asked) {
            let bytes = bytes(asked, got as u64);
            wait(shared().until(way, bytes, now()), rate);
        }
    }
    told(got)
}

fn shared() -> Shared<'static> {
    // SAFETY: mapped before the program began, for as long as it runs, at a page's begin.
    Shared::new(unsafe { &*(SHARED as *const [AtomicU64; WORDS]) })
}

/// None: it has moved nothing over a network.
fn way(asked: &Call) -> Option<Way> {
    const PEEK: u64 = 2;
    let flags = match asked.number {
        nr::RECVMSG => asked.rdx,
        nr::RECVFROM | nr::RECVMMSG => asked.r10,
        _ => 0,
    };
    let on = |fd, way| is_internet(fd).then_some(way);
    match asked.number {
        _ if flags & PEEK != 0 => None,
        nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG => {
            on(asked.rdi, Way::Received)
        }
        // From a pipe, or to one.
        nr::SPLICE => on(asked.rdi, Way::Received).or_else(|| on(asked.rdx, Way::Sent)),
        _ => on(asked.rdi, Way::Sent),
    }
}

fn is_internet(fd: u64) -> bool {
    const SOL_SOCKET: u64 = 1;
    const SO_DOMAIN: u64 = 39;
    let (mut domain, mut length) = (0u32, 4u32);
    let (to, its) = (&raw mut domain as u64, &raw mut length as u64);
    // SAFETY: the kernel writes to these two.
    let done = unsafe { call(nr::GETSOCKOPT, [fd, SOL_SOCKET, SO_DOMAIN, to, its, 0]) };
    done == 0 && matches!(domain, 2 | 10)
}

/// Of many messages at once the call tells how many there were, and each how long it was (struct mmsghdr).
fn bytes(asked: &Call, got: u64) -> u64 {
    const MESSAGE: u64 = 64;
    const LENGTH: u64 = 56;
    match asked.number {
        nr::SENDMMSG | nr::RECVMMSG => (0..got)
            // SAFETY: the kernel has just written there.
            .map(|at| unsafe { ((asked.rsi + at * MESSAGE + LENGTH) as *const u32).read_unaligned() })
            .fold(0, |sum, length| sum + u64::from(length)),
        _ => got,
    }
}

const MONOTONIC: u64 = 1;

fn now() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel fills in a struct timespec.
    unsafe {
        call(
            nr::CLOCK_GETTIME,
            [MONOTONIC, time.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    let [seconds, nanoseconds] = time;
    seconds * SECOND_NS + nanoseconds
}

/// A handler of a signal runs meanwhile; the waiting goes on after it.
fn wait(until: u64, rate: u64) {
    const ABSOLUTE: u64 = 1;
    loop {
        let now = now();
        if now >= until || shared().rate() != rate {
            return;
        }
        let end = until.min(now + GLANCE_NS);
        let end = [end / SECOND_NS, end % SECOND_NS];
        // SAFETY: the kernel reads a struct timespec.
        unsafe {
            call(
                nr::CLOCK_NANOSLEEP,
                [MONOTONIC, ABSOLUTE, end.as_ptr() as u64, 0, 0, 0],
            )
        };
    }
}
