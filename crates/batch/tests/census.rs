//! What engines say of how full they are, real ones of testbeds/, and what is told of one that says nothing
//! (spec/jobs/placement.md, PM1 to PM3).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_batch::census::{self, Counted};
use kumiko_batch::engine::Trouble;
use kumiko_batch::{Tools, condor, slurm};
use kumiko_job::census::{Census, PilotCensus};
use kumiko_testkit::engine::Engine;
use std::process::Command;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, sleep};

/// Far more than any of this takes.
const DEADLINE: Duration = Duration::from_secs(60);

fn tools(engine: &Engine) -> Tools {
    let environment = engine.environment();
    let with = |tools: Tools, (name, value): (&str, _)| tools.with(name, value);
    environment.into_iter().fold(Tools::here(), with)
}

fn ok(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Slots, free ones, jobs that wait and run.
async fn until(engine: &impl Counted, expected: (u64, u64, u64, u64)) -> Census {
    let begun = Instant::now();
    loop {
        let census = engine.census().await.unwrap();
        let Census {
            slots,
            slots_free,
            waiting,
            running,
            ..
        } = census;
        if (slots, slots_free, waiting, running) == expected {
            return census;
        }
        assert!(begun.elapsed() < DEADLINE, "{expected:?}: {census:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn slurm_tells_its_slots_its_queues_and_its_jobs() {
    let test = "slurm_tells_its_slots_its_queues_and_its_jobs";
    let Some(engine) = Engine::own("slurm", &[], test) else {
        return;
    };
    let slurm = slurm::Commands(tools(&engine));
    let idle = until(&slurm, (64, 64, 0, 0)).await;
    let names: Vec<&str> = idle.queues.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["all", "urgent"]);
    assert_eq!(idle.slots_host, 32);
    let sbatch = |more: &[&str]| {
        let mut sbatch = engine.command("sbatch");
        ok(sbatch.arg("--output=/dev/null").args(more));
    };
    sbatch(&["--hold", "--wrap=true"]);
    sbatch(&[
        "--partition=urgent",
        "--cpus-per-task=4",
        "--wrap=sleep 1000",
    ]);
    let busy = until(&slurm, (64, 60, 1, 1)).await;
    let urgent = &busy.queues[1];
    assert_eq!(
        (urgent.slots_free, urgent.waiting, urgent.running),
        (60, 0, 1)
    );
    assert_eq!((busy.queues[0].waiting, busy.queues[0].running), (1, 0));
    let mut scancel = engine.command("scancel");
    ok(scancel.args(["--me"]));
}

#[tokio::test]
async fn condor_tells_its_slots_and_its_jobs() {
    let test = "condor_tells_its_slots_and_its_jobs";
    let Some(engine) = Engine::own("condor", &[], test) else {
        return;
    };
    let condor = condor::Commands(tools(&engine));
    let idle = until(&condor, (64, 64, 0, 0)).await;
    assert_eq!(idle.slots_host, 32);
    let submission = engine.directory.path().join("census.submit");
    let lines =
        "executable = /bin/sleep\narguments = 1000\ntransfer_executable = false\nlog = /dev/null\n";
    let queues = "request_cpus = 4\nqueue 1\nrequest_cpus = 1000\nqueue 1\n";
    std::fs::write(&submission, format!("{lines}{queues}")).unwrap();
    ok(engine.command("condor_submit").arg(&submission));
    until(&condor, (64, 60, 1, 1)).await;
}

/// Answers when the test has it do so.
struct Told(Mutex<mpsc::Receiver<Option<u64>>>);

impl Counted for Told {
    async fn census(&self) -> Result<Census, Trouble> {
        let slots = self.0.lock().await.recv().await.flatten();
        let none = || Trouble::unreachable("sinfo", "nobody is there".to_owned());
        let census = slots.map(|slots| Census {
            slots,
            ..Census::default()
        });
        census.ok_or_else(none)
    }
}

#[tokio::test]
async fn an_engine_that_says_nothing_has_no_counts_until_it_does() {
    let (answer, answers) = mpsc::channel(1);
    let engine = Told(Mutex::new(answers));
    let pilots = PilotCensus { ready: 2, idle: 1 };
    let sender = watch::Sender::new(None);
    let mut told = sender.subscribe();
    let every = Duration::from_millis(1);
    let keeping = tokio::spawn(census::keep(engine, move || Some(pilots), sender, every));
    for expected in [Some(1), None, Some(2)] {
        answer.send(expected).await.unwrap();
        told.changed().await.unwrap();
        let census = told.borrow_and_update().clone();
        assert_eq!(census.as_ref().map(|census| census.slots), expected);
        assert!(census.is_none_or(|census| census.pilots == Some(pilots)));
    }
    // Nobody is told any more, so nobody is asked.
    drop(told);
    drop(answer);
    keeping.await.unwrap();
}
