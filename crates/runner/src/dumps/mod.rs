//! Dumps of an attempt's guest by CRIU, of which a later attempt goes on (spec/checkpoint, K52 to K58): whether there are any, when
//! one is made, how it becomes one. What blocks is done by a thread. Not here: how CRIU is called (kumiko-sandbox), the folder (`store`).

mod store;

pub use store::STREAMS;

use crate::start::{Meanwhile, NotReleased, StartError};
use kumiko_checkpoint::{FAILURES_VARIABLE, OFTEN, interval};
use kumiko_job::attempt::{AttemptSpec, DUMPED, Dumped, LINKS_LIBRARY};
use kumiko_job::description::{OutputMode, Stdin};
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::spooling;
use kumiko_policy::{Access, GuestPath, Network, Policy};
use kumiko_sandbox::{
    Choice, Guest, Machine, Program, Room, SandboxError, Usable, criu, prepare_for_dumps,
};
use kumiko_wire::routine;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use store::{Manifest, Store};

/// Mean time between failures, if nobody says: K31.
const FAILURES: Duration = Duration::from_secs(86_400);
/// What a routine that had nothing to do does for less is not dumped.
const SHORT: Duration = Duration::from_millis(250);
/// A gigabyte takes half a second; a slow disk, or a machine under load, takes longer.
const RESTORES_WITHIN: Duration = Duration::from_secs(120);
const LOOKS_FOR_ROOM: Duration = Duration::from_secs(1);
/// For a routine to read what it is told.
const TAKES: Duration = Duration::from_millis(20);
/// After one of which nothing came the next is waited for so much longer.
const LONGER: u32 = 4;
/// What CRIU executes besides itself, and reads, is of the guest's view.
const TRUSTED: [&str; 5] = ["/usr", "/lib", "/lib64", "/etc", "/bin"];

/// The dumps of one attempt.
#[derive(Debug)]
pub struct Dumps {
    guest: Dumped,
    job_directory: PathBuf,
    store: Store,
    criu: Usable,
    failures: Duration,
    /// What the guest was resumed from; and where its outputs lead.
    pub resumed: Option<Resumed>,
    pipes: [u64; 2],
    stdin: Option<u64>,
    /// Since when it does what is dumped. None: there is nothing to go on with.
    busy: Option<Instant>,
    /// What it is told next is its caller's answer, in the midst of a call.
    answer: bool,
    /// How long stdout was when a routine was told something last; whether it has said something since that may be a question.
    told_at: u64,
    asks: bool,
    /// The dump that a thread makes is of no use.
    outdated: bool,
    due: Instant,
    doing: Doing,
}

/// A guest that went on from a dump.
#[derive(Debug)]
pub struct Resumed {
    pub number: u64,
    /// What belongs to the dump of what it had printed to stdout and stderr, and how much of these files that is.
    pub printed: Vec<(File, u64)>,
}

/// What belongs to a dump of what its guest has printed.
#[derive(Debug)]
pub enum Printed {
    /// Of a job: the files of the outputs, to read, and how much of them.
    All([(File, u64); 2]),
    /// Of a routine that waits for its caller's answer.
    Question(Vec<u8>),
    Nothing,
}

#[derive(Debug)]
enum Doing {
    Nothing,
    /// CRIU writes.
    Dump {
        helper: Guest,
        since: Instant,
    },
    /// A thread makes a dump of it; it closes the pipe when it has.
    Keep {
        done: Receiver<io::Result<u64>>,
        pipe: OwnedFd,
        since: Instant,
    },
}

