//! Standing by one guest until it ends, for a command that takes its place at a prompt: signals are passed on.
//! Not here: spools (kumiko-runner).

use crate::contract::{Launch, Room};
use crate::error::SandboxError;
use crate::guest::Ended;
use crate::limits::{Exceeded, Limiter};
use crate::relay::Relay;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::signals::{PASSED_ON, Signals, WINDOW_CHANGED};
use kumiko_policy::{Limits, Policy};
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Of who asks for other limits; the terminal's numbers are below.
const WISHES: u64 = 64;

/// Where other limits and decisions are asked for while a guest runs.
pub trait Wishes {
    /// Readable when there may be a wish.
    fn readable(&self) -> BorrowedFd<'_>;
    /// Does what is asked for, and answers whoever asks.
    fn hear(&mut self, of: &mut dyn Obey);
}

/// What can be asked for.
pub trait Obey {
    /// Those that hold; None: the guest began without any, and none are kept.
    fn limits(&self) -> Option<&Limits>;
    fn set_limits(&mut self, limits: &Limits);
    /// As [`Room::follow`].
    fn follow(&mut self, policy: &Policy) -> Result<Vec<String>, SandboxError>;
}

struct Attended<'a> {
    room: &'a mut dyn Room,
    limiter: Option<&'a mut Limiter>,
}

impl Obey for Attended<'_> {
    fn limits(&self) -> Option<&Limits> {
        self.limiter.as_deref().map(Limiter::limits)
    }

    fn set_limits(&mut self, limits: &Limits) {
        if let Some(limiter) = &mut self.limiter {
            limiter.set(limits);
        }
    }

    fn follow(&mut self, policy: &Policy) -> Result<Vec<String>, SandboxError> {
        self.room.follow(policy)
    }
}

/// How a guest came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub ended: Ended,
    /// It was ended for being over this limit.
    pub exceeded: Option<Exceeded>,
}

/// As [`attend`], without limits.
pub fn run(room: &mut dyn Room, launch: &Launch<'_>) -> Result<Ended, SandboxError> {
    Ok(attend(room, launch, &Policy::empty(), "", None)?.ended)
}

/// Starts a guest and waits for its end. INT, TERM, HUP, QUIT, USR1 and USR2 go to the guest's process group meanwhile
/// (call it with one thread only, others would take them); stopping and going on is between the shell and us.
///
/// A guest on a terminal is joined to this process's stdin and stdout, which are one too: every key is the guest's.
///
/// Limits are kept from the start; `wishes` is looked at whenever it is readable.
pub fn attend(
    room: &mut dyn Room,
    launch: &Launch<'_>,
    policy: &Policy,
    mechanism: &str,
    wishes: Option<&mut dyn Wishes>,
) -> Result<Ending, SandboxError> {
    let kernel = |error: std::io::Error| SandboxError::Kernel {
        step: "waiting for the guest",
        cause: error.to_string(),
    };
    // Held before the start: one that comes meanwhile reaches the guest too.
    let held: Vec<i32> = PASSED_ON.into_iter().chain([WINDOW_CHANGED]).collect();
    let signals = Signals::hold(&held).map_err(kernel)?;
    let mut guest = room.start(launch)?;
    let poll = Poll::new().map_err(kernel)?;
    poll.add(guest.pidfd(), 0, Interest::Read).map_err(kernel)?;
    poll.add(&signals, 1, Interest::Read).map_err(kernel)?;
    let mut relay = match guest.take_terminal() {
        Some(master) => Some(Relay::begin(master, &poll).map_err(kernel)?),
        None => None,
    };
    let limited = policy.limits != Limits::default();
    let mut limiter = limited.then(|| {
        let guests = [guest.pid()];
        let inside = room.inside();
        Limiter::begin(&policy.limits, policy.network(), mechanism, &guests, inside)
    });
    if let Some(wishes) = &wishes {
        poll.add(wishes.readable(), WISHES, Interest::Read)
            .map_err(kernel)?;
    }
    let mut wishes = wishes;
    let mut exceeded = None;
    loop {
        if let Some(ended) = guest.try_wait() {
            let killed = || limiter.as_ref().and_then(Limiter::killed);
            let exceeded = exceeded.or_else(killed);
            if let Some(relay) = relay {
                relay.finish();
            }
            return Ok(Ending { ended, exceeded });
        }
        let mut timeout = None;
        if let Some(limiter) = &mut limiter {
            let now = Instant::now();
            if limiter.due().is_some_and(|due| due <= now) && exceeded.is_none() {
                exceeded = limiter.tick(now, false);
                if exceeded.is_some() {
                    room.kill_all();
                }
            }
            let due = limiter.due().filter(|_| exceeded.is_none());
            timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
        }
        for event in poll.wait::<4>(timeout).map_err(kernel)? {
            if let (WISHES, Some(wishes)) = (event.token, &mut wishes) {
                wishes.hear(&mut Attended {
                    room,
                    limiter: limiter.as_mut(),
                });
            }
            if let Some(relay) = &mut relay {
                relay.hear(event, &poll).map_err(kernel)?;
            }
        }
        while let Some(signal) = signals.next() {
            match (signal, &relay) {
                (WINDOW_CHANGED, Some(relay)) => relay.resize(),
                (WINDOW_CHANGED, None) => {}
                _ => guest.signal(signal),
            }
        }
    }
}
