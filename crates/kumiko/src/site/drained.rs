//! Hosts of the site's engine that are drained (spec/jobs/engines.md, E20 to E23). `kumiko site drain HOST` writes them to a file,
//! which the site follows; what it has left on each it writes to another, for `kumiko site status`. Wiring only.

use crate::fail::Failure;
use crate::home::{Home, read_optional, write_whole};
use crate::site::edited;
use kumiko_batch::chosen::Chosen;
use kumiko_batch::engine::Leaves;
use kumiko_job::id::JobId;
use kumiko_linux::Dir;
use kumiko_manager::Manager;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Between two looks at hosts that are not free yet, and before an engine that did not answer is asked again.
const SOON: Duration = Duration::from_secs(2);
/// Between two looks at hosts that are free.
const LATER: Duration = Duration::from_secs(60);
/// In the state of each that serves the site: what it has left where.
const TOLD: &str = "drained.json";
/// Of that: some thousands of hosts.
const TOLD_BYTES: u64 = 1 << 20;
/// Beside that: by host, the numbers of the jobs that come to their end there.
const STAYING: &str = "drained-jobs.json";
/// Numbers of jobs in one line for people.
const NAMED: usize = 8;
/// In the file of hosts, behind one that is to be left now.
const NOW: &str = "now";
/// As of a name in DNS.
const NAME_BYTES: usize = 255;

/// By host, how many jobs of the engine are there; None: the batch system has no such host.
pub type Left = BTreeMap<String, Option<u64>>;
/// By host, jobs that come to their end there.
pub type Staying = BTreeMap<String, Vec<u64>>;

/// How a host stands.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Stands {
    /// Not all that serve the site have looked yet, or so many jobs of the engine are left.
    Draining {
        #[serde(skip_serializing_if = "Option::is_none")]
        left: Option<u64>,
        /// Jobs of the site that come to their end there.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        jobs: Vec<u64>,
    },
    Drained,
    Unknown,
}

impl Stands {
    /// By what each that serves the site found.
    fn of(host: &str, all: &[Left], jobs: Vec<u64>) -> Stands {
        let found: Option<Vec<Option<u64>>> =
            all.iter().map(|left| left.get(host).copied()).collect();
        let Some(found) = found else {
            return Stands::Draining { left: None, jobs };
        };
        let known = || found.iter().flatten();
        match known().sum() {
            0 if known().next().is_none() && !found.is_empty() => Stands::Unknown,
            0 => Stands::Drained,
            left => Stands::Draining {
                left: Some(left),
                jobs,
            },
        }
    }

    pub fn words(&self) -> String {
        match self {
            Stands::Draining { left, jobs } => {
                let left = match left {
                    None => "draining".to_owned(),
                    Some(1) => "draining: 1 job of the engine is left".to_owned(),
                    Some(left) => format!("draining: {left} jobs of the engine are left"),
                };
                format!("{left}{}", come_to_their_end(jobs))
            }
            Stands::Drained => "drained".to_owned(),
            Stands::Unknown => "no host of the batch system".to_owned(),
        }
    }
}

fn come_to_their_end(jobs: &[u64]) -> String {
    let named: Vec<String> = jobs.iter().take(NAMED).map(u64::to_string).collect();
    let named = named.join(", ");
    match jobs.len() {
        0 => String::new(),
        1 => format!(" (job {named} comes to its end there)"),
        all if all > NAMED => format!(" (jobs {named}, ... come to their end there)"),
        _ => format!(" (jobs {named} come to their end there)"),
    }
}

/// How each host stands that is to be drained. `states`: of all that serve the site.
pub fn hosts(home: &Home, states: &[PathBuf]) -> Result<BTreeMap<String, Stands>, Failure> {
    let all: Vec<Left> = states.iter().map(|state| left(state)).collect();
    // Each account counts its own jobs: of many, numbers say nothing.
    let staying: Vec<Staying> = match home.accounts().exists() {
        false => states.iter().map(|state| read(state, STAYING)).collect(),
        true => Vec::new(),
    };
    let hosts = wanted(&home.drained_hosts())?.into_keys();
    Ok(hosts
        .map(|host| {
            let jobs = staying.iter().filter_map(|of| of.get(&host)).flatten();
            let stands = Stands::of(&host, &all, jobs.copied().collect());
            (host, stands)
        })
        .collect())
}

/// Has a host drained, or not any more. `now`: calls there go on elsewhere at once, from their beginning where they must, and jobs that
/// may run again do so elsewhere.
pub fn set(home: &Home, host: &str, undo: bool, now: bool) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    if host.is_empty() || host.len() > NAME_BYTES || !host.chars().all(plain) {
        return Err(Failure::misuse(format!(
            "{host:?} is no host: give its name as the engine has it"
        )));
    }
    let path = home.drained_hosts();
    let mut hosts = wanted(&path)?;
    match undo {
        true if hosts.remove(host).is_none() => {
            return Err(Failure::from_text(format!("{host} is not drained")));
        }
        true => {}
        false => drop(hosts.insert(host.to_owned(), now)),
    }
    let line = |(host, now): (&String, &bool)| match now {
        true => format!("{host} {NOW}\n"),
        false => format!("{host}\n"),
    };
    write_whole(&path, &hosts.iter().map(line).collect::<String>())
}

/// The hosts that are to be drained; true: now.
type Wanted = BTreeMap<String, bool>;

fn wanted(path: &Path) -> Result<Wanted, Failure> {
    let text = read_optional(path)?.unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next() == Some(NOW)))
    });
    Ok(lines.collect())
}

