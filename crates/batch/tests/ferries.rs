//! Hosts of a real Slurm to which no socket of the site leads, nor theirs to the site. An overlay stands for the directory that a file
//! server shares: in it a socket is another inode than outside, so to connect from the other side fails as from another kernel. What the
//! host has looked at once it does not see change, but when the kernel forgets what it has seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{OwnSlurm, Record, end_pilots, ferry, id, pilots, script, until};
use kumiko_batch::engine::Cluster;
use kumiko_batch::pilots::Piloted;
use kumiko_batch::slurm::Commands;
use kumiko_job::attempt::{AttemptCommand, AttemptSpec, Outcome};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::Resources;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const WELL: Outcome = Outcome::Exited { status: 0 };
/// Runs until it is told.
const WAITS: &str = "echo x >> ran; echo up; while [ ! -e go ]; do sleep 0.02; done; echo down";

struct Elsewhere {
    slurm: OwnSlurm,
    ferry: PathBuf,
}

impl Elsewhere {
    fn new(test: &str) -> Option<Elsewhere> {
        let ferry = ferry(test)?;
        if !kumiko_linux::is_root() {
            eprintln!("SKIP {test}: missing root, for hosts with views of their own");
            return None;
        }
        let slurm = OwnSlurm::new(test, &[("SLURM_HOSTS", "1"), ("SLURM_VIEWS", "yes")])?;
        let it = Elsewhere { slurm, ferry };
        it.mount();
        Some(it)
    }

    fn root(&self) -> PathBuf {
        self.slurm.top().join("spools")
    }

    /// Has the host see the spools' root through an overlay.
    fn mount(&self) {
        let top = self.slurm.top().to_string_lossy().into_owned();
        for name in ["spools", "work", "nothing"] {
            std::fs::create_dir_all(self.slurm.top().join(name)).unwrap();
        }
        let environment = self.slurm.engine.environment();
        let conf = environment.iter().find(|(name, _)| *name == "SLURM_CONF");
        let pid = Path::new(&conf.unwrap().1).with_file_name("slurmd.n1.pid");
        let pid = std::fs::read_to_string(pid).unwrap().trim().to_owned();
        let options = format!("lowerdir={top}/nothing,upperdir={top}/spools,workdir={top}/work");
        let mounted = Command::new("nsenter")
            .args([
                "-t", &pid, "-m", "mount", "-t", "overlay", "-o", &options, "none",
            ])
            .arg(self.root())
            .status();
        assert!(mounted.unwrap().success(), "{options}");
    }

    fn open(&self, record: &Arc<Record>, most: u32) -> Cluster<Piloted<Commands>> {
        let (record, ferry) = (Arc::clone(record), self.ferry.clone());
        self.slurm.ferried(record, pilots(0, most, 4), ferry)
    }

    /// No socket leads to whoever is in the place.
    fn is_elsewhere(&self, place: &str) {
        let socket = self.root().join(place).join("control");
        let error = UnixStream::connect(socket).expect_err("a socket of another kernel");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    /// The processes that ferry for a place.
    fn ferries(&self, place: &str) -> Vec<i32> {
        let wanted = self.root().join(place).to_string_lossy().into_owned();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let is = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            words[0].ends_with(b"kumiko-ferry") && words.get(1) == Some(&wanted.as_bytes())
        };
        let pids = processes.filter_map(|one| one.file_name().to_str()?.parse().ok());
        pids.filter(is).collect()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        end_pilots(&self.root());
    }
}

fn ran(f: &Elsewhere, job: u64) -> usize {
    let ran = std::fs::read_to_string(f.slurm.top().join(format!("job-{job}/ran")));
    ran.unwrap_or_default().lines().count()
}

fn go(f: &Elsewhere, job: u64) {
    std::fs::write(f.slurm.top().join(format!("job-{job}/go")), "").unwrap();
}

/// The kernel forgets what it has seen of directories, as a client of a file server does after a while.
fn forget() {
    std::fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
}

