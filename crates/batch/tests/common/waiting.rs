//! Attempts that wait until they are told to go on, and count how often they were started; and what a full disk does to some.

use super::{Record, id, script, until};
use kumiko_job::attempt::{AttemptSpec, Outcome};
use kumiko_job::contract::{BatchError, BatchSystem};
use std::ops::RangeInclusive;
use std::path::Path;

const WELL: Outcome = Outcome::Exited { status: 0 };
/// Until it is told to go on.
pub const WAITS: &str = "echo up; while [ ! -e go ]; do sleep 0.02; done";

/// Counts its starts, and waits.
pub fn counted(top: &Path, job: u64) -> AttemptSpec {
    script(top, job, &format!("echo x >> ran; {WAITS}"))
}

pub fn once_each(top: &Path, jobs: RangeInclusive<u64>) {
    for job in jobs {
        let ran = std::fs::read_to_string(top.join(format!("job-{job}/ran"))).unwrap();
        assert_eq!(ran, "x\n", "{job}");
    }
}

pub fn go(top: &Path, job: u64) {
    std::fs::write(top.join(format!("job-{job}/go")), "").unwrap();
}

/// The spools are on a disk of 2 MiB.
pub async fn what_becomes_of_a_full_disk(system: &impl BatchSystem, record: &Record, top: &Path) {
    let quiet = format!("{WAITS}; exit 3");
    system.start(script(top, 1, &quiet)).await.unwrap();
    record.printed(id(1), 3).await;
    let loud = "head -c 4000000 /dev/zero; exit 0";
    system.start(script(top, 2, loud)).await.unwrap();
    match record.ended(id(2)).await {
        Outcome::SpoolFailed { message } => assert!(message.contains("No space"), "{message}"),
        other => panic!("{other:?}"),
    }
    let refused = system.start(script(top, 3, "exit 0")).await;
    assert!(
        matches!(refused, Err(BatchError::Spool { .. })),
        "{refused:?}"
    );
    // One that writes nothing more ends as it would have, and its end is kept.
    go(top, 1);
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 3 });
    system.forget(id(2)).await;
    // What it wrote is gone when its runner is, which had it open.
    let probe = top.join("spools/probe");
    until(|| std::fs::write(&probe, [0; 1 << 20]).is_ok()).await;
    std::fs::remove_file(&probe).unwrap();
    system.start(script(top, 4, "exit 0")).await.unwrap();
    assert_eq!(record.ended(id(4)).await, WELL);
}