/// Whether this attempt's guest is dumped. None: nobody asks for that. An error says why not, in words.
pub fn wanted(
    attempt: &AttemptSpec,
    choice: &Choice,
    machine: &Machine,
    program: &Program<'_>,
) -> Option<Result<Dumps, String>> {
    let given = attempt.dumps.as_ref()?;
    let dumps = || {
        suits(attempt, choice)?;
        if links_library(program) {
            return Err(LINKS_LIBRARY.to_owned());
        }
        let criu = criu(machine, Some(OsStr::new(&given.path)))
            .map_err(|obstacle| format!("{}: {}", obstacle.why, obstacle.remedy))?;
        trusted(&attempt.policy, &criu)?;
        let folder = &given.folder;
        let store = Store::open(folder);
        let store = store.map_err(|error| format!("{}: {error}", folder.display()))?;
        let said = attempt.environment.get(FAILURES_VARIABLE);
        let said = said.and_then(|said| said.parse().ok());
        let now = Instant::now();
        Ok(Dumps {
            guest: given.guest,
            job_directory: attempt.job_directory.clone(),
            store,
            criu,
            failures: said.map_or(FAILURES, Duration::from_secs),
            resumed: None,
            pipes: [0; 2],
            stdin: None,
            busy: (given.guest != Dumped::Routine).then_some(now),
            answer: false,
            told_at: 0,
            asks: false,
            outdated: false,
            due: now + OFTEN,
            doing: Doing::Nothing,
        })
    };
    // Another policy may hold by now than that by which they were given.
    let made = attempt.policy.dump().then(dumps);
    if !matches!(made, Some(Ok(_))) {
        // It begins at its start, and changes what dumps go by: nobody is to go on from them later.
        if let Ok(store) = Store::open(&given.folder) {
            store.clear();
        }
    }
    made
}

fn suits(attempt: &AttemptSpec, choice: &Choice) -> Result<(), String> {
    let policy = &attempt.policy;
    let guest = attempt.dumps.as_ref().map(|dumps| dumps.guest);
    let is_job = guest == Some(Dumped::Job);
    let cases = [
        (choice.mechanism != "namespace", "only namespace can"),
        (
            policy.network() != Network::None,
            "it has the host's network: network = \"none\" is what can be dumped",
        ),
        (
            !policy.further_processes(),
            "its policy forbids further processes, which without a filter nobody holds it to",
        ),
        (
            attempt.count != 1 || attempt.mpi.is_some(),
            "it is not one process with what that starts",
        ),
        (
            attempt.terminal.is_some() || is_job && attempt.output == OutputMode::Flow,
            "somebody follows it",
        ),
        (
            is_job && attempt.stdin != Stdin::Empty,
            "its stdin comes from outside",
        ),
        (
            kumiko_linux::is_root(),
            "the account is root, whose guests have a /proc that is read-only",
        ),
    ];
    match cases.into_iter().find(|(so, _)| *so) {
        Some((_, why)) => Err(why.to_owned()),
        None => Ok(()),
    }
}

/// What CRIU is executed from is not the guest's to change; libraries of its own may lie where it does.
fn trusted(policy: &Policy, criu: &Usable) -> Result<(), String> {
    let own = std::fs::canonicalize(&criu.program);
    let own = own.map_err(|error| format!("{}: {error}", criu.program.display()))?;
    let own = own.parent().and_then(Path::to_str);
    let mut all = TRUSTED.into_iter().chain([own.unwrap_or("/")]);
    match all.find(|path| may_be_changed(policy, path)) {
        Some(path) => Err(format!(
            "its policy lets it change {path}, from which CRIU would be executed"
        )),
        None => Ok(()),
    }
}

/// Could a guest of this policy put something there?
fn may_be_changed(policy: &Policy, path: &str) -> bool {
    let Ok(path) = GuestPath::new(path) else {
        return true;
    };
    let changes =
        |access: &Access| matches!(access, Access::Write { .. } | Access::Temporary { .. });
    let below = policy
        .paths
        .iter()
        .filter(|rule| rule.path.below(&path).is_some());
    let above = policy.rule_for(&path);
    below.chain(above).any(|rule| changes(&rule.access))
}

fn links_library(program: &Program<'_>) -> bool {
    let read = |file: PathBuf| {
        let mut bytes = Vec::new();
        File::open(file)?.read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let bytes = program.file().map(read).and_then(Result::ok);
    let bytes = bytes.unwrap_or_default();
    kumiko_checkpoint::links_library(&bytes)
}

/// Why a guest does not go on from a dump.
#[derive(Debug, thiserror::Error)]
enum NotResumed {
    #[error("{0}")]
    NoRoom(io::Error),
    #[error("{0}")]
    NoUse(String),
}

impl From<io::Error> for NotResumed {
    fn from(error: io::Error) -> NotResumed {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NotResumed::NoRoom(error),
            _ => NotResumed::NoUse(error.to_string()),
        }
    }
}

