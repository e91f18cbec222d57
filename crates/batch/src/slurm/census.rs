//! How full a Slurm is, by `sinfo` and `squeue` (sinfo(1), squeue(1)). The second half is pure: what they print.

use super::Commands;
use crate::census::Counted;
use crate::engine::Trouble;
use crate::engine::seen::Garbled;
use crate::engine::tool::ask;
use kumiko_job::census::{Census, QUEUES_MOST, Queue};
use std::collections::{BTreeMap, BTreeSet};

/// What `sinfo` prints of a host in a partition: host, partition, whether that is up, processors that are
/// allocated/idle/other/all.
pub const HOSTS: &str = "%N|%R|%a|%C";
/// What `squeue` prints of a job: partitions, state.
pub const JOBS: &str = "%P|%T";

impl Counted for Commands {
    async fn census(&self) -> Result<Census, Trouble> {
        let line = ["--noheader", "--Node", "--format", HOSTS];
        let hosts = self.lines("sinfo", &line).await?;
        let states = "--states=PENDING,RUNNING";
        let line = ["--noheader", states, "--format", JOBS];
        let jobs = self.lines("squeue", &line).await?;
        census(&hosts, &jobs).map_err(|error| Trouble::unreachable("sinfo", error.to_string()))
    }
}

impl Commands {
    pub(super) async fn lines(&self, program: &str, line: &[&str]) -> Result<Vec<u8>, Trouble> {
        let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let said = ask(&self.0, program, &line, "").await?;
        match said.well {
            true => Ok(said.output),
            false => Err(Trouble::unreachable(program, said.complaint)),
        }
    }
}

/// Reads both. A host counts once, in however many partitions it is, and is free where one of them is up; a job in each that it waits for, and once in all. What
/// is not wholly of their lines is not believed at all.
pub fn census(hosts: &[u8], jobs: &[u8]) -> Result<Census, Garbled> {
    let mut census = Census::default();
    let mut queues: BTreeMap<&str, Queue> = BTreeMap::new();
    let (mut counted, mut freed) = (BTreeSet::new(), BTreeSet::new());
    for line in text(hosts)?.lines() {
        let garbled = || Garbled::new(line);
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [host, name, state, slots] = parts[..] else {
            return Err(garbled());
        };
        let slots: Result<Vec<u64>, _> = slots.split('/').map(str::parse).collect();
        let slots = slots.map_err(|_| garbled())?;
        let [_allocated, idle, _other, all] = slots[..] else {
            return Err(garbled());
        };
        let queue = queues.entry(name).or_insert_with(|| Queue {
            name: name.to_owned(),
            open: state == "up",
            ..Queue::default()
        });
        queue.slots = queue.slots.saturating_add(all);
        if counted.insert(host) {
            census.slots = census.slots.saturating_add(all);
        }
        if queue.open {
            queue.slots_free = queue.slots_free.saturating_add(idle);
            if freed.insert(host) {
                census.slots_free = census.slots_free.saturating_add(idle);
                census.slots_host = census.slots_host.max(idle);
            }
        }
    }
    for line in text(jobs)?.lines() {
        let Some((names, state)) = line.split_once('|') else {
            return Err(Garbled::new(line));
        };
        let waits = match state.trim() {
            "PENDING" => true,
            "RUNNING" => false,
            _ => return Err(Garbled::new(line)),
        };
        census.waiting += u64::from(waits);
        census.running += u64::from(!waits);
        for name in names.split(',') {
            if let Some(queue) = queues.get_mut(name.trim()) {
                queue.waiting += u64::from(waits);
                queue.running += u64::from(!waits);
            }
        }
    }
    census.queues = queues.into_values().take(QUEUES_MOST).collect();
    Ok(census)
}

fn text(output: &[u8]) -> Result<&str, Garbled> {
    std::str::from_utf8(output).map_err(|_| Garbled::new("bytes that are no text"))
}
