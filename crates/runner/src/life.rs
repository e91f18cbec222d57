//! The life of one attempt: guests, streams, deadlines and commands around one poll (spec/jobs/runner.md, R8 to R14).

mod dumping;
mod early;

use crate::alone::Alone;
use crate::control::Control;
use crate::dumps::Dumps;
use crate::feed::Feed;
use crate::mpi::{self, Library};
use crate::news::{Facts, index};
use crate::output::{Output, Pumped};
use crate::spool::{Spool, name};
use crate::start::{Counted, Started};
use crate::verdict::{Cause, End, outcome};
use dumping::Vacating;
use kumiko_job::attempt::{AttemptCommand, Cost, Outcome, OutputStream};
use kumiko_linux::poll::{Event, Interest, Poll};
use kumiko_policy::choice::Profile;
use kumiko_policy::{Limited, Limits, Policy};
use kumiko_sandbox::{Ended, Guest, Limiter, Room};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// How long what is left in the pipes is waited for after the last guest: a killed process in the midst of a disk
/// access may hold one, and a job's end must not hang on it.
const DRAIN: Duration = Duration::from_secs(5);
/// So long an answer of the guest's is waited for, to tell along with it how much of stdin was taken.
const TAKEN_WITHIN: Duration = Duration::from_millis(5);
/// Events taken at once.
const EVENTS: usize = 16;

/// The numbers by which descriptors are watched.
pub mod token {
    pub const LISTENER: u64 = 0;
    pub const SITE: u64 = 1;
    pub const STDIN: u64 = 2;
    pub const STDOUT: u64 = 3;
    pub const STDERR: u64 = 4;
    /// CRIU, and whoever makes a dump of what it wrote.
    pub const DUMP: u64 = 5;
    pub const KEPT: u64 = 6;
    /// And the guest's rank.
    pub const GUEST: u64 = 16;
}

const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// The highest signal number (SIGRTMAX, signal(7)).
const LAST_SIGNAL: i32 = 64;

/// How often a site is told that its runner lives.
#[derive(Clone, Copy, Debug)]
struct Beat {
    every: Duration,
    next: Instant,
}

/// A runner from its first moment to its last.
pub struct Life {
    poll: Poll,
    control: Control,
    spool: Spool,
    facts: Facts,
    outputs: [Output; 2],
    feed: Feed,
    room: Option<Box<dyn Room>>,
    /// When the attempt was begun with, and how long its start took.
    began: Option<Instant>,
    start_time: Duration,
    /// Of which what was counted may be kept.
    program: Option<Counted>,
    limiter: Option<Limiter>,
    /// Policies were changed since it began, to this.
    follows: Option<Policy>,
    guests: Vec<Guest>,
    /// Came while the attempt was held, for what was still to begin.
    early: Vec<AttemptCommand>,
    /// The guest is a launcher of this library.
    launches: Option<Library>,
    dumps: Option<Dumps>,
    /// It is dumped once more, and then ended; with this grace where it cannot be.
    vacating: Option<Vacating>,
    /// By rank.
    ends: Vec<Option<End>>,
    cause: Option<Cause>,
    grace_ms: u64,
    time_limit: Option<Instant>,
    kill_at: Option<Instant>,
    drain_until: Option<Instant>,
    alone: Alone,
    beat: Option<Beat>,
    /// When more of stdin was taken than the site knows.
    taken_at: Option<Instant>,
    status_written: bool,
    settled: bool,
}

