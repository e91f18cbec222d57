//! Live stdin through the contract `Jobs`, against a batch system that the test plays.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{Asked, alice, done, not_begun, open, program, soon};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, STDIN_WINDOW_BYTES};
use kumiko_job::contract::Jobs;
use kumiko_job::description::Stdin;
use std::time::Duration;

#[tokio::test]
async fn stdin_waits_for_the_guest_and_no_longer_than_it_lives() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let mut description = program();
    description.stdin = Stdin::Live;
    let (id, spec) = stage.submit(description).await;
    stage.run(spec.id);
    let data = Bytes::from(vec![1; usize::try_from(STDIN_WINDOW_BYTES).unwrap() + 10]);
    let manager = std::sync::Arc::clone(&stage.manager);
    let mut sending = tokio::spawn(async move {
        manager
            .command(&alice(), id, AttemptCommand::Stdin { offset: 0, data })
            .await
    });
    let Asked::Command(_, AttemptCommand::Stdin { offset: 0, data }) = stage.asked().await else {
        panic!()
    };
    assert_eq!(data.len() as u64, STDIN_WINDOW_BYTES);
    assert!(
        tokio::time::timeout(Duration::from_millis(1), &mut sending)
            .await
            .is_err()
    );
    stage.report(spec.id, AttemptReport::StdinTaken { offset: 4 });
    let Asked::Command(_, AttemptCommand::Stdin { offset, data }) = stage.asked().await else {
        panic!()
    };
    assert_eq!((offset, data.len()), (STDIN_WINDOW_BYTES, 4));
    let taken = stage
        .manager
        .stdin_taken(&alice(), id, Some(3))
        .await
        .unwrap();
    assert_eq!((taken.offset, taken.closed), (4, false));
    stage.end(spec.id, done());
    soon("the end of sending", sending).await.unwrap().unwrap();
    assert!(
        stage
            .manager
            .stdin_taken(&alice(), id, Some(4))
            .await
            .unwrap()
            .closed
    );
}

#[tokio::test]
async fn stdin_that_comes_early_is_for_the_attempt_that_begins() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let mut description = program();
    description.stdin = Stdin::Live;
    let (id, first) = stage.submit(description).await;
    let said = [
        AttemptCommand::Stdin {
            offset: 0,
            data: Bytes::from_static(b"words"),
        },
        AttemptCommand::StdinEnd { offset: 5 },
    ];
    let manager = std::sync::Arc::clone(&stage.manager);
    let early = said.clone();
    let sending = tokio::spawn(async move {
        for command in early {
            manager.command(&alice(), id, command).await.unwrap();
        }
    });
    stage.end(first.id, not_begun());
    let second = stage.started().await;
    stage.run(second.id);
    for expected in said {
        let Asked::Command(to, command) = stage.asked().await else {
            panic!()
        };
        assert_eq!((to, command), (second.id, expected));
    }
    soon("the end of sending", sending).await.unwrap();
}
