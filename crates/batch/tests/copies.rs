//! Hosts of real engines that have nothing where the site has kumiko-run: they start the copy that is with the spools
//! (spec/jobs/engines.md, E7).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{CondorFixture, Fixture, PilotedSlurmFixture, Record, SlurmFixture, id, script};
use kumiko_job::attempt::{AttemptCommand, Outcome};
use kumiko_job::contract::BatchSystem;
use std::path::Path;
use std::sync::Arc;

/// An attempt runs, and is cancelled, as with the site's own.
async fn runs(system: impl BatchSystem, record: &Record, top: &Path) {
    system.start(script(top, 1, "exit 5")).await.unwrap();
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 5 });
    system.command(id(1), AttemptCommand::Settled).await;
    let waits = script(top, 2, "echo up; exec sleep 600");
    system.start(waits).await.unwrap();
    record.printed(id(2), 3).await;
    let cancel = AttemptCommand::Cancel { grace_ms: 10_000 };
    system.command(id(2), cancel).await;
    assert_eq!(record.ended(id(2)).await, Outcome::Cancelled);
    system.command(id(2), AttemptCommand::Settled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slurms_hosts_start_the_copy() {
    let Some(f) = SlurmFixture::new("slurms_hosts_start_the_copy") else {
        return;
    };
    let record = Arc::new(Record::default());
    runs(f.open_copied(record.clone()), &record, f.top()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_is_started_from_the_copy() {
    let Some(f) = PilotedSlurmFixture::new("a_pilot_is_started_from_the_copy") else {
        return;
    };
    let record = Arc::new(Record::default());
    runs(f.open_copied(record.clone()), &record, f.top()).await;
    assert!(f.root().join("1.1/pilot").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn condors_hosts_start_the_copy() {
    let Some(f) = CondorFixture::new("condors_hosts_start_the_copy") else {
        return;
    };
    let record = Arc::new(Record::default());
    runs(f.open_copied(record.clone()), &record, f.top()).await;
}