/// What the site that has this state found last. What cannot be read is found again. The state may be another account's, who put
/// there what it likes.
fn read<T: Default + DeserializeOwned>(state: &Path, name: &str) -> T {
    let read = || {
        let file = Dir::open(state).ok()?.open_file(name).ok()?;
        serde_json::from_reader(file.take(TOLD_BYTES)).ok()
    };
    read().unwrap_or_default()
}

fn left(state: &Path) -> Left {
    read(state, TOLD)
}

/// Jobs leave the hosts that are to be left now, and slots that are taken back, if they may run again.
pub fn leave_by_jobs(manager: &Manager<Chosen>, now: &BTreeSet<String>) -> Staying {
    let staying = manager.leave(|attempt| {
        Some(match manager.batch().leaves(attempt)? {
            Leaves::Drained(host) => {
                let now = now.contains(&host);
                (host, now)
            }
            Leaves::Recalled(host) => (host, true),
        })
    });
    let numbers = |jobs: Vec<JobId>| jobs.into_iter().map(|job| job.0).collect();
    staying
        .into_iter()
        .map(|(host, jobs)| (host, numbers(jobs)))
        .collect()
}

/// The hosts that a site before this one drained, and its engine had.
pub fn before(home: &Home, state: &Path) -> Result<BTreeSet<String>, Failure> {
    let left = left(state);
    let known = |host: &String| matches!(left.get(host), Some(Some(_)));
    let hosts = wanted(&home.drained_hosts())?;
    Ok(hosts.into_keys().filter(known).collect())
}

/// Never ends. `batch`: of `owner`, which is told by `looked` whenever it was found what is where, with the hosts to be left now, and
/// says which of its jobs come to their end where.
pub async fn follow<O>(
    wanted: PathBuf,
    state: PathBuf,
    owner: Arc<O>,
    batch: fn(&O) -> &Chosen,
    looked: fn(&O, &BTreeSet<String>) -> Staying,
) {
    let edits = Notify::new();
    let follower = Follower {
        wanted: wanted.clone(),
        applied: left(&state).is_empty().then(BTreeSet::new),
        known: BTreeSet::new(),
        now: BTreeSet::new(),
        state,
    };
    let drain = async {
        let mut follower = follower;
        let mut pause = None;
        loop {
            let over = async {
                match pause {
                    None => std::future::pending().await,
                    Some(pause) => tokio::time::sleep(pause).await,
                }
            };
            // Who is told that a slot is taken back has no time to ask the engine for anything.
            let step = tokio::select! {
                () = batch(&owner).recalls() => false,
                () = edits.notified() => true,
                () = over => true,
            };
            if step {
                pause = match follower.step(batch(&owner)).await {
                    Ok(pause) => pause,
                    Err(error) => {
                        tracing::warn!(%error, "hosts that are to be drained are not yet");
                        Some(SOON)
                    }
                };
            }
            let staying = looked(&owner, &follower.now);
            if let Err(error) = follower.tell(&staying) {
                tracing::warn!(%error, "which jobs come to their end on drained hosts is not told");
            }
        }
    };
    tokio::join!(
        edited::follow(vec![wanted], || async { edits.notify_one() }),
        drain
    );
}

struct Follower {
    wanted: PathBuf,
    state: PathBuf,
    /// What the batch system was told; None: it may be told something of a site before this one.
    applied: Option<BTreeSet<String>>,
    /// Those of them that it has, and those that are to be left now.
    known: BTreeSet<String>,
    now: BTreeSet<String>,
}

impl Follower {
    fn tell(&self, staying: &Staying) -> Result<(), Failure> {
        if *staying == read::<Staying>(&self.state, STAYING) {
            return Ok(());
        }
        write_whole(&self.state.join(STAYING), &serde_json::to_string(staying)?)
    }

    /// When to look again; None: once the file is edited.
    async fn step(&mut self, batch: &Chosen) -> Result<Option<Duration>, Failure> {
        let wanted = wanted(&self.wanted)?;
        let now = wanted.iter().filter(|(_, now)| **now);
        self.now = now.map(|(host, _)| host.clone()).collect();
        let hosts: BTreeSet<String> = wanted.into_keys().collect();
        if self.applied.as_ref() != Some(&hosts) {
            self.known = batch.drain(&hosts).await?;
            tracing::info!(?hosts, known = ?self.known, "hosts are drained");
            self.applied = Some(hosts.clone());
        }
        let on = batch.on(&self.known).await?;
        let left: Left = hosts
            .iter()
            .map(|host| (host.clone(), on.get(host).copied()))
            .collect();
        if left != self::left(&self.state) {
            write_whole(&self.state.join(TOLD), &serde_json::to_string(&left)?)?;
        }
        let busy = on.values().any(|left| *left > 0);
        Ok(match (self.known.is_empty(), busy) {
            (true, _) => None,
            (false, true) => Some(SOON),
            (false, false) => Some(LATER),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_drained_once_all_have_looked_and_nothing_is_left() {
        let of = |found: &[&[(&str, Option<u64>)]]| {
            let all: Vec<Left> = found
                .iter()
                .map(|one| {
                    one.iter()
                        .map(|(host, left)| ((*host).to_owned(), *left))
                        .collect()
                })
                .collect();
            Stands::of("n1", &all, Vec::new())
        };
        let draining = |left| {
            let jobs = Vec::new();
            Stands::Draining { left, jobs }
        };
        assert_eq!(of(&[]), Stands::Drained);
        assert_eq!(of(&[&[("n1", Some(0))], &[]]), draining(None));
        assert_eq!(
            of(&[&[("n1", Some(2))], &[("n1", Some(1))]]),
            draining(Some(3))
        );
        assert_eq!(of(&[&[("n1", Some(0))], &[("n1", None)]]), Stands::Drained);
        assert_eq!(of(&[&[("n1", None)], &[("n1", None)]]), Stands::Unknown);
    }
}
