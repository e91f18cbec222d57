//! The rows of the speed table: pings, one job after another and many at once, delegation's processor time, the
//! toolkit's own command, and where the time of a job goes. Not here: paper 004 (`paper`).

use super::bare::Bare;
use super::peaks::peaks;
use super::places::Place;
use super::way::{Steps, TRUE, Way, rate};
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::proc;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::{Summary, Unit};
use crate::wait;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const OURS: &str = "kumiko";
const GCT: &str = "GCT";
const BARE: &str = "bare TLS ping";
const OURS_RSA: &str = "kumiko, RSA users";
const GCT_RSA: &str = "GCT, RSA users";
const TAIL: &str = "kumiko, p99 / median";
const BARE_TAIL: &str = "bare TLS ping, p99 / median";
const PEAKS: &str = "kumiko, peaks";
/// Runs of which a tail is taken: five are beyond the 99th percentile.
const BLOCK: usize = 500;
/// One run of the toolkit takes a second.
const GCT_RUNS: usize = 30;
/// Of a rate.
const SAMPLE: Duration = Duration::from_secs(2);
/// The toolkit starts one or two jobs a second.
const GCT_JOBS_SAMPLE: Duration = Duration::from_secs(8);
/// Operations between two looks at processor times, which the kernel tells in hundredths of a second.
const OPERATIONS: usize = 200;

/// What the rows share.
pub struct Setup<'a> {
    pub runtime: &'a Runtime,
    pub ours: &'a Place,
    pub gct: &'a Result<Place, Failure>,
    pub bare: Arc<Bare>,
    pub runs: usize,
    pub rounds: usize,
    pub clients: usize,
}

fn goal(text: &'static str, ours: &'static str, reach: Reach) -> Goal {
    Goal { text, ours, reach }
}