impl Life {
    pub fn new(spool: Spool, control: Control, outputs: [Output; 2]) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(control.listener(), token::LISTENER, Interest::Read)?;
        Ok(Self {
            poll,
            control,
            spool,
            facts: Facts::default(),
            outputs,
            feed: Feed::default(),
            room: None,
            began: None,
            start_time: Duration::ZERO,
            program: None,
            limiter: None,
            follows: None,
            guests: Vec::new(),
            early: Vec::new(),
            launches: None,
            dumps: None,
            vacating: None,
            ends: Vec::new(),
            cause: None,
            grace_ms: 0,
            time_limit: None,
            kill_at: None,
            drain_until: None,
            alone: Alone::default(),
            beat: None,
            taken_at: None,
            status_written: false,
            settled: false,
        })
    }

    /// The guests run.
    pub fn started(&mut self, started: Started) -> io::Result<()> {
        let Started {
            room,
            guests,
            stdin,
            sources,
            report,
            grace_ms,
            alone_ms,
            beat_ms,
            time_limit_ms,
            limiter,
            began,
            start_time,
            program,
            launches,
            mut dumps,
            notes,
        } = started;
        for note in notes {
            self.spool.log(&note);
        }
        let resumed = dumps.as_mut().and_then(|dumps| dumps.resumed.take());
        self.facts.vacates = dumps.is_some();
        self.dumps = dumps;
        self.launches = launches;
        self.began = Some(began);
        self.start_time = start_time;
        self.program = program;
        for (output, source) in self.outputs.iter_mut().zip(sources) {
            if let Some(source) = source {
                output.connect(source);
                output.watch(&self.poll)?;
            }
        }
        if let Some(resumed) = resumed {
            for (stream, (file, length)) in resumed.printed.iter().enumerate() {
                let output = &mut self.outputs[stream];
                if let Err(error) = output.begin_with(file, *length) {
                    let what = name(output.stream);
                    self.spool
                        .log(&format!("what {what} held before is lost: {error}"));
                }
                self.facts.lengths[stream] = output.length();
            }
        }
        for (rank, guest) in (0..).zip(&guests) {
            self.poll
                .add(guest.pidfd(), token::GUEST + rank, Interest::Read)?;
        }
        if let Some(stdin) = stdin {
            self.feed.open(stdin, token::STDIN, &self.poll)?;
        }
        self.ends = vec![None; guests.len()];
        self.guests = guests;
        self.room = Some(room);
        self.limiter = Some(limiter);
        self.facts.started = Some(report);
        self.grace_ms = grace_ms;
        self.alone.wait_at_most(alone_ms.map(Duration::from_millis));
        if let Some(ms) = beat_ms {
            let every = Duration::from_millis(ms.max(1));
            self.beat = Some(Beat { every, next: began });
        }
        self.time_limit =
            time_limit_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let early = std::mem::take(&mut self.early);
        early.into_iter().try_for_each(|command| self.obey(command))
    }

    /// There will be no guests, since it was cancelled before.
    pub fn cancelled(&mut self) {
        self.conclude(Outcome::Cancelled);
    }

    /// There will be no guests.
    pub fn never_started(&mut self, code: &str, message: String) {
        self.conclude(Outcome::NeverStarted {
            code: code.to_owned(),
            message,
        });
    }

    /// There were guests, and how they would have ended will not be known.
    pub fn lost(&mut self, message: String) {
        self.conclude(Outcome::Lost { message });
    }

    /// Serves until the end is told, or written for whoever asks later (R14).
    pub fn run(&mut self) -> io::Result<()> {
        let served = self.serve();
        // After all is told: it takes a few milliseconds.
        if let Some(program) = self.program.take() {
            if let Err(error) = program.keep() {
                self.spool
                    .log(&format!("what was counted is not kept: {error}"));
            }
        }
        if let Err(error) = &served {
            self.spool.log(&format!(
                "the runner gives up: cannot wait for events: {error}"
            ));
        }
        served
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.facts.stdin_taken = self.feed.input.taken();
            self.facts.stdin_closed = self.feed.closed();
            self.facts.stdin_hurries = self.taken_at.is_some_and(|at| at.elapsed() >= TAKEN_WITHIN);
            self.control.tell(&self.facts, &self.poll);
            self.taken_at = match self.control.knows_stdin(&self.facts) {
                true => None,
                false => self.taken_at.or_else(|| Some(Instant::now())),
            };
            if self.facts.ended.is_some() && self.settled {
                return Ok(());
            }
            if self.status_written && !self.control.connected() {
                if let Err(error) = self.spool.sync() {
                    self.spool.log(&error.to_string());
                }
                self.control.accept(&self.poll); // a site that comes at the last moment
                if !self.control.connected() {
                    return Ok(());
                }
                continue;
            }
            self.alone.note(self.control.connected(), Instant::now());
            for event in self.poll.wait::<EVENTS>(self.timeout())? {
                self.happened(event)?;
            }
            if !self.control.connected() && self.spool.is_gone() {
                return Ok(()); // its guests end with it (R7), and nobody asks how
            }
            self.pass_time(Instant::now())?;
            if self.facts.ended.is_none() && self.ends.iter().all(Option::is_some) {
                self.wind_up()?;
            }
        }
    }

    fn happened(&mut self, event: Event) -> io::Result<()> {
        match event.token {
            token::LISTENER => {
                self.control.accept(&self.poll);
                self.follow_policy(); // another site may not have come to say so
            }
            token::SITE => self.hear()?,
            token::STDIN if event.closed => self.feed.close(),
            token::STDIN => self.hand_over()?,
            token::STDOUT => drop(self.pump(0)?),
            token::STDERR => drop(self.pump(1)?),
            token::DUMP => self.dump_written()?,
            token::KEPT => self.dump_kept(),
            guest => self.reap(guest - token::GUEST)?,
        }
        Ok(())
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut commands = Vec::new();
        if let Err(complaint) = self.control.hear(|command| commands.push(command)) {
            self.spool.log(&format!("the site was let go: {complaint}"));
        }
        commands
            .into_iter()
            .try_for_each(|command| self.obey(command))
    }

    fn obey(&mut self, command: AttemptCommand) -> io::Result<()> {
        match command {
            AttemptCommand::Signal { signal } if (1..=LAST_SIGNAL).contains(&signal) => {
                self.signal(signal);
                match signal {
                    SIGSTOP => self.facts.suspended = self.running(),
                    SIGCONT => {
                        self.facts.suspended = false;
                        self.go_on();
                    }
                    _ => (),
                }
            }
            AttemptCommand::Signal { .. } => (),
            AttemptCommand::Cancel { grace_ms } => self.stop(Cause::Cancelled, grace_ms),
            AttemptCommand::Vacate { grace_ms } => self.vacate(grace_ms),
            AttemptCommand::Stdin { offset, data } => {
                if let Some(dumps) = &mut self.dumps {
                    dumps.will_hear(&data);
                }
                self.feed.input.receive(offset, &data);
                self.hand_over()?;
            }
            AttemptCommand::StdinEnd { offset } => {
                self.feed.input.end(offset);
                self.feed.hand_over(&self.poll)?;
            }
            AttemptCommand::Window(size) => self.feed.resize(size),
            AttemptCommand::Limits(limits) => {
                self.change_limits(&limits);
                self.follow_policy();
            }
            AttemptCommand::Consumed { stream, offset } => {
                let output = &mut self.outputs[index(stream)];
                if let Err(error) = output.consumed(offset) {
                    self.spool
                        .log(&format!("consumed {} is not freed: {error}", name(stream)));
                }
                output.watch(&self.poll)?;
            }
            AttemptCommand::Release => (),
            AttemptCommand::Settled => self.settled = self.facts.ended.is_some(),
        }
        Ok(())
    }

    /// Whether a guest lives.
    fn running(&self) -> bool {
        self.ends.iter().any(Option::is_none)
    }

    fn signal(&self, signal: i32) {
        for (guest, end) in self.guests.iter().zip(&self.ends) {
            if end.is_none() {
                match self.launches {
                    None => guest.signal(signal),
                    Some(library) => mpi::signal(library, guest, signal),
                }
            }
        }
    }

    /// Asks the guests to end, for a cause, and sees to it after the grace (R12).
    fn stop(&mut self, cause: Cause, grace_ms: u64) {
        if !self.running() {
            return;
        }
        let again = self.cause.is_some();
        self.cause.get_or_insert(cause);
        self.vacate_no_more();
        let at = Instant::now().checked_add(Duration::from_millis(grace_ms));
        self.kill_at = match (self.kill_at, at) {
            (Some(before), Some(at)) => Some(before.min(at)),
            (before, at) => before.or(at),
        };
        if grace_ms == 0 {
            self.kill();
        } else if !again {
            self.signal(SIGTERM);
            self.signal(SIGCONT);
            self.facts.suspended = false;
        }
    }

    fn kill_for(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        self.kill();
    }

    fn kill(&mut self) {
        self.kill_at = None;
        if let Some(room) = &mut self.room {
            room.kill_all();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let limits = self.limiter.as_ref().and_then(Limiter::due);
        let now = Instant::now();
        let alone = self.alone.due(now);
        let beat = self.beat.filter(|_| self.control.connected());
        let beat = beat.map(|beat| beat.next);
        // Later than that it is the socket that is waited for.
        let taken = self.taken_at.map(|at| at + TAKEN_WITHIN);
        let next = [
            self.dump_due(),
            self.time_limit,
            self.kill_at,
            self.drain_until,
            limits,
            alone,
            beat,
            taken.filter(|_| !self.facts.stdin_hurries),
        ]
        .into_iter()
        .flatten()
        .min();
        next.map(|at| at.saturating_duration_since(now))
    }

    fn pass_time(&mut self, now: Instant) -> io::Result<()> {
        if self.time_limit.is_some_and(|at| at <= now) {
            self.time_limit = None;
            self.stop(Cause::TimeLimit, self.grace_ms);
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill();
        }
        if let Some(beat) = self.beat.filter(|beat| beat.next <= now) {
            self.facts.beats += 1;
            let next = now.checked_add(beat.every);
            self.beat = next.map(|next| Beat { next, ..beat });
        }
        if self.alone.is_enough(now) {
            self.do_without_site()?;
        }
        self.keep_limits(now);
        if self.dump_due().is_some_and(|due| due <= now) {
            self.dump();
        }
        self.stop_if_undumped();
        Ok(())
    }

    /// What guests wait for from a site does not come (R18).
    fn do_without_site(&mut self) -> io::Result<()> {
        self.spool
            .log("no site came: stdin ends, and output waits for nobody");
        self.feed.close();
        for output in &mut self.outputs {
            output.flow_by_itself();
            output.watch(&self.poll)?;
        }
        Ok(())
    }

    fn change_limits(&mut self, changed: &Limits) {
        let Some(limiter) = self.limiter.as_mut().filter(|_| self.cause.is_none()) else {
            return;
        };
        let mut limits = limiter.limits().clone();
        for (limited, value) in changed.each() {
            limits.set(limited, (value < limited.most()).then_some(value));
        }
        if limits == *limiter.limits() {
            return;
        }
        limiter.set(&limits);
        let words = limits.in_words().join(", ");
        self.spool.log(&format!("other limits hold: {words}"));
    }

    /// Has the guests follow what the spool says that holds by now (R2).
    fn follow_policy(&mut self) {
        let Some(room) = self.room.as_mut() else {
            return;
        };
        let policy = match self.spool.policy() {
            Ok(Some(policy)) if self.follows.as_ref() != Some(&policy) => policy,
            Ok(_) => return,
            Err(error) => return self.spool.log(&error.to_string()),
        };
        let not = room.follow(&policy);
        let not = not.unwrap_or_else(|error| vec![error.to_string()]);
        self.spool.log(&match not.is_empty() {
            true => "another policy holds".to_owned(),
            false => format!("another policy holds, but for {}", not.join("; ")),
        });
        self.facts.unfollowed = Some(not);
        self.follows = Some(policy);
    }

    fn keep_limits(&mut self, now: Instant) {
        let Some(limiter) = self.limiter.as_mut() else {
            return;
        };
        if limiter.due().is_none_or(|due| due > now) {
            return;
        }
        let Some(exceeded) = limiter.tick(now, self.facts.suspended) else {
            return;
        };
        // Whoever is to end does not stay stopped, and is told once.
        self.limiter = None;
        match exceeded.limited {
            Limited::WallTime | Limited::CpuTime => {
                self.stop(Cause::Limit(exceeded), self.grace_ms);
            }
            _ => self.kill_for(Cause::Limit(exceeded)),
        }
    }

    fn reap(&mut self, rank: u64) -> io::Result<()> {
        let Some(rank) = usize::try_from(rank)
            .ok()
            .filter(|rank| *rank < self.guests.len())
        else {
            return Ok(());
        };
        if self.ends[rank].is_none() {
            if let Some(ended) = self.guests[rank].try_wait() {
                self.poll.remove(self.guests[rank].pidfd())?;
                self.ends[rank] = Some(match ended {
                    Ended::Exited(status) => End::Exited(status),
                    Ended::Signalled(signal) => End::Signalled(signal),
                });
                if rank == 0 {
                    self.feed.close();
                }
            }
        }
        Ok(())
    }

    /// All guests have ended: kills what they left, keeps what is still in the pipes, and comes to the end (R10).
    fn wind_up(&mut self) -> io::Result<()> {
        if self.drain_until.is_none() {
            if let Some(exceeded) = self.limiter.take().and_then(|limiter| limiter.killed()) {
                self.cause.get_or_insert(Cause::Limit(exceeded));
            }
            self.count();
            self.kill();
            self.time_limit = None;
            self.facts.suspended = false;
            self.drain_until = Instant::now().checked_add(DRAIN);
        }
        for stream in [0, 1] {
            self.outputs[stream].last();
            while !self.outputs[stream].closed() && self.pump(stream)? == Pumped::More {}
        }
        let over = self.drain_until.is_none_or(|until| until <= Instant::now());
        if over || self.outputs.iter().all(Output::closed) {
            if !self.outputs.iter().all(Output::closed) {
                self.spool.log(
                    "a process that was killed still holds an output pipe: what it holds is lost",
                );
            }
            self.drain_until = None;
            let ends: Vec<End> = self.ends.iter().flatten().copied().collect();
            let outcome = outcome(self.cause.take(), &ends);
            self.conclude(outcome);
        }
        Ok(())
    }

    /// What the sandbox did, while it can still be asked.
    fn count(&mut self) {
        let Some(room) = &self.room else {
            return;
        };
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let cost = room.cost();
        self.facts.cost = Some(Cost {
            start_us: us(self.start_time),
            answering_us: cost.supervisor_cpu.map_or(0, us),
            answered: cost.answered.unwrap_or(0),
        });
        let wall = self.began.map(|began| us(began.elapsed()));
        // What was ended says nothing of what the program does in a whole run.
        let whole = self.cause.is_none();
        if let (Some(program), Some(profile), true) = (&mut self.program, cost.profile, whole) {
            program.profile = Some(Profile {
                wall_us: wall,
                ..profile
            });
        }
    }

    fn conclude(&mut self, outcome: Outcome) {
        // After any other the job may go on elsewhere.
        let by_itself = matches!(outcome, Outcome::Exited { .. } | Outcome::Signalled { .. });
        let is_over = by_itself && !outcome.may_be_an_engines();
        if let Some(dumps) = self.dumps.as_ref().filter(|_| is_over) {
            dumps.clear();
        }
        match self.spool.conclude(&outcome) {
            Ok(()) => self.status_written = true,
            // Still told to who is connected, or comes: see `run`.
            Err(error) => self.spool.log(&error.to_string()),
        }
        self.facts.ended = Some(outcome);
    }

    fn pump(&mut self, stream: usize) -> io::Result<Pumped> {
        let output = &mut self.outputs[stream];
        let pumped = output.pump();
        let before = std::mem::replace(&mut self.facts.lengths[stream], output.length());
        if output.length() > before && output.stream == OutputStream::Stdout {
            self.dumps.as_mut().map(Dumps::answered);
        }
        match pumped {
            Ok(Pumped::OverQuota) => {
                let stream = output.stream;
                output.close();
                self.kill_for(Cause::OutputQuota(stream));
                Ok(Pumped::OverQuota)
            }
            Ok(pumped) => {
                output.watch(&self.poll)?;
                Ok(pumped)
            }
            Err(error) => {
                let message = format!(
                    "cannot write {} after {} bytes: {error}; make room on the site's disk",
                    name(output.stream),
                    output.length()
                );
                output.close();
                self.kill_for(Cause::SpoolFailed(message));
                Ok(Pumped::Closed)
            }
        }
    }
}

/// The outputs of a life, watched by their own numbers.
pub fn outputs(
    stdout: File,
    stderr: File,
    make: impl Fn(OutputStream, u64, File) -> Output,
) -> [Output; 2] {
    [
        make(OutputStream::Stdout, token::STDOUT, stdout),
        make(OutputStream::Stderr, token::STDERR, stderr),
    ]
}
