//! The fault harness of calls, in real processes: while a C program calls routines, its link is cut, half-closed, garbled or held up at a
//! byte or between records of TLS, the site, runners and routines are killed or stopped, and the site's wall clock leaps forth and back, or
//! its disk is full for a while. Every call has its one right result, each callback is asked once, and nothing hangs. What is done is drawn
//! from a seed: `KUMIKO_SEED=n` has it again, `KUMIKO_TRIALS=n` does more, `KUMIKO_ENGINE=slurm` or `condor` does it to calls in pilots, which
//! are killed too; the engine's own processes are stopped then, and clock and disk are left alone: they are the engine's as well. `carried` is
//! Slurm with a host that has nothing of the site (spec/jobs/pilots.md, PL50).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;
mod runners;

use kumiko_e2e::clock::Clock;
use kumiko_e2e::{DEADLINE, Person, alive, finish, told, until, wait};
use kumiko_testkit::engine::Engine;
use kumiko_testkit::proxy::{Fault, Harm, Proxy, Way};
use routines::Caller;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// More take longer than a test may; a bench does 500.
const TRIALS: u64 = 100;
/// Programs that call at once.
const CALLERS: u64 = 4;
/// Processes that are killed while a stage is held up in its middle: of a test run, and of a long one.
const KILLS: u64 = 24;
const KILLS_LONG: u64 = 200;
/// Of a soak.
const MINUTES: u64 = 30;
/// For each processor, processes that do nothing but take its time.
const BUSY: usize = 2;
/// A link is held up for so long at most: less than what makes a host suspect (spec/rpc P37).
const HELD_MOST_MS: u64 = 2_500;
/// What is stopped goes on after this.
const PAUSE: Duration = Duration::from_millis(300);
/// Routines that are hurt on purpose take up to about so long; what hurts them comes within it.
const WITHIN_MS: u64 = 150;
/// Within the year that the certificates hold.
const LEAP_MOST_DAYS: u64 = 300;
/// Of the site alone: as much as it leaves to others (spec/errors.toml, `rpc_no_room`), and what calls need.
const DISK: &str = "size=160m,mode=700";
/// What a site says that has no room for a call.
const NO_ROOM: &str = "the site has no room for the call's arguments";
/// Slurm whose host shares no folder with the site, and how a site is started that carries them there.
const CARRIED: &str = "carried";
const ON_CARRIED: [&str; 7] = [
    "--batch",
    "slurm",
    "--landing",
    "127.0.0.1",
    "--carry",
    "--pilots",
    "8",
];
/// Many records of TLS.
const BULK_BYTES: u64 = 200_000;

/// "Fast splittable pseudorandom number generators" (Steele, Lea, Flood 2014): splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

#[derive(Clone, Copy, Debug)]
enum Hurt {
    Link(Fault),
    /// After so long: kill, or stop for a while.
    Process(Which, bool, Duration),
    /// After so long: so many days ahead, for a while.
    Clock(u64, Duration),
    /// After so long: full, for a while.
    Disk(Duration),
}

/// What is there to be hurt besides.
#[derive(Clone, Copy)]
struct There {
    engine: bool,
    clock: bool,
    disk: bool,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Site,
    Pilot,
    Runner,
    Routine,
    /// Of the engine's own processes, which nobody would start again: they are stopped only.
    Engine,
}

