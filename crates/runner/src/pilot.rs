//! A pilot (spec/jobs/pilots.md, PL1 to PL14): it holds a slot of an engine and starts a runner there for each attempt that
//! its site names. Its place is a directory beside the spools. One thread, one poll, as in a runner.
//!
//! Not here: what a runner does; which attempt goes to which pilot (kumiko-batch).

use crate::spool::SpoolError;
use kumiko_job::id::AttemptId;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::signals::Signals;
use kumiko_linux::{process, spooling, unix_socket};
use kumiko_wire::pilot::{
    BEATS, HELD_LIMIT, PilotCommand, PilotReport, decode_command, encode_report,
};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long a pilot waits with nothing to do for a site that is not there: the slot is somebody else's then. A site that is
/// upgraded is back in seconds.
const ALONE: Duration = Duration::from_secs(120);
/// At least this often children are looked for that nobody told of: what a killed runner left behind.
const LOOK: Duration = Duration::from_secs(10);
/// Where its site listens for it, it says so often that it is there.
const BEAT: Duration = Duration::from_secs(1);
const EVENTS: usize = 16;
const SIGKILL: i32 = 9;
/// By this an engine says that it wants the slot back.
const SIGTERM: i32 = 15;
const READ_BYTES: usize = 4096;

const LISTENER: u64 = 0;
const SITE: u64 = 1;
const SIGNAL: u64 = 2;
/// Of a runner: this, and its process number.
const RUNNER: u64 = 16;

pub struct Pilot {
    place: PathBuf,
    spools: PathBuf,
    poll: Poll,
    signals: Signals,
    listener: UnixListener,
    site: Option<Site>,
    held: BTreeMap<AttemptId, Runner>,
    retired: bool,
    /// By its engine.
    recalled: bool,
    since_ms: u64,
    /// When it is to say so next; None: its site does not listen.
    beat: Option<Instant>,
    /// Since when there was neither a site nor anything to do.
    alone: Instant,
    /// Its lock: one pilot in a place.
    _lock: File,
}

struct Runner {
    pid: i32,
    pidfd: OwnedFd,
}

struct Site {
    stream: UnixStream,
    incoming: Vec<u8>,
}