impl Dumps {
    /// A room for its guest.
    ///
    /// # Errors
    /// As `Mechanism::prepare`.
    pub fn prepare(attempt: &AttemptSpec) -> Result<Box<dyn Room>, SandboxError> {
        prepare_for_dumps(&attempt.policy, &attempt.job_directory)
    }

    /// Has the guest go on from the newest dump from which it does, in this room, or another where it was of no use for an older
    /// one. None: there is none. What is of no use is told, and removed. `streams`: where its outputs lead, and its stdin to read.
    pub fn resume(
        &mut self,
        mut room: Box<dyn Room>,
        attempt: &AttemptSpec,
        streams: [&OwnedFd; 3],
        meanwhile: &mut dyn Meanwhile,
        notes: &mut Vec<String>,
    ) -> Result<(Box<dyn Room>, Option<Guest>), StartError> {
        if self.guest == Dumped::Routine {
            self.store.clear();
            return Ok((room, None));
        }
        let numbers = self.store.numbers().unwrap_or_else(|error| {
            notes.push(format!("dumps cannot be looked for: {error}"));
            Vec::new()
        });
        for number in numbers {
            match self.resume_with_room(number, streams, &mut *room, meanwhile) {
                Ok((guest, resumed)) => {
                    notes.push(format!("it goes on from its dump {number}"));
                    self.resumed = Some(resumed);
                    return Ok((room, Some(guest)));
                }
                Err(_) if meanwhile.is_cancelled() => return Err(NotReleased::Cancelled.into()),
                Err(why) => {
                    notes.push(format!("its dump {number} is of no use: {why}"));
                    let _ = self.store.discard(number); // else it is tried again, and told again
                    room = Dumps::prepare(attempt)?;
                }
            }
        }
        self.store.clear(); // and what was printed until then
        Ok((room, None))
    }

