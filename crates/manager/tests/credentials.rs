//! Credentials of jobs: taken once, found by the guest, renewed, told of in time, and gone with the end (spec/jobs J60 to J64).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Stage, alice, bob, done, not_begun, open, program, soon, try_open};
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::contract::{Caller, Delegated, EventStream, Jobs, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_manager::Limits;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

fn code<T>(result: Result<T, Refusal>) -> String {
    result.err().map(|refusal| refusal.code).unwrap_or_default()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() as u64
}

fn proxy(text: &str, left_ms: u64) -> Delegated {
    Delegated {
        pem: text.as_bytes().to_vec().into(),
        not_after_ms: now_ms() + left_ms,
    }
}

fn with(credential: &str) -> JobDescription {
    JobDescription {
        credential: Some(credential.to_owned()),
        ..program()
    }
}

fn store(directory: &Path) -> PathBuf {
    directory.join("manager/credentials")
}

fn kept(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(store(directory)).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    entries.map(name).collect()
}

async fn give(stage: &Stage, caller: &Caller, text: &str, left_ms: u64) -> String {
    let given = stage.manager.new_credential(caller, proxy(text, left_ms));
    given.await.unwrap()
}

fn copy(spec: &AttemptSpec) -> PathBuf {
    spec.job_directory.join(".x509_proxy")
}

fn read(spec: &AttemptSpec) -> String {
    std::fs::read_to_string(copy(spec)).unwrap()
}

/// Waits for what is done after it was told.
async fn until(what: &str, so: impl Fn() -> bool) {
    soon(what, async {
        while !so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn renew(
    stage: &Stage,
    caller: Caller,
    job: JobId,
    text: &str,
    left_ms: u64,
) -> Result<(), Refusal> {
    stage
        .manager
        .renew(&caller, job, proxy(text, left_ms))
        .await
}

/// The kinds of a job's events, up to the nth of this one.
async fn kinds_up_to(stage: &Stage, job: JobId, last: &str, nth: usize) -> Vec<String> {
    let mut events = stage.manager.watch(&alice(), job, 0).await.unwrap();
    let mut kinds = Vec::new();
    while count(&kinds, last) < nth {
        kinds.push(soon(last, events.next()).await.unwrap().kind);
    }
    kinds
}

fn count(kinds: &[String], kind: &str) -> usize {
    kinds.iter().filter(|one| *one == kind).count()
}

#[tokio::test]
async fn the_guest_finds_it_and_nothing_is_kept_after_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let name = give(&stage, &alice(), "one", HOUR_MS).await;
    assert_eq!(kept(dir.path()), [format!("{name}.pem")]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&store(dir.path())), 0o700);
    assert_eq!(mode(&store(dir.path()).join(format!("{name}.pem"))), 0o600);

    let (id, spec) = stage.submit(with(&name)).await;
    assert_eq!(spec.environment["X509_USER_PROXY"], "/job/.x509_proxy");
    assert_eq!((read(&spec).as_str(), mode(&copy(&spec))), ("one", 0o600));
    let view = stage.manager.show(&alice(), id).await.unwrap();
    let left_ms = view.credential_ends_ms.unwrap() - now_ms();
    assert!((59 * MINUTE_MS..=HOUR_MS).contains(&left_ms), "{left_ms}");

    stage.run(spec.id);
    stage.end(spec.id, done());
    let kinds = stage.events_to_end(id).await;
    assert_eq!(kinds[1].kind, "credential_given");
    until("nothing is kept", || {
        kept(dir.path()).is_empty() && !copy(&spec).exists()
    })
    .await;
    let view = stage.manager.show(&alice(), id).await.unwrap();
    assert_eq!(view.credential_ends_ms, None);
}

#[tokio::test]
async fn a_variable_of_the_description_stands() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let mut description = with(&give(&stage, &alice(), "one", HOUR_MS).await);
    let own = ("X509_USER_PROXY".to_owned(), "/mine".to_owned());
    description.environment.extend([own]);
    let (_, spec) = stage.submit(description).await;
    assert_eq!(spec.environment["X509_USER_PROXY"], "/mine");
    assert_eq!(read(&spec), "one");
}

#[tokio::test]
async fn it_is_taken_once_by_its_owner_and_while_it_lasts() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        credentials_per_caller: 2,
        ..Limits::default()
    };
    let mut stage = try_open(dir.path(), limits).await.unwrap();
    let name = give(&stage, &alice(), "one", HOUR_MS).await;
    let submit = |caller: Caller, name: &str, key: Option<&str>| {
        let (manager, description) = (&stage.manager, with(name));
        let key = key.map(str::to_owned);
        async move { manager.submit(&caller, description, key).await }
    };
    assert_eq!(code(submit(bob(), &name, None).await), "no_such_credential");
    assert_eq!(code(submit(alice(), "0", None).await), "no_such_credential");
    let id = submit(alice(), &name, Some("k")).await.unwrap();
    assert_eq!(
        code(submit(alice(), &name, None).await),
        "no_such_credential"
    );

    // Asked again by a client that has delegated anew.
    let anew = give(&stage, &alice(), "two", HOUR_MS).await;
    assert_eq!(submit(alice(), &anew, Some("k")).await.unwrap(), id);

    let over = give(&stage, &alice(), "over", 0).await;
    assert_eq!(
        code(submit(alice(), &over, None).await),
        "no_such_credential"
    );
    give(&stage, &alice(), "three", HOUR_MS).await;
    assert!(
        !kept(dir.path()).contains(&format!("{over}.pem")),
        "it has ended"
    );
    let (alice, four) = (alice(), proxy("four", HOUR_MS));
    let fourth = stage.manager.new_credential(&alice, four).await;
    assert_eq!(code(fourth), "too_many_credentials");
    give(&stage, &bob(), "bob's", HOUR_MS).await;
    assert_eq!(stage.started().await.id.job, id);
}

