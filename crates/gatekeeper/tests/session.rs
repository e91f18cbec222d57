//! Requests over sessions, from a real client over TCP and TLS (spec/services).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::Site;
use common::fake::{FLOW_WINDOW, pattern};
use kumiko_client::{Attached, Client, ClientError, Heard, SiteAddress};
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::contract::JobState;
use kumiko_job::description::{JobDescription, OutputMode, Stdin, WindowSize};
use kumiko_job::id::JobId;
use kumiko_staging::stock::{Stock, Sum};
use kumiko_testkit::deadline;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

fn program(name: &str, arguments: &[&str]) -> JobDescription {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    JobDescription::new(name, &arguments)
}

fn interactive(name: &str, arguments: &[&str]) -> JobDescription {
    JobDescription {
        stdin: Stdin::Live,
        output: OutputMode::Flow,
        ..program(name, arguments)
    }
}

/// Everything until the end: stdout, stderr, outcome.
async fn hear_all(attached: &mut Attached) -> (Vec<u8>, Vec<u8>, Outcome) {
    deadline("the end of an attached job", async {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match attached.next().await.unwrap().expect("an end") {
                Heard::Submitted(_) => {}
                Heard::Output {
                    stream: OutputStream::Stdout,
                    data,
                } => out.extend_from_slice(&data),
                Heard::Output {
                    stream: OutputStream::Stderr,
                    data,
                } => err.extend_from_slice(&data),
                Heard::Ended(outcome) => return (out, err, outcome),
            }
        }
    })
    .await
}