    /// What a full disk has no room for is of use when it has: until then it is waited for.
    fn resume_with_room(
        &mut self,
        number: u64,
        streams: [&OwnedFd; 3],
        room: &mut dyn Room,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<(Guest, Resumed), NotResumed> {
        let mut told = false;
        loop {
            let resumed = self.try_resume(number, streams, room, meanwhile);
            let Err(NotResumed::NoRoom(error)) = &resumed else {
                return resumed;
            };
            // What was unpacked needs room itself, and so does what is told.
            let _ = self.store.read_over();
            if !told {
                meanwhile.tell(&format!("its dump {number} waits for room: {error}"));
                told = true;
            }
            meanwhile.pause(LOOKS_FOR_ROOM)?;
            if meanwhile.is_cancelled() {
                return resumed;
            }
        }
    }

    fn try_resume(
        &mut self,
        number: u64,
        streams: [&OwnedFd; 3],
        room: &mut dyn Room,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<(Guest, Resumed), NotResumed> {
        let (manifest, images) = self.store.read(number)?;
        let printed = match self.guest {
            Dumped::Job => {
                let files = self.store.printed(&manifest)?;
                files.into_iter().zip(manifest.printed).collect()
            }
            Dumped::Routine | Dumped::AskedRoutine => {
                let question = store::question(&images)?;
                self.asks = question.is_some();
                self.busy = (!self.asks).then(Instant::now);
                question.into_iter().collect()
            }
        };
        store::roll_back(&self.job_directory, &manifest.still, &images)?;
        // Nobody speaks to the stdin of a job.
        let numbers = manifest.pipes.into_iter().chain(manifest.stdin);
        let pipes: Vec<_> = streams.map(AsFd::as_fd).into_iter().zip(numbers).collect();
        let no_use = |why: String| NotResumed::NoUse(why);
        let dumps = room.dumps();
        let dumps = dumps.ok_or_else(|| no_use("its room is not made for that".to_owned()))?;
        let still = (&manifest.still, manifest.last);
        let mut wait = |process: BorrowedFd<'_>| meanwhile.until_ended(process, RESTORES_WITHIN);
        let guest = dumps.restore(&self.criu, images.as_fd(), still, &pipes, &mut wait);
        let guest =
            guest.map_err(|error| no_use(format!("{error}; {}", Store::complaint(&images))))?;
        let _ = self.store.read_over(); // else it is when the next one is read
        Ok((guest, Resumed { number, printed }))
    }

    /// The pipes that the guest has; stdin only if somebody speaks to it.
    pub fn has_pipes(&mut self, outputs: [&OwnedFd; 2], stdin: Option<&OwnedFd>) -> io::Result<()> {
        let [stdout, stderr] = outputs;
        self.pipes = [spooling::number(stdout)?, spooling::number(stderr)?];
        self.stdin = stdin.map(spooling::number).transpose()?;
        Ok(())
    }

    pub fn is_of_job(&self) -> bool {
        self.guest == Dumped::Job
    }

    /// A routine will be told this next, if it has nothing to do.
    pub fn will_hear(&mut self, words: &[u8]) {
        if self.busy.is_none() {
            self.answer = routine::is_said(words);
            // Of the call before, and its site has removed what was there of it.
            self.outdated |= !self.answer && matches!(self.doing, Doing::Keep { .. });
        }
    }

    /// A routine is asked something, or answered, when stdout has this length.
    pub fn asked(&mut self, stdout: u64) {
        self.told_at = stdout;
        self.asks = false;
        if self.busy.is_none() {
            let now = Instant::now();
            self.busy = Some(now);
            let soonest = match self.answer {
                true => now + TAKES,
                false if self.due + OFTEN < now => now + SHORT,
                false => now,
            };
            self.due = self.due.max(soonest);
        }
    }

    /// A routine says something: it has answered, or asks its caller.
    pub fn answered(&mut self) {
        if self.guest != Dumped::Job {
            self.busy = None;
            self.asks = true;
        }
    }

    pub fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// From here on stdout has what a routine has said since it was told something.
    pub fn told_at(&self) -> u64 {
        self.told_at
    }

    /// It was no question, so it has nothing to do.
    pub fn has_answered(&mut self) {
        self.asks = false;
    }

    /// CRIU is at work: what a routine is told meanwhile it could not take before that has come to an end.
    pub fn is_dumping(&self) -> bool {
        matches!(self.doing, Doing::Dump { .. })
    }

    /// CRIU is at work, or a thread makes a dump of what it wrote.
    pub fn is_at_work(&self) -> bool {
        !matches!(self.doing, Doing::Nothing)
    }

    /// The next is due at once.
    pub fn hurry(&mut self) {
        self.due = Instant::now();
    }

    /// It takes what it is told just now.
    pub fn put_off(&mut self) {
        self.due = Instant::now() + TAKES;
    }

    /// For people.
    pub fn words(&self) -> String {
        let version = self.criu.version;
        match &self.resumed {
            None => format!("{DUMPED} {version}"),
            Some(Resumed { number, .. }) => {
                format!("{DUMPED} {version}, and goes on from its dump {number}")
            }
        }
    }

    /// When one is to be made next.
    pub fn due(&self) -> Option<Instant> {
        let free = matches!(self.doing, Doing::Nothing) && (self.is_busy() || self.asks);
        free.then_some(self.due)
    }

    pub fn begin(
        &mut self,
        room: &mut dyn Room,
        guest: &Guest,
        poll: &Poll,
        token: u64,
    ) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        let since = Instant::now();
        let mut begun = || -> Result<Guest, String> {
            let images = self.store.fresh().map_err(words)?;
            let dumps = room.dumps().ok_or("its room is not made for that")?;
            let helper = dumps.dump(&self.criu, guest, images.as_fd());
            let helper = helper.map_err(|error| error.to_string())?;
            poll.add(helper.pidfd(), token, Interest::Read)
                .map_err(words)?;
            Ok(helper)
        };
        match begun() {
            Ok(helper) => {
                self.doing = Doing::Dump { helper, since };
                Ok(())
            }
            Err(why) => {
                self.later(since);
                Err(why)
            }
        }
    }

    /// Something has come of it, of which the poll told. Some: the guest stands still, and it is to be [`Dumps::keep`]ed.
    pub fn written(&mut self, poll: &Poll) -> Result<Option<Instant>, String> {
        let Doing::Dump { helper, since } = &mut self.doing else {
            return Ok(None);
        };
        let Some(ended) = helper.try_wait() else {
            return Ok(None);
        };
        let since = *since;
        let _ = poll.remove(helper.pidfd()); // it is closed at once
        self.doing = Doing::Nothing;
        if ended == kumiko_sandbox::Ended::Exited(0) {
            return Ok(Some(since));
        }
        let why = self.store.complaint_of_new();
        self.abandon(since);
        Err(why)
    }

    /// Of a guest that stands still: a thread makes a dump of what was written.
    pub fn keep(
        &mut self,
        room: &mut dyn Room,
        guest: &Guest,
        printed: Printed,
        since: Instant,
        (poll, token): (&Poll, u64),
    ) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        let keep = || -> Result<Doing, String> {
            let dumps = room.dumps().ok_or("its room is not made for that")?;
            let still = dumps.still(guest).map_err(|error| error.to_string())?;
            let written = self.store.written().map_err(words)?;
            if let Some(obstacle) = &still.obstacle {
                return Err(obstacle.clone());
            }
            let outside = still.processes.iter().find(|one| !written.contains(one));
            if outside.is_some() {
                return Err(
                    "a process of it has left its parents (a daemon), and would be missing"
                        .to_owned(),
                );
            }
            let copied = self.store.copy_mapped(&self.job_directory, &still);
            copied.map_err(words)?;
            let (printed, lengths) = match printed {
                Printed::All([(stdout, out), (stderr, err)]) => {
                    (Some([stdout, stderr]), [out, err])
                }
                Printed::Question(question) => {
                    self.store.put_question(&question).map_err(words)?;
                    (None, [0; 2])
                }
                Printed::Nothing => (None, [0; 2]),
            };
            let manifest = Manifest {
                still,
                last: written.into_iter().max().unwrap_or(0),
                pipes: self.pipes,
                stdin: self.stdin,
                printed: lengths,
                images: Vec::new(),
            };
            let (pipe, theirs) = spooling::pipe().map_err(words)?;
            let store = self.store.again().map_err(words)?;
            let (told, done) = sync_channel(1);
            let work = move || {
                let _ = told.send(store.keep(manifest, printed)); // the runner may be over
                drop(theirs);
            };
            std::thread::Builder::new().spawn(work).map_err(words)?;
            poll.add(&pipe, token, Interest::Read).map_err(words)?;
            Ok(Doing::Keep { done, pipe, since })
        };
        match keep() {
            Ok(doing) => {
                self.doing = doing;
                Ok(())
            }
            Err(why) => {
                self.abandon(since);
                Err(why)
            }
        }
    }

