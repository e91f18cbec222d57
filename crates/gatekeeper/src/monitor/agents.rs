//! The agents of a site: which accounts have one, how it stands with each, and what waits for it (spec/monitor, M5 to
//! M7). Who may have one is `mapping`'s; when something happens, the monitor's loop says so.

use super::back_off::BackOff;
use super::child::Child;
use kumiko_identity::Dn;
use kumiko_linux::accounts::Account;
use kumiko_wire::monitor::{FromAgent, NotIntroduced, ToAgent};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connections that wait for an agent to begin. It takes them within a second of its start; more are told to come back.
const WAITING_MOST: usize = 64;

/// A connection on its way to an agent.
#[derive(Debug)]
pub(super) struct Introduction {
    pub subject: Dn,
    pub stream: OwnedFd,
}

#[derive(Debug)]
pub(super) struct Agent {
    pub account: Account,
    standing: Standing,
    back_off: BackOff,
    waiting: Vec<Introduction>,
}

#[derive(Debug)]
enum Standing {
    /// It runs, and was given so many connections. `leaving`: it may go, and is given no more.
    Up {
        child: Child,
        given: u64,
        leaving: bool,
    },
    /// It ended unasked, and is started again then.
    Down { until: Instant },
}

/// What the loop is to do after an agent has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing is left to do for the account.
    Forget,
    /// Start it again at `Agent::due`.
    StartAgain,
}

impl Agent {
    /// Of a process that was started.
    pub fn up(account: Account, child: Child) -> Agent {
        Agent {
            account,
            standing: up(child),
            back_off: BackOff::default(),
            waiting: Vec::new(),
        }
    }

    /// Of one that could not be.
    pub fn down(account: Account, now: Instant) -> Agent {
        let mut back_off = BackOff::default();
        let until = now + back_off.ended(Duration::ZERO);
        Agent {
            account,
            standing: Standing::Down { until },
            back_off,
            waiting: Vec::new(),
        }
    }

    pub fn child(&self) -> Option<&Child> {
        match &self.standing {
            Standing::Up { child, .. } => Some(child),
            Standing::Down { .. } => None,
        }
    }

    pub fn child_mut(&mut self) -> Option<&mut Child> {
        match &mut self.standing {
            Standing::Up { child, .. } => Some(child),
            Standing::Down { .. } => None,
        }
    }

    /// When it is to be started again.
    pub fn due(&self) -> Option<Instant> {
        match &self.standing {
            Standing::Up { .. } => None,
            Standing::Down { until } => Some(*until),
        }
    }

    /// Hands a connection on, or keeps it until the agent has begun.
    pub fn give(&mut self, introduction: Introduction) -> Result<(), NotIntroduced> {
        match &mut self.standing {
            Standing::Up {
                child,
                given,
                leaving: false,
            } => {
                send(child, &introduction).map_err(|cause| {
                    tracing::warn!(account = %self.account.name, %cause, "the agent takes nothing");
                    NotIntroduced::Busy
                })?;
                *given += 1;
                Ok(())
            }
            Standing::Down { .. } if self.back_off.is_failing() => Err(NotIntroduced::Failing),
            _ if self.waiting.len() >= WAITING_MOST => Err(NotIntroduced::Busy),
            _ => {
                self.waiting.push(introduction);
                Ok(())
            }
        }
    }

    /// It says something. True: it may go, and was told so.
    pub fn hear(&mut self, message: FromAgent) -> bool {
        let FromAgent::Idle { taken } = message;
        match &mut self.standing {
            Standing::Up {
                child,
                given,
                leaving: leaving @ false,
            } if *given == taken => {
                *leaving = child.line.send(&ToAgent::Go.encode(), None).is_ok();
                *leaving
            }
            _ => false, // something is on its way to it
        }
    }

    /// Its process has ended.
    pub fn ended(&mut self, now: Instant) -> After {
        let Standing::Up { child, leaving, .. } = &self.standing else {
            return After::StartAgain;
        };
        let wait = match leaving {
            true if self.waiting.is_empty() => return After::Forget,
            true => Duration::ZERO,
            false => self
                .back_off
                .ended(now.saturating_duration_since(child.begun)),
        };
        self.standing = Standing::Down { until: now + wait };
        After::StartAgain
    }

    /// It runs again: it is given what has waited.
    pub fn started(&mut self, child: Child) {
        self.standing = up(child);
        for introduction in std::mem::take(&mut self.waiting) {
            // One that is not taken breaks off, and comes again.
            let _ = self.give(introduction);
        }
    }

    /// It could not be started.
    pub fn not_started(&mut self, now: Instant) {
        let wait = self.back_off.ended(Duration::ZERO);
        self.standing = Standing::Down { until: now + wait };
        if self.back_off.is_failing() {
            self.waiting.clear();
        }
    }
}

fn up(child: Child) -> Standing {
    Standing::Up {
        child,
        given: 0,
        leaving: false,
    }
}

fn send(child: &Child, introduction: &Introduction) -> io::Result<()> {
    let message = ToAgent::Connection {
        subject: introduction.subject.to_string(),
    };
    let stream = introduction.stream.as_fd();
    child.line.send(&message.encode(), Some(stream))
}

/// By the names of their accounts.
pub(super) type Agents = HashMap<String, Agent>;
