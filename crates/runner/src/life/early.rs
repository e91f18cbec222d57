//! What an attempt hears before its guests run (spec/jobs/runner.md, R16): what is not for its start is kept for them.

use super::{EVENTS, Life, token};
use crate::start::{Meanwhile, NotReleased};
use kumiko_job::attempt::AttemptCommand;
use kumiko_linux::poll::Interest;
use kumiko_policy::Policy;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

impl Meanwhile for Life {
    fn hold(&mut self, alone: Duration) -> Result<Option<Policy>, NotReleased> {
        self.facts.held = true;
        let held = self.until_released(alone);
        self.facts.held = false;
        // One that cannot be read is told of when the guests are to follow it.
        held.map(|()| self.spool.policy().ok().flatten())
    }

    fn until_ended(&mut self, process: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
        self.poll.add(process, token::GUEST, Interest::Read)?;
        let ended = self.ends_while_wanted(Instant::now() + within);
        self.poll.remove(process)?;
        ended
    }

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        self.ends_while_wanted(Instant::now() + time).map(|_| ())
    }

    fn tell(&self, what: &str) {
        self.spool.log(what);
    }

    fn is_cancelled(&self) -> bool {
        let cancel = |command: &AttemptCommand| matches!(command, AttemptCommand::Cancel { .. });
        self.early.iter().any(cancel)
    }
}

impl Life {
    fn until_released(&mut self, alone: Duration) -> Result<(), NotReleased> {
        let mut connected = Instant::now();
        loop {
            let left = match self.control.connected() {
                true => None,
                false => match alone.checked_sub(connected.elapsed()) {
                    Some(left) => Some(left),
                    None => return Err(NotReleased::Alone(alone)),
                },
            };
            self.hear_early(left).map_err(NotReleased::Poll)?;
            if self.control.connected() {
                connected = Instant::now();
            }
            if self.is_cancelled() {
                return Err(NotReleased::Cancelled);
            }
            let before = self.early.len();
            self.early.retain(|one| *one != AttemptCommand::Release);
            if self.early.len() < before {
                return Ok(());
            }
        }
    }

    /// The process that is watched as a guest has.
    fn ends_while_wanted(&mut self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.hear_early(Some(left))? {
                return Ok(true);
            }
            if self.is_cancelled() || left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Takes what comes next; true: also of the process that is watched as a guest.
    fn hear_early(&mut self, within: Option<Duration>) -> io::Result<bool> {
        self.control.tell(&self.facts, &self.poll);
        let mut guest = false;
        for event in self.poll.wait::<EVENTS>(within)? {
            match event.token {
                token::LISTENER => self.control.accept(&self.poll),
                token::GUEST => guest = true,
                _ => {
                    let early = &mut self.early;
                    if let Err(complaint) = self.control.hear(|command| early.push(command)) {
                        self.spool.log(&format!("the site was let go: {complaint}"));
                    }
                }
            }
        }
        Ok(guest)
    }
}