    /// The thread is done. Tells the dump's number, and what it took.
    pub fn kept(&mut self, poll: &Poll) -> Result<Option<(u64, Duration)>, String> {
        let Doing::Keep { done, pipe, since } = &self.doing else {
            return Ok(None);
        };
        let (since, done) = (*since, done.recv());
        let _ = poll.remove(pipe); // it is closed at once
        self.doing = Doing::Nothing;
        let outdated = std::mem::take(&mut self.outdated);
        match done {
            Ok(Ok(number)) => {
                let cost = since.elapsed();
                self.due = Instant::now() + interval(cost, self.failures, self.computed());
                if outdated {
                    let discarded = self.store.discard(number);
                    return discarded.map(|()| None).map_err(|error| error.to_string());
                }
                Ok(Some((number, cost)))
            }
            Ok(Err(error)) => {
                self.abandon(since);
                Err(error.to_string())
            }
            Err(_) => {
                self.later(since);
                Err("the thread that keeps it is gone".to_owned())
            }
        }
    }

    fn computed(&self) -> Duration {
        self.busy.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The guest stands still since then, and nobody wants to go on from that.
    pub fn abandon(&mut self, since: Instant) {
        self.later(since);
        let _ = self.store.abandon(); // else the next one does
    }

    /// Nothing came of the one that was begun then.
    fn later(&mut self, since: Instant) {
        let next = interval(since.elapsed(), self.failures, self.computed());
        self.due = Instant::now() + next.saturating_mul(LONGER);
    }

    /// The attempt has come to an end after which nobody goes on from any; of a routine's process its site decides that.
    pub fn clear(&self) {
        if self.guest == Dumped::Job && !matches!(self.doing, Doing::Keep { .. }) {
            self.store.clear();
        }
    }
}