/// What a program is told to call, and what is done to it.
fn draw(random: &mut Random, there: There) -> (String, Hurt) {
    if random.below(2) == 0 {
        // Bytes that go up at least, and down; with some that are TLS's and the session's.
        let (call, up, down) = match random.below(4) {
            0 => ("sum 10 0".to_owned(), 300, 100),
            1 => {
                let n = 1_000 + random.below(100_000);
                (format!("sum {n} 0"), 8 * n, 100)
            }
            2 => {
                let n = 1_000 + random.below(100_000);
                // What comes back overwrites what goes in, or goes where it belongs as it comes.
                match random.below(2) {
                    0 => (format!("every {n} 0"), 4 * n, 4 * n),
                    _ => (format!("turn {n} 0"), 16 * n, 16 * n),
                }
            }
            _ => ("count 10 1000".to_owned(), 1_000, 1_000),
        };
        let (way, most) = match random.below(2) {
            0 => (Way::Up, up),
            _ => (Way::Down, down),
        };
        let mut after_bytes = random.below(most) as usize;
        let harm = match random.below(5) {
            0 => Harm::Cut,
            1 => Harm::HalfClose,
            // In the first half of much: what is lost is found out by what follows.
            2 if most >= BULK_BYTES => {
                after_bytes /= 2;
                Harm::Lose(1 + random.below(1_000) as usize)
            }
            2 | 3 => Harm::Twice,
            _ => Harm::Hold(Duration::from_millis(random.below(200))),
        };
        let fault = Fault {
            way,
            after_bytes,
            between: random.below(3) == 0,
            harm,
        };
        return (call, Hurt::Link(fault));
    }
    let call = match random.below(3) {
        0 => "slow 20 5000",
        1 => "count 20 5000",
        _ if random.below(2) == 0 => "turn 100000 0",
        _ => "every 200000 0",
    };
    let which = match random.below(10) {
        0..2 => Which::Site,
        2..5 => Which::Runner,
        5 if there.engine => Which::Pilot,
        6 if there.engine => Which::Engine,
        _ => Which::Routine,
    };
    let is_kill = random.below(3) > 0 && !matches!(which, Which::Engine);
    let after = Duration::from_millis(random.below(WITHIN_MS));
    let hurt = match random.below(6) {
        0 if there.clock => Hurt::Clock(1 + random.below(LEAP_MOST_DAYS), after),
        1 if there.disk => Hurt::Disk(after),
        _ => Hurt::Process(which, is_kill, after),
    };
    (call.to_owned(), hurt)
}

/// What is called, and where its arguments, the answers to its callbacks, or its result are held up while a process is killed.
fn draw_inside(random: &mut Random, trial: u64) -> (&'static str, Fault, Which) {
    let (call, way, from, most) = match trial % 3 {
        0 => ("every 200000 0", Way::Up, 20_000, 700_000),
        1 => ("count 40 1000", Way::Up, 600, 2_000),
        _ if trial % 2 == 0 => ("every 200000 0", Way::Down, 20_000, 700_000),
        _ => ("turn 100000 0", Way::Down, 20_000, 1_500_000),
    };
    let fault = Fault {
        way,
        after_bytes: from + random.below(most) as usize,
        between: random.below(3) == 0,
        harm: Harm::Hold(PAUSE),
    };
    let which = match random.below(3) {
        0 => Which::Site,
        1 => Which::Runner,
        _ => Which::Routine,
    };
    (call, fault, which)
}

struct Site {
    /// Dropped first, so that the site lets in who ends it.
    clock: Option<Clock>,
    engine: Option<&'static Engine>,
    /// Of this site alone.
    own: Option<Engine>,
    caller: Caller,
    has_disk: bool,
    /// What it is started with, but for its address.
    start: Vec<String>,
    /// At first any port; then the one that it had.
    address: SocketAddr,
    /// Held by who does something to the site.
    hurt: Mutex<()>,
}

impl Site {
    fn new(test: &str) -> Option<Site> {
        let engine = std::env::var("KUMIKO_ENGINE").ok();
        let name = engine.map(|name| match name.as_str() {
            "carried" => CARRIED,
            "slurm" => "slurm",
            _ => "condor",
        });
        Site::on(name, test)
    }

