//! Standing by one guest until it ends, for a command that takes its place at a prompt: signals are passed on.
//! Not here: spools (kumiko-runner).

use crate::contract::{Launch, Room};
use crate::error::SandboxError;
use crate::guest::Ended;
use crate::relay::Relay;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::signals::{PASSED_ON, Signals, WINDOW_CHANGED};

/// Starts a guest and waits for its end. INT, TERM, HUP, QUIT, USR1 and USR2 go to the guest's process group meanwhile
/// (call it with one thread only, others would take them); stopping and going on is between the shell and us.
///
/// A guest on a terminal is joined to this process's stdin and stdout, which are one too: every key is the guest's.
pub fn run(room: &mut dyn Room, launch: &Launch<'_>) -> Result<Ended, SandboxError> {
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
    loop {
        if let Some(ended) = guest.try_wait() {
            if let Some(relay) = relay {
                relay.finish();
            }
            return Ok(ended);
        }
        for event in poll.wait::<4>(None).map_err(kernel)? {
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