impl Setup<'_> {
    /// The toolkit's, or the row says why not.
    fn peer(&self, row: &mut Row) -> Option<&Place> {
        match self.gct {
            Ok(place) => Some(place),
            Err(failure) => {
                row.lacks(Some(GCT), failure);
                None
            }
        }
    }

    pub fn pings(&self) -> Row {
        let times = Reach::AtLeastTimes {
            theirs: GCT,
            times: 5.0,
        };
        let mut row = Row::new(
            "pings",
            "Authenticated pings a second",
            vec![goal("≥ 5 × GCT", OURS, times)],
        );
        let pings = |way: &Arc<Way>| {
            let way = Arc::clone(way);
            move || {
                let way = Arc::clone(&way);
                async move { way.ping().await.map(|_| ()) }
            }
        };
        let bare = {
            let bare = Arc::clone(&self.bare);
            move || {
                let bare = Arc::clone(&bare);
                async move { bare.ping().await.map(|_| ()) }
            }
        };
        let mut contenders = vec![Contender::new(OURS, Unit::PerSecond, || {
            self.runtime
                .block_on(rate(self.clients, SAMPLE, pings(&self.ours.other)))
        })];
        if let Some(place) = self.peer(&mut row) {
            for (name, way) in [(GCT, &place.other), (GCT_RSA, &place.way)] {
                contenders.push(Contender::new(name, Unit::PerSecond, || {
                    self.runtime
                        .block_on(rate(self.clients, SAMPLE, pings(way)))
                }));
            }
        }
        contenders.push(Contender::new(OURS_RSA, Unit::PerSecond, || {
            self.runtime
                .block_on(rate(self.clients, SAMPLE, pings(&self.ours.way)))
        }));
        contenders.push(Contender::new(BARE, Unit::PerSecond, || {
            self.runtime
                .block_on(rate(self.clients, SAMPLE, bare.clone()))
        }));
        rounds::take(&mut row, self.rounds, contenders);
        row.note(format!(
            "{} clients at once, whose half of each handshake this machine makes too: so they have P-256 keys, on both sides, and those with RSA keys are beside. Bare TLS has RSA users.",
            self.clients
        ));
        for (name, place) in [(OURS, Some(self.ours)), (GCT, self.gct.as_ref().ok())] {
            match place.map(|place| self.spent(&place.other)) {
                Some(Ok((client, others))) => row.note(format!(
                    "{name}, one ping after another: {:.2} ms of processor in the client, {:.2} ms in all else of the machine.",
                    client * 1e3,
                    others * 1e3
                )),
                Some(Err(failure)) => row.lacks(Some(name), &failure),
                None => {}
            }
        }
        row
    }

    /// Processor seconds of a ping: of this process, and of all others while it was waited for.
    fn spent(&self, way: &Way) -> Result<(f64, f64), Failure> {
        let now = || Ok((proc::processor_s(std::process::id())?, proc::machine_s()?));
        let (client, machine) = now()?;
        for _ in 0..OPERATIONS {
            self.runtime.block_on(way.ping())?;
        }
        let (client, machine) = (now()?.0 - client, now()?.1 - machine);
        let each = |seconds: f64| seconds / OPERATIONS as f64;
        Ok((each(client), each(machine - client)))
    }

    /// One job after another: the time, its shape, and where it goes.
    pub fn jobs_alone(&self) -> [Row; 3] {
        let mut job = Row::new(
            "job",
            "Connecting to the word DONE, one job at a time",
            vec![goal(
                "≤ 20 ms in the median",
                OURS,
                Reach::AtMost { limit: 20e-3 },
            )],
        );
        let mut shape = Row::new(
            "shape",
            "Its tail and its modes",
            vec![
                goal(
                    "p99 / median ≤ 1.5 × that of a bare TLS ping",
                    TAIL,
                    Reach::AtMostTimes {
                        theirs: BARE_TAIL,
                        times: 1.5,
                    },
                ),
                goal("one mode", PEAKS, Reach::AtMost { limit: 1.0 }),
            ],
        );
        let mut parts = Row::new("parts", "Where the time of a job goes", Vec::new());
        let peer = self.peer(&mut job);
        if let Err(failure) = self.alone(&mut job, &mut shape, &mut parts, peer) {
            for row in [&mut job, &mut shape, &mut parts] {
                row.lacks(None, &failure);
            }
        }
        [job, shape, parts]
    }

    fn alone(
        &self,
        job: &mut Row,
        shape: &mut Row,
        parts: &mut Row,
        peer: Option<&Place>,
    ) -> Result<(), Failure> {
        let (mut jobs, mut pings) = (Vec::new(), Vec::new());
        let every = (self.runs / GCT_RUNS).max(1);
        for run in 0..self.runs {
            crate::guard::go_on();
            let steps = self.runtime.block_on(self.ours.way.job(TRUE))?;
            jobs.push(steps.done);
            part(parts, &OUR_PARTS, steps);
            pings.push(self.runtime.block_on(self.bare.ping())?);
            if let Some(place) = peer.filter(|_| run % every == 0) {
                let steps = self.runtime.block_on(place.way.job(TRUE))?;
                job.series(GCT, Unit::Seconds).push(steps.done);
                part(parts, &GCT_PARTS, steps);
            }
        }
        for (block, beside) in jobs.chunks(BLOCK).zip(pings.chunks(BLOCK)) {
            for (name, samples) in [(TAIL, block), (BARE_TAIL, beside)] {
                if let Some(s) = Summary::of(samples) {
                    shape.series(name, Unit::Plain).push(s.p99 / s.median);
                }
            }
        }
        let found = peaks(&jobs);
        let told: Vec<String> = found.iter().map(|at| Unit::Seconds.show(*at)).collect();
        shape.note(format!(
            "{} jobs; peaks at {}.",
            jobs.len(),
            told.join(", ")
        ));
        shape.note(format!(
            "Tails of blocks of {BLOCK}; peaks of the whole: of four bins an octave, at least a fiftieth of all, parted by a valley of half its height."
        ));
        shape.series(PEAKS, Unit::Plain).push(found.len() as f64);
        job.series(OURS, Unit::Seconds).extend(&jobs);
        job.series(BARE, Unit::Seconds).extend(&pings);
        job.note("The client's own work is in it: its half of the handshakes, and a signature with an RSA key for the proxy.");
        Ok(())
    }

    pub fn jobs(&self) -> Row {
        let goals = vec![
            goal("≥ 100 a second", OURS, Reach::AtLeast { limit: 100.0 }),
            goal(
                "≥ 50 × GCT",
                OURS,
                Reach::AtLeastTimes {
                    theirs: GCT,
                    times: 50.0,
                },
            ),
        ];
        let mut row = Row::new("jobs", "Delegated jobs a second, submission to DONE", goals);
        let jobs = |way: &Arc<Way>| {
            let way = Arc::clone(way);
            move || {
                let way = Arc::clone(&way);
                async move { way.job(TRUE).await.map(|_| ()) }
            }
        };
        let mut contenders = vec![Contender::new(OURS, Unit::PerSecond, || {
            self.runtime
                .block_on(rate(self.clients, SAMPLE, jobs(&self.ours.way)))
        })];
        if let Some(place) = self.peer(&mut row) {
            contenders.push(Contender::new(GCT, Unit::PerSecond, || {
                self.runtime
                    .block_on(rate(self.clients, GCT_JOBS_SAMPLE, jobs(&place.way)))
            }));
        }
        rounds::take(&mut row, self.rounds.min(4), contenders);
        row.note(format!("{} clients at once.", self.clients));
        row
    }

    /// Processor time of the gatekeeper for what a delegation adds to an exchange.
    pub fn delegation(&self) -> Row {
        let goals = vec![goal("≤ 1 ms", OURS, Reach::AtMost { limit: 1e-3 })];
        let mut row = Row::new("delegation", "Processor time of a delegation", goals);
        let ours = || {
            let with = self.each(|| self.ours.way.dry_run())?;
            let without = self.each(|| async { self.ours.way.ping().await.map(|_| ()) })?;
            Ok(with - without)
        };
        let contenders = vec![Contender::new(OURS, Unit::Seconds, ours)];
        rounds::take(&mut row, self.rounds, contenders);
        row.note("A dry run, in which the chain is judged and the request is read as well, less a ping. GCT's processes end unaccounted; what they take to make a key is in the row of the parts.");
        row
    }

    /// Processor seconds that one operation takes in our gatekeeper.
    fn each<F>(&self, one: impl Fn() -> F) -> Result<f64, Failure>
    where
        F: Future<Output = Result<(), Failure>>,
    {
        let pid = self.ours.pid()?;
        let before = proc::processor_s(pid)?;
        for _ in 0..OPERATIONS {
            self.runtime.block_on(one())?;
        }
        Ok((proc::processor_s(pid)? - before) / OPERATIONS as f64)
    }

    /// The unmodified command.
    pub fn command(&self) -> Row {
        let goals = vec![goal(
            "≤ 1/6 of GCT's",
            OURS,
            Reach::AtMostTimes {
                theirs: GCT,
                times: 1.0 / 6.0,
            },
        )];
        let row = Row::new("command", "globus-job-run … /bin/echo hello", goals);
        or_missing(row, |row| {
            crate::peers::found("globus-job-run", "globus-gram-client-tools")?;
            let mut contenders = vec![said_hello(OURS, self.ours)];
            if let Some(place) = self.peer(row) {
                contenders.push(said_hello(GCT, place));
            }
            rounds::take(row, self.rounds * 2, contenders);
            row.note("The toolkit's command, unmodified; it is a shell script that starts several programs.");
            Ok(())
        })
    }
}