    fn on(name: Option<&'static str>, test: &str) -> Option<Site> {
        let (own, mut person) = match name {
            None => (None, Person::new()),
            Some(CARRIED) => {
                let (engine, person) = engines::apart(test)?;
                (Some(engine), person)
            }
            Some(name) => (None, engines::user(name, test)?),
        };
        let clock = name.map_or_else(|| Clock::new(&person), |_| None);
        let has_disk = name.is_none() && person.with_disk(DISK);
        for (is_there, what) in [
            (clock.is_some(), "without faketime no clock leaps"),
            (has_disk, "without the right to mount no disk is full"),
        ] {
            if name.is_none() && !is_there {
                eprintln!("{what}");
            }
        }
        let mut start: Vec<String> = ["site", "start"].map(str::to_owned).into();
        match name {
            Some(CARRIED) => start.extend(ON_CARRIED.map(str::to_owned)),
            Some(name) => start.extend(["--batch", name, "--pilots", "8"].map(str::to_owned)),
            None => {}
        }
        start.push("--listen".to_owned());
        let mut site = Site {
            clock,
            has_disk,
            engine: name
                .filter(|name| *name != CARRIED)
                .and_then(|name| Engine::shared(name, test)),
            own,
            caller: Caller { person },
            start,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            hurt: Mutex::default(),
        };
        site.starts();
        if let Some(engine) = &site.own {
            engines::absent(engine, &site.caller.person);
        }
        let told = site.caller.person.kumiko_home().join("run/site.json");
        let told: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(told).unwrap()).unwrap();
        site.address = told["address"].as_str().unwrap().parse().unwrap();
        site.caller.make(&["samples", "callback"], &[]);
        Some(site)
    }

    fn starts(&self) {
        let address = self.address.to_string();
        let words = self.start.iter().chain([&address]);
        let mut command = self.caller.person.kumiko(words);
        if let Some(clock) = &self.clock {
            command.envs(clock.variables());
        }
        let started = finish(command.stdin(Stdio::null()));
        assert!(started.status.success(), "{}", told(&started));
    }

    fn engine(&self) -> Option<&Engine> {
        self.engine.or(self.own.as_ref())
    }

    fn there(&self) -> There {
        There {
            engine: self.engine().is_some(),
            clock: self.clock.is_some(),
            disk: self.has_disk,
        }
    }

    /// Processes of this site that are such.
    fn pids(&self, which: Which) -> Vec<u32> {
        match which {
            Which::Site => vec![self.caller.person.site_pid()],
            Which::Pilot => runners::pilots_and_runners(&self.caller.person).0,
            Which::Runner => runners::pilots_and_runners(&self.caller.person).1,
            Which::Routine => self.caller.routine_pids(0, &[]),
            Which::Engine => self.engine().map_or_else(Vec::new, daemons),
        }
    }

    fn fill(&self) {
        let _turn = self.hurt.lock().unwrap_or_else(PoisonError::into_inner);
        let filler = self.caller.person.fill_disk();
        std::thread::sleep(PAUSE);
        std::fs::remove_file(filler).unwrap();
    }

    fn leap(&self, days: u64) {
        let _turn = self.hurt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = &self.clock {
            clock.jump(&format!("+{days}d"));
            std::thread::sleep(PAUSE);
            clock.jump("+0");
        }
    }

    /// False: there was none to be hurt.
    fn hurt(&self, which: Which, is_kill: bool, random: &mut Random) -> bool {
        let _turn = self.hurt.lock().unwrap_or_else(PoisonError::into_inner);
        let pids = self.pids(which);
        if pids.is_empty() {
            return false;
        }
        let pid = pids[random.below(pids.len() as u64) as usize];
        // It may end by itself just now, which is no matter.
        let signal = |name: &str| {
            let mut kill = Command::new("kill");
            kill.args([name, &pid.to_string()]).stderr(Stdio::null());
            kill.status().unwrap().success()
        };
        if !is_kill {
            let stopped = signal("-STOP");
            std::thread::sleep(PAUSE);
            signal("-CONT");
            return stopped;
        }
        let killed = signal("-KILL");
        if matches!(which, Which::Site) {
            until("the site is gone", || !alive(pid));
            self.starts();
        }
        killed
    }
}