fn refused_with(result: Result<impl std::fmt::Debug, ClientError>, code: &str) {
    match result {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.code, code, "{refusal}"),
        other => panic!("{code} was due, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exec_brings_output_and_the_exit_status_back() {
    let site = Site::start().await;
    let client = site.client().await;
    for (description, out, err, status) in [
        (program("true", &[]), "", "", 0),
        (program("false", &[]), "", "", 1),
        (program("say", &["hello", "grid"]), "hello grid", "said", 0),
    ] {
        let mut attached = client.exec(description).await.unwrap();
        let (stdout, stderr, outcome) = hear_all(&mut attached).await;
        assert_eq!(
            (stdout, stderr),
            (out.as_bytes().to_vec(), err.as_bytes().to_vec())
        );
        assert_eq!(outcome, Outcome::Exited { status });
        assert!(attached.next().await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_stdin_goes_in_comes_back_and_ends() {
    let site = Site::start().await;
    let client = site.client().await;
    let mut attached = client.exec(interactive("cat", &[])).await.unwrap();
    let input = attached.input();
    let all: Vec<u8> = (0..3_000_000).map(pattern).collect();
    let sent = all.clone();
    let sending = tokio::spawn(async move {
        for piece in sent.chunks(77_777) {
            assert!(input.send(Bytes::copy_from_slice(piece)).await);
        }
        input.end().await;
    });
    let (out, _, outcome) = hear_all(&mut attached).await;
    sending.await.unwrap();
    assert!(out == all, "{} bytes came back of {}", out.len(), all.len());
    assert_eq!(outcome, Outcome::Exited { status: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_holds_the_guest_back_and_loses_nothing() {
    let site = Site::start().await;
    let client = site.client().await;
    let all: u64 = 40 << 20;
    let mut attached = client
        .exec(interactive("flood", &[&all.to_string()]))
        .await
        .unwrap();
    let first = deadline("the submission", attached.next()).await.unwrap();
    let Some(Heard::Submitted(job)) = first else {
        panic!("{first:?}")
    };
    // Other requests pass while this stream is full.
    for _ in 0..20 {
        deadline("a small answer beside a full stream", client.show(job))
            .await
            .unwrap();
    }
    let read = site.jobs.with(job, |j| j.read[0]);
    assert!(
        read <= FLOW_WINDOW,
        "{read} bytes were read for a client that reads nothing"
    );
    let (out, _, _) = hear_all(&mut attached).await;
    assert_eq!(out.len() as u64, all);
    assert!(out.iter().zip(0..).all(|(byte, i)| *byte == pattern(i)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stdin_that_is_not_read_waits_at_the_client_and_signals_pass_it() {
    let site = Site::start().await;
    let client = site.client().await;
    let mut attached = client.exec(interactive("deaf", &[])).await.unwrap();
    let Some(Heard::Submitted(job)) = attached.next().await.unwrap() else {
        panic!()
    };
    let input = attached.input();
    let pushing = tokio::spawn({
        let input = input.clone();
        async move { while input.send(Bytes::from(vec![7; 100_000])).await {} }
    });
    input.signal(10).await;
    input
        .window(WindowSize {
            rows: 50,
            columns: 132,
        })
        .await;
    site.jobs
        .until(job, "the signal and the window size", |j| {
            j.signals == [10] && j.windows.len() == 1
        })
        .await;
    client.cancel(job, None).await.unwrap();
    let (_, _, outcome) = hear_all(&mut attached).await;
    assert_eq!(outcome, Outcome::Cancelled);
    drop(attached);
    deadline("the sender to hear that the job takes no more", pushing)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_attached_for_as_long_as_it_listens() {
    let site = Site::start().await;
    let client = site.client().await;
    let mut clients = site.jobs.attached.subscribe();
    let mut exec = client.exec(interactive("deaf", &[])).await.unwrap();
    let Some(Heard::Submitted(job)) = exec.next().await.unwrap() else {
        panic!()
    };
    let attached = client.attach(job, false, 0, 0).await.unwrap();
    deadline("two to be attached", clients.wait_for(|n| *n == 2))
        .await
        .unwrap();
    drop(attached);
    deadline("one to be attached", clients.wait_for(|n| *n == 1))
        .await
        .unwrap();
    client.cancel(job, None).await.unwrap();
    hear_all(&mut exec).await;
    deadline("nobody to be attached", clients.wait_for(|n| *n == 0))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_submitted_once_listed_shown_explained_signalled_cancelled_and_removed() {
    let site = Site::start().await;
    let client = site.client().await;
    let job = client
        .submit(program("deaf", &[]), Some("once".to_owned()))
        .await
        .unwrap();
    assert_eq!(
        client
            .submit(program("deaf", &[]), Some("once".to_owned()))
            .await
            .unwrap(),
        job
    );
    let other = client.submit(program("true", &[]), None).await.unwrap();
    assert_ne!(job, other);
    let ids: Vec<JobId> = client.list().await.unwrap().iter().map(|v| v.id).collect();
    assert_eq!(ids, [job, other]);
    assert_eq!(client.show(job).await.unwrap().state, JobState::Active);
    assert_eq!(client.explain(job).await.unwrap(), ["submitted", "started"]);
    client.signal(job, 12).await.unwrap();
    assert_eq!(site.jobs.with(job, |j| j.signals.clone()), [12]);
    refused_with(client.remove(job).await, "job_live");
    client.cancel(job, None).await.unwrap();
    client.remove(job).await.unwrap();
    refused_with(client.show(job).await, "no_such_job");
    let view = client.site().await.unwrap();
    assert_eq!(
        (view.name.as_str(), view.account.as_str()),
        ("test", "alice")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_hears_each_event_once_as_it_happens_over_a_restart_too() {
    let mut site = Site::start().await;
    let client = site.client().await;
    let job = client.submit(program("deaf", &[]), None).await.unwrap();
    let mut watch = client.watch(job, 1).await.unwrap();
    let event = deadline("an event", watch.next()).await.unwrap().unwrap();
    assert_eq!((event.number, event.kind.as_str()), (2, "started"));
    site.kill().await;
    site.serve().await;
    client.cancel(job, None).await.unwrap();
    let event = deadline("an event", watch.next()).await.unwrap().unwrap();
    assert_eq!((event.number, event.outcome), (3, Some(Outcome::Cancelled)));
    client.remove(job).await.unwrap();
    let event = deadline("an event", watch.next()).await.unwrap().unwrap();
    assert_eq!((event.number, event.kind.as_str()), (4, "removed"));
    assert!(
        deadline("the end of the events", watch.next())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_followed_from_an_offset_to_its_end() {
    let site = Site::start().await;
    let client = site.client().await;
    let job = client
        .submit(program("say", &["0123456789"]), None)
        .await
        .unwrap();
    let mut output = client.output(job, OutputStream::Stdout, 4).await.unwrap();
    let mut all = Vec::new();
    while let Some(data) = deadline("output", output.next()).await.unwrap() {
        all.extend_from_slice(&data);
    }
    assert_eq!(all, b"456789");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_goes_in_and_what_is_new_comes_back() {
    let site = Site::start().await;
    let client = site.client().await;
    let here = tempfile::tempdir().unwrap();
    std::fs::create_dir(here.path().join("src")).unwrap();
    std::fs::write(here.path().join("src/main.c"), "int main;").unwrap();
    std::fs::write(here.path().join("big"), vec![1; 5_000_000]).unwrap();
    let uploaded = deadline("an upload", client.upload_folder(here.path()))
        .await
        .unwrap();
    assert_eq!((uploaded.entries, uploaded.bytes), (3, 5_000_009));
    let job = client
        .submit(
            JobDescription {
                input: Some(uploaded.input),
                ..program("deaf", &[])
            },
            None,
        )
        .await
        .unwrap();
    let there = site.jobs.dir.path().join(format!("job-{job}"));
    assert_eq!(
        std::fs::read_to_string(there.join("src/main.c")).unwrap(),
        "int main;"
    );
    std::fs::write(there.join("result"), "42").unwrap();
    std::fs::write(there.join("src/main.c"), "changed").unwrap();
    let back = tempfile::tempdir().unwrap();
    let got = deadline(
        "a download",
        client.download_into(job, back.path(), Some(uploaded.mark_us)),
    )
    .await
    .unwrap();
    assert_eq!(
        std::fs::read_to_string(back.path().join("result")).unwrap(),
        "42"
    );
    assert_eq!(
        std::fs::read_to_string(back.path().join("src/main.c")).unwrap(),
        "changed"
    );
    assert!(
        !back.path().join("big").exists(),
        "what did not change came back: {got:?}"
    );
    deadline(
        "a download of all",
        client.download_into(job, back.path(), None),
    )
    .await
    .unwrap();
    assert!(back.path().join("big").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn big_files_of_a_folder_that_the_account_has_do_not_travel_again() {
    let stock = tempfile::tempdir().unwrap();
    let entries = stock.path().join("stock");
    let site = Site::with(|config| {
        config.stock = Some(Arc::new(Stock::new(entries.clone(), 1 << 30)));
    })
    .await;
    let link = Link::to(site.address).await;
    let client = link.client(&site).await;
    let here = tempfile::tempdir().unwrap();
    let big: Vec<u8> = (0..5_000_000).map(pattern).collect();
    std::fs::write(here.path().join("big"), &big).unwrap();
    let upload = async || {
        let before = link.brought();
        let uploading = client.upload_folder(here.path());
        let uploaded = deadline("an upload", uploading).await.unwrap();
        assert_eq!((uploaded.entries, uploaded.bytes), (1, 5_000_000));
        let arrived = site.jobs.dir.path().join(&uploaded.input).join("big");
        assert!(std::fs::read(arrived).unwrap() == big);
        link.brought() - before
    };
    let entry = entries.join(Sum::of(&*big).unwrap().to_string());
    assert!(upload().await > 5_000_000);
    assert!(upload().await < 50_000);
    // What the stock says to have it may still not give.
    std::fs::write(&entry, "something else").unwrap();
    assert!(upload().await > 5_000_000);
    assert!(upload().await < 50_000);
    std::fs::remove_file(&entry).unwrap();
    assert!(upload().await > 5_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_client_goes_on_exactly_after_the_site_was_started_anew() {
    let mut site = Site::start().await;
    let client = site.client().await;
    let all: Vec<u8> = (0..4_000_000).map(pattern).collect();
    let mut attached = client.exec(interactive("cat", &[])).await.unwrap();
    let input = attached.input();
    let sent = all.clone();
    let sending = tokio::spawn(async move {
        for piece in sent.chunks(10_000) {
            assert!(input.send(Bytes::copy_from_slice(piece)).await);
        }
        input.end().await;
    });
    let mut out = Vec::new();
    let mut killed = 0;
    let outcome = deadline("the end over a kill and a stop", async {
        loop {
            match attached.next().await.unwrap().unwrap() {
                Heard::Submitted(_) => {}
                Heard::Output { data, .. } => out.extend_from_slice(&data),
                Heard::Ended(outcome) => break outcome,
            }
            if killed < 2 && out.len() > (killed + 1) * 1_000_000 {
                killed += 1;
                match killed {
                    1 => site.kill().await,
                    _ => site.stop().await,
                }
                site.serve().await;
            }
        }
    })
    .await;
    sending.await.unwrap();
    assert_eq!(killed, 2);
    assert!(out == all, "{} bytes came back of {}", out.len(), all.len());
    assert_eq!(outcome, Outcome::Exited { status: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_proxy_looks_and_does_not_start() {
    let site = Site::start().await;
    let client = site
        .client_of(&site.ca.limited_proxy(&site.alice))
        .await
        .unwrap();
    assert!(client.list().await.unwrap().is_empty());
    refused_with(
        client.submit(program("true", &[]), None).await,
        "limited_proxy",
    );
    let mut attached = client.exec(program("true", &[])).await.unwrap();
    refused_with(attached.next().await, "limited_proxy");
    refused_with(client.upload_folder(site.ca.dir()).await, "limited_proxy");
    let site = Site::with(|config| config.accept_limited = true).await;
    let client = site
        .client_of(&site.ca.limited_proxy(&site.alice))
        .await
        .unwrap();
    client.submit(program("true", &[]), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stops_listening_leaves_nothing_behind() {
    let site = Site::start().await;
    let client = site.client().await;
    let job = client.submit(program("deaf", &[]), None).await.unwrap();
    let mut watch = client.watch(job, 0).await.unwrap();
    watch.next().await.unwrap();
    let mut attached = client.exec(interactive("deaf", &[])).await.unwrap();
    attached.next().await.unwrap();
    let output = client.output(job, OutputStream::Stdout, 0).await.unwrap();
    deadline("all to be listened to", async {
        while site.jobs.listeners() < 4 {
            client.site().await.unwrap();
        }
    })
    .await;
    drop((watch, attached, output));
    deadline("nobody to listen any more", async {
        while site.jobs.listeners() > 0 {
            client.site().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_cut_again_and_again_is_mended_below_the_job() {
    let site = Site::start().await;
    let link = Link::to(site.address).await;
    let client = link.client(&site).await;
    let all: Vec<u8> = (0..6_000_000).map(pattern).collect();
    let mut attached = client.exec(interactive("cat", &[])).await.unwrap();
    let input = attached.input();
    let sent = all.clone();
    let sending = tokio::spawn(async move {
        for piece in sent.chunks(50_000) {
            assert!(input.send(Bytes::copy_from_slice(piece)).await);
        }
        input.end().await;
    });
    let mut out = Vec::new();
    let mut cuts = 0;
    let outcome = deadline("the end over a bad link", async {
        loop {
            match attached.next().await.unwrap().unwrap() {
                Heard::Submitted(_) => {}
                Heard::Output { data, .. } => out.extend_from_slice(&data),
                Heard::Ended(outcome) => break outcome,
            }
            if out.len() > (cuts + 1) * 1_000_000 && cuts < 5 {
                cuts += 1;
                link.cut();
            }
        }
    })
    .await;
    sending.await.unwrap();
    assert!(out == all, "{} bytes came back of {}", out.len(), all.len());
    assert_eq!((outcome, cuts), (Outcome::Exited { status: 0 }, 5));
    assert!(link.made() > 5, "{} connections", link.made());
    assert_eq!(client.list().await.unwrap().len(), 1);
}

/// A link to a site that can be cut, and counts.
struct Link {
    address: std::net::SocketAddr,
    cut: tokio::sync::watch::Sender<u32>,
    made: Arc<AtomicUsize>,
    brought: Arc<AtomicUsize>,
}

impl Link {
    async fn to(site: std::net::SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, seen) = tokio::sync::watch::channel(0);
        let made = Arc::new(AtomicUsize::new(0));
        let brought = Arc::new(AtomicUsize::new(0));
        let (counted, measured) = (made.clone(), brought.clone());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let measured = measured.clone();
                let mut seen = seen.clone();
                seen.mark_unchanged();
                tokio::spawn(async move {
                    let far = TcpStream::connect(site).await.unwrap();
                    let (near_out, mut near_in) = near.into_split();
                    let (mut far_out, far_in) = far.into_split();
                    let both = async {
                        tokio::join!(
                            bring(near_out, far_in, &measured),
                            tokio::io::copy(&mut far_out, &mut near_in)
                        )
                    };
                    tokio::select! {
                        _ = both => {}
                        _ = seen.changed() => {}
                    }
                });
            }
        });
        Link {
            address,
            cut,
            made,
            brought,
        }
    }

    async fn client(&self, site: &Site) -> Client {
        let address = SiteAddress {
            host: "localhost".to_owned(),
            port: self.address.port(),
        };
        Client::connect(&address, &site.alice, &site.ca.trust())
            .await
            .unwrap()
    }

    /// Bytes from clients to the site.
    fn brought(&self) -> usize {
        self.brought.load(Ordering::Relaxed)
    }

    fn cut(&self) {
        self.cut.send_modify(|n| *n += 1);
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }
}

/// Carries bytes to the site, and counts them.
async fn bring(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, count: &AtomicUsize) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        count.fetch_add(read, Ordering::Relaxed);
        if to.write_all(&piece[..read]).await.is_err() {
            break;
        }
    }
}
