//! The monitor of a site for many accounts (spec/monitor): the one process of root. It starts the front and the agents
//! as their accounts, and introduces connections to agents. It looks up by itself who is mapped to what, hears a few
//! messages of fixed shape and believes none of them, and reads nothing that came over the network.
//!
//! One thread, no runtime: a fork of it is cheap and safe. Not here: what the programs are (the command's wiring).

mod agents;
mod back_off;
mod child;
mod mapping;
mod marks;

pub use mapping::{Accounts, AccountsError, Rules};

use agents::{After, Agent, Agents, Introduction};
use back_off::BackOff;
use child::Child;
use kumiko_linux::accounts::Account;
use kumiko_linux::groups::Groups;
use kumiko_linux::packets::Packet;
use kumiko_linux::poll::{Event, Interest, Poll};
use kumiko_linux::privileges::Terms;
use kumiko_linux::process::End;
use kumiko_linux::signals::Signals;
use kumiko_wire::monitor::{
    FromAgent, FromFront, MESSAGE_MOST_BYTES, MonitorMessageError, NotIntroduced, ToFront,
};
use mapping::Mapping;
use marks::Marks;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// After the word to end: the agents' own time to drain, and to close their logs.
const END_WITHIN: Duration = Duration::from_secs(15);
/// Messages of one process before the others are looked at.
const MESSAGES_AT_ONCE: usize = 64;

/// The program that is started as an account.
pub type Prepare<'a> = Box<dyn Fn(&Account) -> io::Result<Command> + 'a>;

/// What a monitor is given.
pub struct Setup<'a> {
    pub mapfile: PathBuf,
    pub accounts: Accounts,
    /// Accounts and groups below are never served.
    pub least_id: u32,
    /// Most accounts that have an agent at once.
    pub agents_most: usize,
    /// Processes and threads of an account at most.
    pub processes: Option<u64>,
    /// Where an account's processes are kept together.
    pub groups: Option<Groups>,
    /// A directory of root's for the marks of accounts whose agents have something to do.
    pub marks: PathBuf,
    pub front: Account,
    pub front_program: Prepare<'a>,
    pub agent_program: Prepare<'a>,
    /// Is called when clients can connect for the first time.
    pub ready: Box<dyn FnOnce() -> io::Result<()> + 'a>,
}

impl std::fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("mapfile", &self.mapfile)
            .field("front", &self.front.name)
            .finish_non_exhaustive()
    }
}

/// Why a monitor did not begin, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error("the marks of accounts in {path} cannot be used: {cause}")]
    Marks { path: PathBuf, cause: io::Error },
    #[error("the front's account {account} may not be root's: name another one, made for it alone")]
    FrontIsRoot { account: String },
    #[error("the front cannot be started as {account}: {cause}")]
    FrontNotStarted { account: String, cause: io::Error },
    #[error(
        "the front ended before it was ready ({how}); what it said stands above or in the site's log"
    )]
    FrontEnded { how: String },
    #[error("the site cannot be told to be up: {cause}")]
    Ready { cause: io::Error },
    #[error("waiting for processes and messages is not possible: {cause}")]
    Poll { cause: io::Error },
}

/// Starts the front, and serves until SIGTERM or SIGINT. To be called with one thread.
///
/// # Errors
/// The site could not be begun. Later failures are of one account or of the front, and are mended or told in the log.
pub fn run(setup: Setup<'_>) -> Result<(), MonitorError> {
    let poll = |cause| MonitorError::Poll { cause };
    let mut monitor = Monitor::new(setup)?;
    let signals = Signals::hold(&[SIGTERM, SIGINT]).map_err(poll)?;
    monitor
        .poll
        .add(&signals, SIGNALS, Interest::Read)
        .map_err(poll)?;
    monitor.start_front()?;
    while !monitor.is_over() {
        let timeout = monitor
            .next()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let events: Vec<Event> = monitor.poll.wait::<64>(timeout).map_err(poll)?.collect();
        for event in events {
            match event.token {
                SIGNALS => {
                    while signals.next().is_some() {
                        monitor.end();
                    }
                }
                FRONT_LINE => monitor.hear_front()?,
                FRONT_PROCESS => monitor.front_ended()?,
                token => monitor.agent_event(token),
            }
        }
        monitor.start_due();
    }
    Ok(())
}

const SIGNALS: u64 = 0;
const FRONT_LINE: u64 = 1;
const FRONT_PROCESS: u64 = 2;
/// Of agents: the line is even, the process odd.
const FIRST_AGENT: u64 = 4;