fn said_hello<'a>(name: &'static str, place: &'a Place) -> Contender<'a> {
    Contender::new(name, Unit::Seconds, move || {
        let begun = std::time::Instant::now();
        let output = wait::output(&mut place.command(), wait::SAMPLE_WITHIN)?;
        let took = begun.elapsed().as_secs_f64();
        match output.stdout.as_slice() {
            b"hello\n" => Ok(took),
            other => Err(Failure::unexpected(format!(
                "{name}: globus-job-run said {:?}",
                String::from_utf8_lossy(other)
            ))),
        }
    })
}

/// TCP, TLS, greeting; the key for a delegation; the client's signature; the job's acceptance; its start; its end.
const OUR_PARTS: [&str; 6] = [
    "kumiko: TLS",
    "kumiko: a key is made",
    "kumiko: client signs",
    "kumiko: job accepted",
    "kumiko: ACTIVE told",
    "kumiko: DONE told",
];
const GCT_PARTS: [&str; 6] = [
    "GCT: TLS",
    "GCT: a key is made",
    "GCT: client signs",
    "GCT: job accepted",
    "GCT: ACTIVE told",
    "GCT: DONE told",
];

fn part(row: &mut Row, names: &[&'static str; 6], steps: Steps) {
    // The word that it runs may overtake the gatekeeper's answer.
    let active = steps.active.unwrap_or(steps.done).max(steps.answered);
    let ends = [
        steps.greeted,
        steps.asked,
        steps.given,
        steps.answered,
        active,
        steps.done,
    ];
    let mut before = 0.0;
    for (name, end) in names.iter().zip(ends) {
        row.series(name, Unit::Seconds).push(end - before);
        before = end;
    }
}
