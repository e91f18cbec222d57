//! Standing by one guest until it ends, for a command that takes its place at a prompt: signals are passed on.
//! Not here: terminals of its own, spools (kumiko-runner).

use crate::contract::{Launch, Room};
use crate::error::SandboxError;
use crate::guest::Ended;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::signals::{PASSED_ON, Signals};

/// Starts a guest and waits for its end. INT, TERM, HUP, QUIT, USR1 and USR2 go to the guest's process group meanwhile
/// (call it with one thread only, others would take them); stopping and going on is between the shell and us.
pub fn run(room: &mut dyn Room, launch: &Launch<'_>) -> Result<Ended, SandboxError> {
    let kernel = |error: std::io::Error| SandboxError::Kernel {
        step: "waiting for the guest",
        cause: error.to_string(),
    };
    // Held before the start: one that comes meanwhile reaches the guest too.
    let signals = Signals::hold(&PASSED_ON).map_err(kernel)?;
    let mut guest = room.start(launch)?;
    let poll = Poll::new().map_err(kernel)?;
    poll.add(guest.pidfd(), 0, Interest::Read).map_err(kernel)?;
    poll.add(&signals, 1, Interest::Read).map_err(kernel)?;
    loop {
        if let Some(ended) = guest.try_wait() {
            return Ok(ended);
        }
        // Which of the two woke us is seen by asking both.
        let _ = poll.wait::<2>(None).map_err(kernel)?;
        while let Some(signal) = signals.next() {
            guest.signal(signal);
        }
    }
}