#[tokio::test]
async fn a_renewal_replaces_whatever_stands_there_or_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (plain, _) = stage.submit(program()).await;
    assert_eq!(
        code(renew(&stage, alice(), plain, "x", HOUR_MS).await),
        "job_without_credential"
    );
    assert!(kept(dir.path()).is_empty());
    let name = give(&stage, &alice(), "one", HOUR_MS).await;
    let id = stage
        .manager
        .submit(&alice(), with(&name), None)
        .await
        .unwrap();
    let spec = stage.started().await;
    stage.run(spec.id);
    std::fs::write(dir.path().join("victim"), "mine").unwrap();

    renew(&stage, alice(), id, "two", HOUR_MS).await.unwrap();
    assert_eq!(read(&spec), "two");
    std::fs::remove_file(copy(&spec)).unwrap();
    symlink(dir.path().join("victim"), copy(&spec)).unwrap();
    renew(&stage, alice(), id, "three", HOUR_MS).await.unwrap();
    assert_eq!(read(&spec), "three");
    std::fs::remove_file(copy(&spec)).unwrap();
    std::fs::create_dir_all(copy(&spec).join("a/b")).unwrap();
    renew(&stage, alice(), id, "four", HOUR_MS).await.unwrap();
    assert_eq!(read(&spec), "four");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("victim")).unwrap(),
        "mine"
    );

    // Recorded and not placed: the next site does it.
    let aside = dir.path().join("aside");
    std::fs::rename(&spec.job_directory, &aside).unwrap();
    symlink(dir.path(), &spec.job_directory).unwrap();
    assert_eq!(
        code(renew(&stage, alice(), id, "five", HOUR_MS).await),
        "credential_not_placed"
    );
    assert!(
        !dir.path().join(".x509_proxy").exists(),
        "a link was followed"
    );
    std::fs::remove_file(&spec.job_directory).unwrap();
    std::fs::rename(&aside, &spec.job_directory).unwrap();
    stage.manager.close().await;
    let stage = open(dir.path()).await;
    until("the renewed one is there", || read(&spec) == "five").await;
    assert_eq!(kept(dir.path()), [format!("job-{id}.pem")]);

    stage.end(spec.id, done());
    stage.events_to_end(id).await;
    let late = renew(&stage, alice(), id, "six", HOUR_MS).await;
    assert_eq!(code(late), "job_ended");
    let others = renew(&stage, bob(), id, "bob's", HOUR_MS).await;
    assert_eq!(code(others), "no_such_job");
    until("nothing is kept", || kept(dir.path()).is_empty()).await;
}

#[tokio::test]
async fn its_end_is_told_early_and_once_for_each() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let long = give(&stage, &alice(), "long", 2 * HOUR_MS).await;
    let (id, spec) = stage.submit(with(&long)).await;
    stage.run(spec.id);
    for (nth, text) in [(1, "short"), (2, "shorter")] {
        let left_ms = 29 * MINUTE_MS;
        renew(&stage, alice(), id, text, left_ms).await.unwrap();
        let kinds = kinds_up_to(&stage, id, "credential_ending", nth).await;
        assert_eq!(count(&kinds, "credential_given"), 1 + nth, "{kinds:?}");
    }
    stage.manager.close().await;
    let stage = open(dir.path()).await;
    renew(&stage, alice(), id, "long", HOUR_MS).await.unwrap();
    stage.end(spec.id, done());
    let kinds = kinds_up_to(&stage, id, "attempt_ended", 1).await;
    assert_eq!(count(&kinds, "credential_given"), 4, "{kinds:?}");
    assert_eq!(count(&kinds, "credential_ending"), 2, "{kinds:?}");
}

#[tokio::test]
async fn one_that_is_short_from_the_beginning_is_told_of_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let short = give(&stage, &alice(), "short", MINUTE_MS).await;
    let (id, _) = stage.submit(with(&short)).await;
    let kinds = kinds_up_to(&stage, id, "credential_ending", 1).await;
    assert_eq!(
        kinds,
        [
            "submitted",
            "credential_given",
            "planned",
            "credential_ending"
        ]
    );
}

#[tokio::test]
async fn it_survives_the_site_and_attempts_that_never_began() {
    let dir = tempfile::tempdir().unwrap();
    let stage = open(dir.path()).await;
    let name = give(&stage, &alice(), "one", HOUR_MS).await;
    stage.manager.close().await;

    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(with(&name)).await;
    std::fs::remove_file(copy(&spec)).unwrap();
    stage.end(spec.id, not_begun());
    let second = stage.started().await;
    assert_eq!((second.id.epoch, read(&second).as_str()), (2, "one"));
    stage.manager.close().await;

    // What a process that dies in the middle may leave, and what nobody knows.
    std::fs::write(store(dir.path()).join("x.new"), "half").unwrap();
    std::fs::write(store(dir.path()).join("y.pem"), "no owner").unwrap();
    let stage = open(dir.path()).await;
    assert_eq!(kept(dir.path()), [format!("job-{id}.pem")]);
    stage.end(second.id, done());
    stage.events_to_end(id).await;
    until("nothing is kept", || kept(dir.path()).is_empty()).await;
    stage.manager.close().await;

    // It died after the end was recorded.
    std::fs::write(store(dir.path()).join(format!("job-{id}.pem")), "late").unwrap();
    std::fs::write(copy(&second), "late").unwrap();
    let _stage = open(dir.path()).await;
    assert!(kept(dir.path()).is_empty() && !copy(&second).exists());
}