struct Monitor<'a> {
    setup: Setup<'a>,
    mapping: Mapping,
    marks: Marks,
    poll: Poll,
    front: Option<Child>,
    front_back_off: BackOff,
    front_due: Option<Instant>,
    /// Until it is called.
    ready: Option<Box<dyn FnOnce() -> io::Result<()> + 'a>>,
    agents: Agents,
    /// Of which account a token is.
    tokens: HashMap<u64, String>,
    next_token: u64,
    /// Since the word to end: what still runs then is killed.
    ending: Option<Instant>,
}

impl<'a> Monitor<'a> {
    fn new(mut setup: Setup<'a>) -> Result<Self, MonitorError> {
        if setup.front.uid == 0 {
            let account = setup.front.name;
            return Err(MonitorError::FrontIsRoot { account });
        }
        let marks = Marks::open(&setup.marks).map_err(|cause| MonitorError::Marks {
            path: setup.marks.clone(),
            cause,
        })?;
        let rules = Rules {
            least_id: setup.least_id,
            front: setup.front.uid,
        };
        let ready = std::mem::replace(&mut setup.ready, Box::new(|| Ok(())));
        Ok(Monitor {
            mapping: Mapping::new(setup.mapfile.clone(), setup.accounts.clone(), rules),
            marks,
            poll: Poll::new().map_err(|cause| MonitorError::Poll { cause })?,
            front: None,
            front_back_off: BackOff::default(),
            front_due: None,
            ready: Some(ready),
            agents: Agents::new(),
            tokens: HashMap::new(),
            next_token: FIRST_AGENT,
            ending: None,
            setup,
        })
    }

    fn start_front(&mut self) -> Result<(), MonitorError> {
        self.front_due = None;
        let account = &self.setup.front;
        let started = (self.setup.front_program)(account).and_then(|command| {
            let child = Child::start(command, account, Terms::default())?;
            self.poll.add(&child.line, FRONT_LINE, Interest::Read)?;
            self.poll
                .add(&child.process, FRONT_PROCESS, Interest::Read)?;
            Ok(child)
        });
        match started {
            Ok(child) => {
                tracing::info!(pid = child.pid, account = %account.name, "the front is started");
                self.front = Some(child);
            }
            Err(cause) if self.ready.is_some() => {
                let account = account.name.clone();
                return Err(MonitorError::FrontNotStarted { account, cause });
            }
            Err(cause) => {
                tracing::error!(%cause, "the front cannot be started again now");
                let wait = self.front_back_off.ended(Duration::ZERO);
                self.front_due = Some(Instant::now() + wait);
            }
        }
        Ok(())
    }

