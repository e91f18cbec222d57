//! One MPI program on three hosts of a real Slurm, each with a network of its own: in sandboxes, by every mechanism, and no faster
//! between them than the policy lets it (spec/jobs/mpi.md, N20 to N27).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{OwnSlurm, Record, script, until};
use kumiko_job::attempt::{AttemptCommand, AttemptSpec, Limits, Outcome};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::{Mpi, Resources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const HOSTS: u32 = 3;
/// Two on each host, of which the last has one only.
const COUNT: u32 = 5;
/// `BYTES` of hosts/ranks.c take 2 s by it.
const LIMIT_KBYTE_S: u64 = 1_250;
const LEAST_MS: u64 = 1_000;

/// None, said: no such Slurm can be had here.
fn three_hosts(test: &str) -> Option<OwnSlurm> {
    OwnSlurm::new(test, &[("SLURM_NETWORKS", "yes"), ("SLURM_HOSTS", "3")])
}

/// Makes `ranks` in a folder; false: it cannot be compiled here.
fn compiled(test: &str, folder: &Path) -> bool {
    const COMPILER: &str = "mpicc.openmpi";
    if !kumiko_testkit::has_program(COMPILER) {
        kumiko_testkit::skip(test, &format!("{COMPILER} (of libopenmpi-dev)"));
        return false;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts/ranks.c");
    let mut line = Command::new(COMPILER);
    line.args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
    let output = line.arg(folder.join("ranks")).arg(source).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    true
}

/// So many ranks on all hosts.
fn ranks(top: &Path, job: u64, count: u32, program: &[&str]) -> AttemptSpec {
    let (program, arguments) = program.split_first().unwrap();
    AttemptSpec {
        executable: (*program).to_owned(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        count,
        mpi: Some(Mpi::Auto),
        resources: Resources {
            host_count: Some(HOSTS),
            ..Resources::default()
        },
        ..script(top, job, "")
    }
}

/// Runs an attempt to its end: how it ended, and what it wrote.
async fn run(system: &impl BatchSystem, record: &Record, spec: AttemptSpec) -> (Outcome, String) {
    let (id, spool) = (spec.id, system.spool(spec.id));
    system.start(spec).await.unwrap();
    let outcome = record.ended(id).await;
    let read = |name: &str| std::fs::read_to_string(spool.join(name)).unwrap();
    let said = read("stdout") + &read("stderr");
    system.command(id, AttemptCommand::Settled).await;
    (outcome, said)
}

/// No supervisor for it can be had here.
fn cannot_be_used(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NeverStarted { code, .. } if code == "mechanism_unavailable")
}

/// Two of the ranks on a host, and slowed between hosts.
fn as_they_should(said: &str) {
    for rank in 0..COUNT {
        let host = rank / 2;
        let line = format!("rank {rank} of {COUNT}, host {host}, in /job\n");
        assert!(said.contains(&line), "{line}{said}");
    }
    let took = said
        .lines()
        .find_map(|line| line.strip_prefix("took ")?.strip_suffix(" ms"));
    let took: u64 = took.unwrap().parse().unwrap();
    assert!(took >= LEAST_MS, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_on_three_hosts_are_in_sandboxes_and_as_slow_between_them_as_their_policy() {
    let test = "ranks_on_three_hosts_are_in_sandboxes_and_as_slow_between_them_as_their_policy";
    let Some(f) = three_hosts(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let mut limited = ranks(f.top(), 1, COUNT, &["./ranks"]);
    let failing = ranks(f.top(), 2, COUNT, &["./ranks", "fail"]);
    let waiting = ranks(f.top(), 3, COUNT, &["./ranks", "wait"]);
    let all = [&limited, &failing, &waiting];
    if !all.iter().all(|spec| compiled(test, &spec.job_directory)) {
        return;
    }
    limited.policy.limits = Limits {
        network_kbyte_s: Some(LIMIT_KBYTE_S),
        ..Limits::default()
    };
    let (outcome, said) = run(&system, &record, limited).await;
    assert_eq!(outcome, Outcome::Exited { status: 0 }, "{said}");
    as_they_should(&said);

    let (outcome, said) = run(&system, &record, failing).await;
    assert_eq!(outcome, Outcome::Exited { status: 7 }, "{said}");

    let (id, folder) = (waiting.id, waiting.job_directory.clone());
    system.start(waiting).await.unwrap();
    until(|| (0..COUNT).all(|rank| folder.join(format!("up.{rank}")).exists())).await;
    let cancel = AttemptCommand::Cancel { grace_ms: 10_000 };
    system.command(id, cancel).await;
    assert_eq!(record.ended(id).await, Outcome::Cancelled);
    system.command(id, AttemptCommand::Settled).await;
    until(|| works_in(&folder) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_on_three_hosts_meet_where_a_supervisor_answers_their_calls() {
    let test = "ranks_on_three_hosts_meet_where_a_supervisor_answers_their_calls";
    let Some(f) = three_hosts(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    for (place, mechanism) in ["notify", "ptrace", "library"].into_iter().enumerate() {
        let job = |number| place as u64 * 3 + number;
        let under = |spec| AttemptSpec {
            mechanism: Some(mechanism.to_owned()),
            ..spec
        };
        let mut well = under(ranks(f.top(), job(1), COUNT, &["./ranks"]));
        well.policy.limits.network_kbyte_s = Some(LIMIT_KBYTE_S);
        let failing = under(ranks(f.top(), job(2), COUNT, &["./ranks", "fail"]));
        if ![&well, &failing]
            .iter()
            .all(|spec| compiled(test, &spec.job_directory))
        {
            return;
        }
        let (outcome, said) = run(&system, &record, well).await;
        if cannot_be_used(&outcome) {
            kumiko_testkit::skip(test, &format!("what {mechanism} needs"));
            continue;
        }
        assert_eq!(
            outcome,
            Outcome::Exited { status: 0 },
            "{mechanism}: {said}"
        );
        as_they_should(&said);
        let (outcome, said) = run(&system, &record, failing).await;
        assert_eq!(
            outcome,
            Outcome::Exited { status: 7 },
            "{mechanism}: {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mpichs_launcher_reaches_all_hosts_and_tells_what_became_of_one() {
    let test = "mpichs_launcher_reaches_all_hosts_and_tells_what_became_of_one";
    if !kumiko_testkit::has_program("mpiexec.hydra") {
        return kumiko_testkit::skip(test, "mpiexec.hydra (of mpich)");
    }
    let Some(f) = three_hosts(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open_copied(record.clone());
    let ranks = |job, text| {
        let spec = ranks(f.top(), job, HOSTS, &["/bin/sh", "-c", text]);
        let mpi = Some(Mpi::Mpich);
        AttemptSpec { mpi, ..spec }
    };
    let told = ranks(
        1,
        "echo $PMI_RANK of $PMI_SIZE $(readlink /proc/self/ns/net)",
    );
    let (outcome, said) = run(&system, &record, told).await;
    assert_eq!(outcome, Outcome::Exited { status: 0 }, "{said}");
    let places = said.lines().filter_map(|line| line.split_once(" of 3 "));
    let places: BTreeMap<&str, &str> = places.collect();
    let numbers: Vec<&str> = places.keys().copied().collect();
    assert_eq!(numbers, ["0", "1", "2"], "{said}");
    let networks: BTreeSet<&str> = places.values().copied().collect();
    assert_eq!(networks.len(), 3, "{said}");
    let (outcome, said) = run(&system, &record, ranks(2, "exit $((PMI_RANK * 3))")).await;
    assert!(
        matches!(outcome, Outcome::Exited { status } if status != 0),
        "{outcome:?}: {said}"
    );
}

/// Processes that work in a folder.
fn works_in(folder: &Path) -> usize {
    let folder = folder.canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let there = |process: &std::fs::DirEntry| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
    };
    processes.filter(there).count()
}
