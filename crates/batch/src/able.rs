//! What a batch system can be asked for. Pure: what it cannot give is refused before anything is recorded.

use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;

const QUEUE: &str = "queue";
const PROJECT: &str = "project";
const HOST_COUNT: &str = "host_count";

/// Which resources a batch system can give, besides processors and memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Able {
    /// Graphics processors are set aside.
    pub gpus: bool,
    /// Parts of a processor, rates, and numbers of processes are.
    pub shares: bool,
    pub queues: bool,
    pub projects: bool,
    pub exclusive: bool,
    /// An MPI program has several hosts.
    pub hosts: bool,
}

/// Refuses what is asked for beyond that.
pub fn only(asked: &JobDescription, able: &Able, system: &str) -> Result<(), Refusal> {
    let (count, mpi, asked) = (asked.count, asked.mpi.is_some(), &asked.resources);
    let hosts = asked.host_count.unwrap_or(1);
    if hosts > 1 && able.hosts && !(mpi && hosts <= count) {
        return Err(Refusal::new(
            code(HOST_COUNT),
            format!(
                "a job of {hosts} hosts is one MPI program of at least as many ranks: ask for it (mpi, and count), or for one host"
            ),
        ));
    }
    let rows = [
        ("cpu_percent", asked.cpu_percent.is_some(), able.shares),
        (
            "network_kbyte_s",
            asked.network_kbyte_s.is_some(),
            able.shares,
        ),
        ("disk_kbyte_s", asked.disk_kbyte_s.is_some(), able.shares),
        ("processes", asked.processes.is_some(), able.shares),
        ("gpus", asked.gpus.is_some_and(|gpus| gpus > 0), able.gpus),
        (QUEUE, asked.queue.is_some(), able.queues),
        (PROJECT, asked.project.is_some(), able.projects),
        ("exclusive", asked.exclusive, able.exclusive),
        (HOST_COUNT, hosts > 1, able.hosts),
    ];
    match rows.iter().find(|(_, asked, able)| *asked && !able) {
        None => Ok(()),
        Some((name, ..)) => Err(Refusal::new(
            code(name),
            format!(
                "the job asks for {name}, which the batch system {system} of this site cannot give: leave it out"
            ),
        )),
    }
}

/// GRAM has a number for each of these.
fn code(name: &str) -> &'static str {
    match name {
        QUEUE => "queue_refused",
        PROJECT => "project_refused",
        HOST_COUNT => "host_count_refused",
        _ => "resource_refused",
    }
}