    /// Whatever the front says beyond its two messages ends it: a fresh one is believed no more, but starts clean.
    fn hear_front(&mut self) -> Result<(), MonitorError> {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(front) = &mut self.front else {
                return Ok(());
            };
            match hear(front, FromFront::decode) {
                Heard::Message(FromFront::Ready) => self.front_ready()?,
                Heard::Message(FromFront::Introduce { number, subject }) => {
                    let introduced = self.introduce(&subject);
                    self.answer(number, &subject, introduced);
                }
                Heard::Nothing => return Ok(()),
                Heard::NoMore => {
                    forget(&self.poll, front);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn front_ready(&mut self) -> Result<(), MonitorError> {
        let Some(ready) = self.ready.take() else {
            return Ok(()); // one that was started again
        };
        ready().map_err(|cause| MonitorError::Ready { cause })?;
        // Now that the site is up: those who had something to do when the last one ended.
        for name in self.marks.all().unwrap_or_default() {
            let started = self
                .mapping
                .account(&name)
                .map(|account| self.start(account));
            if started.is_err() {
                tracing::warn!(
                    account = name,
                    "its jobs are left alone: it is not served any more"
                );
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        number: u32,
        subject: &str,
        introduced: Result<(OwnedFd, String), NotIntroduced>,
    ) {
        let Some(front) = &self.front else { return };
        let (message, stream) = match introduced {
            Ok((stream, account)) => (ToFront::Introduced { number, account }, Some(stream)),
            Err(why) => {
                tracing::info!(subject, ?why, "not introduced");
                (ToFront::Refused { number, why }, None)
            }
        };
        let stream = stream.as_ref().map(std::os::fd::AsFd::as_fd);
        if let Err(cause) = front.line.send(&message.encode(), stream) {
            // It asks without listening: its question times out.
            tracing::warn!(%cause, "the front does not hear an answer");
        }
    }

    /// The front's end of a new stream to the agent of this subject's account.
    fn introduce(&mut self, subject: &str) -> Result<(OwnedFd, String), NotIntroduced> {
        if self.ending.is_some() {
            return Err(NotIntroduced::Closing);
        }
        let (subject, name) = self.mapping.map(subject)?;
        if !self.agents.contains_key(&name) {
            if self.agents.len() >= self.setup.agents_most {
                return Err(NotIntroduced::TooMany);
            }
            let account = self.mapping.account(&name)?;
            self.start(account);
        }
        let (ours, theirs) = UnixStream::pair().map_err(|_| NotIntroduced::Busy)?;
        let introduction = Introduction {
            subject,
            stream: theirs.into(),
        };
        let agent = self.agents.get_mut(&name).ok_or(NotIntroduced::Failing)?;
        agent.give(introduction)?;
        Ok((ours.into(), name))
    }

    /// Starts the agent of an account; one that cannot be is started later.
    fn start(&mut self, account: Account) {
        let name = account.name.clone();
        let started = self.start_process(&account);
        let agent = match (self.agents.get_mut(&name), started) {
            (Some(agent), Ok(child)) => return agent.started(child),
            (None, Ok(child)) => {
                self.marks.set(&name);
                Agent::up(account, child)
            }
            (known, Err(cause)) => {
                tracing::error!(account = name, %cause, "its agent cannot be started now");
                match known {
                    Some(agent) => return agent.not_started(Instant::now()),
                    None => Agent::down(account, Instant::now()),
                }
            }
        };
        self.agents.insert(name, agent);
    }

    fn start_process(&mut self, account: &Account) -> io::Result<Child> {
        let command = (self.setup.agent_program)(account)?;
        let terms = Terms {
            processes: self.setup.processes,
            open_files: None,
            group: self.group(&account.name),
        };
        let child = Child::start(command, account, terms)?;
        let token = self.next_token;
        self.next_token += 2;
        self.poll.add(&child.line, token, Interest::Read)?;
        self.poll.add(&child.process, token + 1, Interest::Read)?;
        self.tokens.insert(token, account.name.clone());
        tracing::info!(account = %account.name, pid = child.pid, "its agent is started");
        Ok(child)
    }

    /// Without a group an account is served all the same.
    fn group(&self, account: &str) -> Option<OwnedFd> {
        let made = self
            .setup
            .groups
            .as_ref()?
            .of(account, self.setup.processes);
        made.map_err(|cause| tracing::warn!(account, %cause, "it has no control group"))
            .ok()
    }

    fn agent_event(&mut self, token: u64) {
        let line = token & !1;
        let Some(name) = self.tokens.get(&line).cloned() else {
            return; // told with the event that ended it
        };
        match token == line {
            true => self.hear_agent(&name),
            false => self.agent_ended(line, &name),
        }
    }

    fn hear_agent(&mut self, name: &str) {
        let Some(agent) = self.agents.get_mut(name) else {
            return;
        };
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(child) = agent.child_mut() else {
                return;
            };
            match hear(child, FromAgent::decode) {
                Heard::Message(message) => {
                    if agent.hear(message) {
                        tracing::info!(account = name, "its agent has nothing to do, and goes");
                        self.marks.clear(name);
                    }
                }
                Heard::Nothing => return,
                Heard::NoMore => return forget(&self.poll, child),
            }
        }
    }

    fn agent_ended(&mut self, line: u64, name: &str) {
        let Some(agent) = self.agents.get_mut(name) else {
            return;
        };
        let Some(end) = agent.child().and_then(Child::ended) else {
            return;
        };
        self.tokens.remove(&line);
        let after = agent.ended(Instant::now());
        let how = told(end);
        match end {
            End::Exited(0) => tracing::info!(account = name, ?after, "its agent has ended"),
            _ => tracing::warn!(
                account = name,
                how,
                ?after,
                "its agent has ended; its own log may say why"
            ),
        }
        if self.ending.is_some() || after == After::Forget {
            self.agents.remove(name);
            if let Some(groups) = &self.setup.groups {
                groups.remove(name);
            }
        }
    }

    fn front_ended(&mut self) -> Result<(), MonitorError> {
        let Some(end) = self.front.as_ref().and_then(Child::ended) else {
            return Ok(());
        };
        let how = told(end);
        let lived = self.front.take().map(|front| front.begun.elapsed());
        if self.ending.is_some() {
            return Ok(());
        }
        if self.ready.is_some() {
            return Err(MonitorError::FrontEnded { how });
        }
        tracing::error!(how, "the front has ended, and is started again");
        let wait = self.front_back_off.ended(lived.unwrap_or_default());
        self.front_due = Some(Instant::now() + wait);
        Ok(())
    }

    /// Starts what ended unasked, when its time has come; kills what did not end in time.
    fn start_due(&mut self) {
        let now = Instant::now();
        if let Some(deadline) = self.ending {
            if deadline <= now {
                self.tell_all(SIGKILL);
            }
            return;
        }
        for child in self.children_mut() {
            if child.end_by.is_some_and(|by| by <= now) {
                child.end_by = None;
                child.signal(SIGKILL);
            }
        }
        if self.front_due.is_some_and(|due| due <= now) {
            // Not the first one, so it does not fail.
            let _ = self.start_front();
        }
        let due = |agent: &&Agent| agent.due().is_some_and(|due| due <= now);
        let due: Vec<Account> = self
            .agents
            .values()
            .filter(due)
            .map(|agent| agent.account.clone())
            .collect();
        for account in due {
            // Looked up again: it may not be served any more, or have another number.
            match self.mapping.account(&account.name) {
                Ok(account) => self.start(account),
                Err(NotIntroduced::NotServed) => drop(self.agents.remove(&account.name)),
                Err(_) => {
                    if let Some(agent) = self.agents.get_mut(&account.name) {
                        agent.not_started(now);
                    }
                }
            }
        }
    }

    /// When something is to be done though nothing happens.
    fn next(&self) -> Option<Instant> {
        match self.ending {
            Some(deadline) => Some(deadline),
            None => {
                let hung_up = self.children().filter_map(|child| child.end_by);
                let agents = self.agents.values().filter_map(Agent::due);
                agents.chain(self.front_due).chain(hung_up).min()
            }
        }
    }

    fn end(&mut self) {
        if self.ending.is_none() {
            tracing::info!("the site is going down; running jobs go on");
            self.ending = Some(Instant::now() + END_WITHIN);
            self.agents.retain(|_, agent| agent.child().is_some());
            self.tell_all(SIGTERM);
        }
    }

    fn tell_all(&self, signal: i32) {
        self.children().for_each(|child| child.signal(signal));
    }

    fn children(&self) -> impl Iterator<Item = &Child> {
        self.agents
            .values()
            .filter_map(Agent::child)
            .chain(&self.front)
    }

    fn children_mut(&mut self) -> impl Iterator<Item = &mut Child> {
        self.agents
            .values_mut()
            .filter_map(Agent::child_mut)
            .chain(&mut self.front)
    }

    fn is_over(&self) -> bool {
        self.ending.is_some() && self.front.is_none() && self.agents.is_empty()
    }
}

/// Its line is not looked at any more: it would be readable for ever.
fn forget(poll: &Poll, child: &Child) {
    if let Err(cause) = poll.remove(&child.line) {
        tracing::error!(pid = child.pid, %cause, "a line is still heard");
    }
}

/// What a process has said.
enum Heard<T> {
    Message(T),
    Nothing,
    /// It has closed its line, or broke the rules and is killed for it. That it has ended is seen by its process.
    NoMore,
}

fn hear<T>(
    child: &mut Child,
    decode: impl Fn(&[u8]) -> Result<T, MonitorMessageError>,
) -> Heard<T> {
    let mut buffer = [0; MESSAGE_MOST_BYTES + 1];
    let why = match child.line.receive_bytes(&mut buffer) {
        Ok(Packet::Message(bytes, _)) => match decode(buffer.get(..bytes).unwrap_or_default()) {
            Ok(message) => return Heard::Message(message),
            Err(e) => e.to_string(),
        },
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
        Ok(Packet::End) => {
            child.hung_up();
            return Heard::NoMore;
        }
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
            child.hung_up();
            return Heard::NoMore;
        }
        Err(e) => e.to_string(),
    };
    tracing::error!(
        pid = child.pid,
        why,
        "a process breaks the rules, and is ended"
    );
    child.signal(SIGKILL);
    Heard::NoMore
}

fn told(end: End) -> String {
    match end {
        End::Exited(status) => format!("exit status {status}"),
        End::Signalled(signal) => format!("signal {signal}"),
    }
}