async fn ended(system: &impl BatchSystem, record: &Record, job: u64) -> Outcome {
    let outcome = record.ended(id(job)).await;
    system.command(id(job), AttemptCommand::Settled).await;
    outcome
}

/// One that goes to the engine itself.
fn direct(f: &Elsewhere, job: u64, text: &str) -> AttemptSpec {
    AttemptSpec {
        resources: Resources {
            queue: Some("urgent".into()),
            ..Resources::default()
        },
        ..script(f.slurm.top(), job, text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_on_a_host_of_another_kernel_takes_attempts_and_tells_of_them_while_they_run() {
    let test =
        "a_pilot_on_a_host_of_another_kernel_takes_attempts_and_tells_of_them_while_they_run";
    let Some(f) = Elsewhere::new(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(&record, 1);
    for job in 1..=3 {
        system
            .start(script(f.slurm.top(), job, WAITS))
            .await
            .unwrap();
    }
    for job in 1..=3 {
        record.printed(id(job), 3).await;
    }
    f.is_elsewhere("pilot-1");
    f.is_elsewhere("1.1");
    go(&f, 1);
    assert_eq!(ended(&system, &record, 1).await, WELL);
    let cancel = AttemptCommand::Cancel { grace_ms: 100 };
    system.command(id(2), cancel).await;
    assert_eq!(ended(&system, &record, 2).await, Outcome::Cancelled);
    // A ferry that is killed is back, and what ran meanwhile ran once.
    for pid in f.ferries("pilot-1") {
        common::signal(pid.try_into().unwrap(), 9);
    }
    go(&f, 3);
    assert_eq!(ended(&system, &record, 3).await, WELL);
    system
        .start(script(f.slurm.top(), 4, "exit 4"))
        .await
        .unwrap();
    assert_eq!(
        ended(&system, &record, 4).await,
        Outcome::Exited { status: 4 }
    );
    assert_eq!(ran(&f, 3), 1);
    assert!(!f.root().join("pilot-2").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_on_a_host_of_another_kernel_outlives_its_site() {
    let test = "what_runs_on_a_host_of_another_kernel_outlives_its_site";
    let Some(f) = Elsewhere::new(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(&record, 1);
    system.start(script(f.slurm.top(), 1, WAITS)).await.unwrap();
    system.start(direct(&f, 2, WAITS)).await.unwrap();
    for job in 1..=2 {
        record.printed(id(job), 3).await;
    }
    drop(system);
    go(&f, 1);
    let record = Arc::new(Record::default());
    let system = f.open(&record, 1);
    forget();
    for job in 1..=2 {
        system.adopt(id(job)).await;
    }
    assert_eq!(ended(&system, &record, 1).await, WELL);
    record.printed(id(2), 3).await;
    go(&f, 2);
    assert_eq!(ended(&system, &record, 2).await, WELL);
    // The pilot too is found again.
    system
        .start(script(f.slurm.top(), 3, "exit 3"))
        .await
        .unwrap();
    assert_eq!(
        ended(&system, &record, 3).await,
        Outcome::Exited { status: 3 }
    );
    assert!(!f.root().join("pilot-2").exists());
    assert_eq!([ran(&f, 1), ran(&f, 2)], [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_the_engine_starts_there_itself_hears_commands() {
    let test = "an_attempt_that_the_engine_starts_there_itself_hears_commands";
    let Some(f) = Elsewhere::new(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(&record, 0);
    let text = "trap 'echo heard; exit 5' USR1; echo up; while :; do sleep 0.02; done";
    system.start(script(f.slurm.top(), 1, text)).await.unwrap();
    record.printed(id(1), 3).await;
    f.is_elsewhere("1.1");
    system
        .command(id(1), AttemptCommand::Signal { signal: 10 })
        .await;
    assert_eq!(
        ended(&system, &record, 1).await,
        Outcome::Exited { status: 5 }
    );
    // The ferry goes with its runner.
    until(|| f.ferries("1.1").is_empty()).await;
}