/// Of those that take jobs, and start them.
fn daemons(engine: &Engine) -> Vec<u32> {
    const NAMES: [&[u8]; 4] = [
        b"slurmctld\n",
        b"slurmd\n",
        b"condor_schedd\n",
        b"condor_startd\n",
    ];
    let directory = engine.directory.path().to_str().unwrap();
    let of = |pid: &u32| {
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let given = [read("cmdline"), read("environ")].concat();
        NAMES.contains(&read("comm").as_slice())
            && String::from_utf8_lossy(&given).contains(directory)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(of).collect()
}

/// A program that calls, behind a proxy of its own.
struct Calling {
    child: Child,
    stdin: ChildStdin,
    said: Receiver<String>,
    proxy: Proxy,
}

impl Calling {
    fn new(site: &Site, number: u64) -> Calling {
        let proxy = Proxy::before(site.address).unwrap();
        let home = site.caller.person.kumiko_home();
        let contact = std::fs::read_to_string(home.join("contact.toml")).unwrap();
        // Of some, all is recorded; of others, what lasts, and what has callbacks.
        let durability = ["full", "auto"][(number % 2) as usize];
        let contact = format!("durability = \"{durability}\"\n{contact}");
        let port = format!("port = {}", site.address.port());
        assert!(contact.contains(&port), "{contact}");
        let instead = format!("port = {}", proxy.address().port());
        let file = site
            .caller
            .person
            .home
            .path()
            .join(format!("contact-{number}.toml"));
        std::fs::write(&file, contact.replace(&port, &instead)).unwrap();
        let mut program = site.caller.person.program("./calls", [&file]);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Calling {
            stdin: child.stdin.take().unwrap(),
            child,
            said,
            proxy,
        }
    }

    /// What was not begun for want of room is its caller's to begin again.
    fn hear_with_room(&mut self, call: &str) -> String {
        let begun = Instant::now();
        loop {
            let said = self.hear();
            if !said.contains(NO_ROOM) || begun.elapsed() > DEADLINE {
                return said;
            }
            std::thread::sleep(PAUSE / 10);
            writeln!(self.stdin, "{call}").unwrap();
        }
    }

    fn hear(&self) -> String {
        let said = self.said.recv_timeout(DEADLINE);
        said.unwrap_or_else(|error| format!("nothing: {error}"))
    }
}

/// Told at the end, whatever that is: `./x bench rpc` reads it.
struct Tally {
    trials: u64,
    right: AtomicUsize,
    hurt: AtomicUsize,
}

impl Drop for Tally {
    fn drop(&mut self) {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (right, hurt) = (of(&self.right), of(&self.hurt));
        eprintln!(
            "{right} of {} calls are right, {hurt} were hurt",
            self.trials
        );
    }
}

#[test]
fn whatever_dies_or_fails_every_call_has_its_one_right_result() {
    let test = "whatever_dies_or_fails_every_call_has_its_one_right_result";
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed: u64 = number("KUMIKO_SEED").unwrap_or(1);
    let trials: u64 = number("KUMIKO_TRIALS").unwrap_or(TRIALS);
    let Some(site) = Site::new(test) else {
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/calls.c");
    compiled::compile(&site.caller, &source, "calls");
    let site = &site;
    let tally = Tally {
        trials,
        right: AtomicUsize::new(0),
        hurt: AtomicUsize::new(0),
    };
    // Before anything is hurt: who has never reached the site is told so at once.
    let callers: Vec<Calling> = (0..CALLERS.min(trials))
        .map(|number| Calling::new(site, number))
        .collect();
    for calling in &callers {
        assert_eq!(calling.hear(), "right", "the program begins");
    }
    std::thread::scope(|scope| {
        for (number, mut calling) in (0..).zip(callers) {
            let tally = &tally;
            scope.spawn(move || {
                for trial in (number..trials).step_by(CALLERS as usize) {
                    let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(trial));
                    let (call, hurt) = draw(&mut random, site.there());
                    if let Hurt::Link(fault) = hurt {
                        calling.proxy.arm(fault);
                    }
                    writeln!(calling.stdin, "{call}").unwrap();
                    let was_hit = match hurt {
                        Hurt::Link(_) => false,
                        Hurt::Process(which, is_kill, after) => {
                            std::thread::sleep(after);
                            site.hurt(which, is_kill, &mut random)
                        }
                        Hurt::Clock(days, after) => {
                            std::thread::sleep(after);
                            site.leap(days);
                            true
                        }
                        Hurt::Disk(after) => {
                            std::thread::sleep(after);
                            site.fill();
                            true
                        }
                    };
                    let said = calling.hear_with_room(&call);
                    assert_eq!(
                        said, "right",
                        "KUMIKO_SEED={seed}, trial {trial}: {call}, {hurt:?}"
                    );
                    let was_hit = match hurt {
                        Hurt::Link(_) => calling.proxy.disarm(),
                        Hurt::Process(..) | Hurt::Clock(..) | Hurt::Disk(_) => was_hit,
                    };
                    tally.right.fetch_add(1, Ordering::Relaxed);
                    tally.hurt.fetch_add(was_hit.into(), Ordering::Relaxed);
                }
                drop(calling.stdin);
                assert!(wait(&mut calling.child).success(), "the program ends well");
            });
        }
    });
    let hurt = tally.hurt.load(Ordering::Relaxed) as u64;
    assert!(
        hurt * 2 > trials,
        "most are to be hurt: {hurt} of {trials} were"
    );
}

/// Each result is compared to the bit, by the program.
fn killed_inside_stages(test: &str, kills: u64) {
    let Some(site) = Site::new(test) else {
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/calls.c");
    compiled::compile(&site.caller, &source, "calls");
    let (site, killed) = (&site, &AtomicUsize::new(0));
    let mut all: Vec<Calling> = (0..CALLERS).map(|one| Calling::new(site, one)).collect();
    for calling in &all {
        assert_eq!(calling.hear(), "right", "the program begins");
    }
    // A kill may hit any of the calls, and one that came no further eight times is given up: so all of a round are over before the next.
    for round in 0..kills / CALLERS {
        std::thread::scope(|scope| {
            for (trial, calling) in (round * CALLERS..).zip(&mut all) {
                scope.spawn(move || {
                    let mut random = Random(trial);
                    let (call, fault, which) = draw_inside(&mut random, trial);
                    calling.proxy.arm(fault);
                    writeln!(calling.stdin, "{call}").unwrap();
                    let mut early = None;
                    until("the stage is held up", || {
                        let has_struck = calling.proxy.has_struck();
                        if !has_struck {
                            early = calling.said.try_recv().ok();
                        }
                        has_struck || early.is_some()
                    });
                    assert_eq!(early, None, "trial {trial}: {call}, {fault:?}");
                    let kill = |which, random: &mut Random| site.hurt(which, true, random);
                    let was_killed = kill(which, &mut random) || kill(Which::Site, &mut random);
                    killed.fetch_add(was_killed.into(), Ordering::Relaxed);
                    let said = calling.hear();
                    assert_eq!(said, "right", "trial {trial}: {call}, {fault:?}, {which:?}");
                });
            }
        });
    }
    for mut calling in all {
        drop(calling.stdin);
        assert!(wait(&mut calling.child).success(), "the program ends well");
    }
    assert_eq!(killed.load(Ordering::Relaxed) as u64, kills);
}

#[test]
fn processes_are_killed_inside_each_stage_and_results_are_the_same_to_the_bit() {
    let test = "processes_are_killed_inside_each_stage_and_results_are_the_same_to_the_bit";
    killed_inside_stages(test, KILLS);
}

#[test]
#[ignore = "takes minutes: `./x test --all`"]
fn two_hundred_processes_are_killed_inside_stages() {
    killed_inside_stages("two_hundred_processes_are_killed_inside_stages", KILLS_LONG);
}

/// Takes a processor's time until it is dropped.
struct Busy(Child);

impl Busy {
    fn new() -> Busy {
        let mut shell = Command::new("sh");
        Busy(shell.args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processors are busy, and links are cut and held up, but nothing dies: nobody is to be suspected, and no call computed again.
#[test]
#[ignore = "takes half an hour, or KUMIKO_MINUTES: `./x test --all`"]
fn under_stress_no_call_is_computed_twice_for_a_false_alarm() {
    let test = "under_stress_no_call_is_computed_twice_for_a_false_alarm";
    let minutes = std::env::var("KUMIKO_MINUTES").ok();
    let minutes = minutes
        .and_then(|text| text.parse().ok())
        .unwrap_or(MINUTES);
    let Some(site) = Site::on(Some("slurm"), test) else {
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/calls.c");
    compiled::compile(&site.caller, &source, "calls");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _busy: Vec<Busy> = (0..processors * BUSY).map(|_| Busy::new()).collect();
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let (site, calls) = (&site, &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..CALLERS {
            scope.spawn(move || {
                let mut calling = Calling::new(site, number);
                assert_eq!(calling.hear(), "right", "the program begins");
                let mut random = Random(number);
                while Instant::now() < end {
                    let call = match random.below(4) {
                        0 => "slow 100 20000",
                        1 => "count 20 5000",
                        2 => "sum 1000 0",
                        _ => "every 100000 0",
                    };
                    let harm = match random.below(3) {
                        0 => Harm::Cut,
                        _ => Harm::Hold(Duration::from_millis(random.below(HELD_MOST_MS))),
                    };
                    calling.proxy.arm(Fault {
                        way: if random.below(2) == 0 {
                            Way::Up
                        } else {
                            Way::Down
                        },
                        after_bytes: random.below(2_000) as usize,
                        between: false,
                        harm,
                    });
                    writeln!(calling.stdin, "{call}").unwrap();
                    assert_eq!(calling.hear(), "right", "{call}, {harm:?}");
                    calling.proxy.disarm();
                    for alarm in ["\"suspected\"", "\"planned\":{\"epoch\":2"] {
                        assert_eq!(site.caller.count_in_log(alarm), 0, "{alarm} after {call}");
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                drop(calling.stdin);
                assert!(wait(&mut calling.child).success(), "the program ends well");
            });
        }
    });
    let calls = calls.load(Ordering::Relaxed);
    eprintln!("{calls} calls in {minutes} minutes, each computed once");
    assert!(calls > 0);
}