impl Pilot {
    /// Takes a place, which holds nothing but the pilot's lock and socket.
    pub fn take(place: &Path) -> Result<Pilot, SpoolError> {
        let failed = |tried, cause| SpoolError::Failed {
            tried,
            path: place.to_owned(),
            cause,
        };
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(place.join("lock"))
            .map_err(|error| failed("cannot open the lock of", error))?;
        if !spooling::try_lock(&lock).map_err(|error| failed("cannot lock", error))? {
            return Err(SpoolError::Taken);
        }
        let listening = |error| failed("cannot listen in", error);
        let spools = place
            .parent()
            .ok_or_else(|| listening(ErrorKind::InvalidInput.into()))?;
        let new = place.join("control.new");
        // Of a pilot that was killed here.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(listening(error)),
            _ => {}
        }
        let listener = unix_socket::listen(&new).map_err(listening)?;
        std::fs::set_permissions(&new, Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| std::fs::rename(&new, place.join("control")))
            .map_err(listening)?;
        let poll = Poll::new().map_err(listening)?;
        poll.add(&listener, LISTENER, Interest::Read)
            .map_err(listening)?;
        let signals = Signals::hold(&[SIGTERM]).map_err(listening)?;
        poll.add(&signals, SIGNAL, Interest::Read)
            .map_err(listening)?;
        Ok(Pilot {
            place: place.to_owned(),
            spools: spools.to_owned(),
            poll,
            signals,
            listener,
            site: None,
            held: BTreeMap::new(),
            retired: false,
            recalled: false,
            since_ms: since_ms(),
            beat: place.join(BEATS).exists().then(Instant::now),
            alone: Instant::now(),
            _lock: lock,
        })
    }

    /// Starts runners until it is retired, or was left alone, or its place is gone. `run` is what a runner does with its spool.
    pub fn fly(mut self, run: impl Fn(&Path) -> u8) -> io::Result<()> {
        loop {
            if self.held.is_empty() {
                let left = self.alone.elapsed() > ALONE || !self.place.exists();
                if self.retired || (self.site.is_none() && left) {
                    return Ok(());
                }
            } else {
                self.alone = Instant::now();
            }
            let wait = match self.beat {
                Some(beat) => beat.saturating_duration_since(Instant::now()).min(LOOK),
                None => LOOK,
            };
            let events = self.poll.wait::<EVENTS>(Some(wait))?;
            for event in events {
                match event.token {
                    LISTENER => self.accept(),
                    SITE => self.hear(&run),
                    SIGNAL if self.signals.next().is_some() => {
                        (self.retired, self.recalled) = (true, true);
                        self.tell(&PilotReport::Going);
                    }
                    _ => {}
                }
            }
            self.reap();
            if self.beat.is_some_and(|beat| beat <= Instant::now()) {
                self.tell(&PilotReport::Beat);
                self.beat = Instant::now().checked_add(BEAT);
            }
            if self.site.is_some() {
                self.alone = Instant::now();
            }
        }
    }

    /// Takes the newest connection of this account.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let own = unix_socket::peer(&stream).is_ok_and(|(_, uid)| uid == spooling::own_uid());
            if own
                && stream.set_nonblocking(true).is_ok()
                && self.poll.add(&stream, SITE, Interest::Read).is_ok()
            {
                self.site = Some(Site {
                    stream,
                    incoming: Vec::new(),
                });
                self.tell(&PilotReport::Holds {
                    since_ms: self.since_ms,
                    held: self.held.keys().copied().collect(),
                });
                match (self.retired, self.recalled) {
                    (_, true) => self.tell(&PilotReport::Going),
                    (true, false) => self.tell(&PilotReport::Retired),
                    (false, false) => {}
                }
            }
        }
    }

    /// A site that does not take a line at once is let go: it comes again and is told all.
    fn tell(&mut self, report: &PilotReport) {
        let Some(site) = &mut self.site else {
            return;
        };
        let mut line = Vec::new();
        encode_report(report, &mut line);
        if !matches!(site.stream.write(&line), Ok(count) if count == line.len()) {
            self.site = None;
        }
    }

    fn hear(&mut self, run: &impl Fn(&Path) -> u8) {
        let Some(site) = &mut self.site else {
            return;
        };
        let mut bytes = [0; READ_BYTES];
        match site.stream.read(&mut bytes) {
            Ok(count) if count > 0 => site.incoming.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            _ => {
                self.site = None;
                return;
            }
        }
        let (mut commands, mut done, mut well) = (Vec::new(), 0, true);
        loop {
            match decode_command(&site.incoming[done..]) {
                Ok(Some((command, taken))) => {
                    done += taken;
                    commands.push(command);
                }
                Ok(None) => break,
                Err(_) => {
                    well = false;
                    break;
                }
            }
        }
        site.incoming.drain(..done);
        for command in commands {
            self.obey(command, run);
        }
        if !well {
            self.site = None;
        }
    }

    fn obey(&mut self, command: PilotCommand, run: &impl Fn(&Path) -> u8) {
        match command {
            PilotCommand::Start(id) if self.held.contains_key(&id) => {}
            PilotCommand::Start(id) if self.retired || self.held.len() >= HELD_LIMIT => {
                self.tell(&PilotReport::Over(id));
            }
            PilotCommand::Start(id) => {
                let spool = self.spools.join(id.to_string());
                let signals = &self.signals;
                let runner = || {
                    signals.let_go();
                    run(&spool)
                };
                let started = process::copy(runner).and_then(|pid| {
                    let pidfd = process::pidfd(pid)?;
                    let watched = self.poll.add(&pidfd, RUNNER + pid as u64, Interest::Read);
                    if watched.is_err() {
                        // What nobody would see end is not to run.
                        let _ = process::signal(pidfd.as_fd(), SIGKILL);
                    }
                    watched.map(|()| Runner { pid, pidfd })
                });
                match started {
                    Ok(runner) => drop(self.held.insert(id, runner)),
                    Err(_) => self.tell(&PilotReport::Over(id)),
                }
            }
            PilotCommand::Kill(id) => {
                if let Some(runner) = self.held.get(&id) {
                    // Of its own child: it cannot fail but for one that has ended.
                    let _ = process::signal(runner.pidfd.as_fd(), SIGKILL);
                }
            }
            PilotCommand::Retire => self.retired = true,
        }
    }

    fn reap(&mut self) {
        while let Some(pid) = process::reap_any() {
            let whose = self.held.iter().find(|(_, runner)| runner.pid == pid);
            if let Some(id) = whose.map(|(id, _)| *id) {
                self.held.remove(&id); // its descriptor leaves the poll as it is closed
                self.tell(&PilotReport::Over(id));
            }
        }
    }
}

/// The time of day. It only has to be another than that of the pilot before it in its place.
fn since_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}
