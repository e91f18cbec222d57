//! GRAM's door against clients that speak its protocol, and against those that do not; with a manager in memory.
//! The toolkit's own commands are in e2e.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Site;
use kumiko_client::gram::GramClient;
use kumiko_gatekeeper::Gram;
use kumiko_identity::delegation;
use kumiko_identity::proxy::{self, Options};
use kumiko_identity::tls::{Acceptor, Connector, TlsStream};
use kumiko_identity::{Credential, KeyKind};
use kumiko_job::id::JobId;
use kumiko_testkit::deadline;
use kumiko_wire::gram::{
    GramCode, JobReply, JobRequest, JobState, MAX_HEAD_BYTES, Query, Signal, Sizes, Status,
    decode_response,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// With the door open, and an RSA user.
async fn site() -> (Site, Credential) {
    let site = Site::with(|config| {
        config.gram = Some(Gram {
            state: config.trust.parent().unwrap().join("gram"),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            host: "localhost".to_owned(),
            delegation: KeyKind::P256,
            batch: "fork",
            location: "/usr".to_owned(),
            uncache: Arc::new(|_| Ok(())),
        });
    })
    .await;
    let proxy = site.ca.proxy(&site.alice);
    (site, proxy)
}

fn client(site: &Site, credential: &Credential) -> GramClient {
    GramClient::new(credential, &site.ca.trust()).unwrap()
}

fn job(rsl: &str, callback: Option<&str>) -> JobRequest {
    JobRequest {
        state_mask: 1_048_575,
        callback: callback.map(str::to_owned),
        rsl: rsl.to_owned(),
    }
}

async fn submit(site: &Site, client: &GramClient, rsl: &str, callback: Option<&str>) -> JobReply {
    let address = site.site_address();
    let submitted = client.submit(&address, "jobmanager", job(rsl, callback));
    deadline("an answer", submitted).await.unwrap()
}

/// TLS to the gatekeeper, its greeting read.
async fn link(site: &Site, credential: &Credential) -> TlsStream<TcpStream> {
    let connector = Connector::new(Some(credential), &site.ca.trust(), &[]).unwrap();
    let tcp = TcpStream::connect(site.address).await.unwrap();
    let (mut link, _) = connector.connect("localhost", tcp).await.unwrap();
    assert_eq!(link.read_u8().await.unwrap(), 0);
    link
}

/// What comes to the end, as a frame; None: nothing.
async fn status(link: &mut TlsStream<TcpStream>) -> Option<Status> {
    let mut answer = Vec::new();
    let _ = deadline("the end", link.read_to_end(&mut answer)).await;
    decode_response(&answer)
        .unwrap()
        .map(|(response, _)| response.status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_asked_for_told_of_and_asked_after() {
    let (site, proxy) = site().await;
    let client = client(&site, &proxy);
    let address = site.site_address();
    assert_eq!(
        client.ping(&address, "jobmanager").await.unwrap(),
        Status::Ok
    );
    assert_eq!(
        client.ping(&address, "nosuch").await.unwrap(),
        Status::NotFound
    );
    let version = client.version(&address, "jobmanager-fork").await.unwrap();
    assert!(version.more.version.unwrap().contains("kumiko"));
    let listener = client
        .listen("127.0.0.1:0".parse().unwrap(), "localhost")
        .await
        .unwrap();
    let reply = submit(&site, &client, "&(executable=deaf)", Some(listener.url())).await;
    assert_eq!(reply.status, GramCode::SUCCESS);
    let contact = reply.contact.unwrap();
    let told = deadline("active", listener.next()).await.unwrap();
    assert_eq!(
        (told.contact.as_str(), told.state),
        (contact.as_str(), JobState::Active)
    );
    let asked = client.query(&contact, &Query::Status).await.unwrap();
    assert_eq!(asked.state, Some(JobState::Active));
    // The credential that was delegated is the job's.
    let given = site.jobs.credentials.lock().unwrap().len();
    assert_eq!(given, 1);
    let cancelled = client.query(&contact, &Query::Cancel).await.unwrap();
    assert_eq!(
        (cancelled.state, cancelled.job_failure),
        (Some(JobState::Failed), GramCode::USER_CANCELLED)
    );
    let told = deadline("the end", listener.next()).await.unwrap();
    assert_eq!(
        (told.state, told.failure),
        (JobState::Failed, GramCode::USER_CANCELLED)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_do_what_they_say_or_say_why_not() {
    let (site, proxy) = site().await;
    let client = client(&site, &proxy);
    let reply = submit(&site, &client, "&(executable=deaf)", None).await;
    let contact = reply.contact.unwrap();
    let rows = [
        (Signal::Suspend, GramCode::SUCCESS),
        (Signal::Resume, GramCode::SUCCESS),
        (Signal::Priority("low".to_owned()), GramCode::UNKNOWN_SIGNAL),
        (Signal::Unknown(77), GramCode::UNKNOWN_SIGNAL),
        (Signal::CommitExtend(5), GramCode::INVALID_COMMIT),
        (Signal::CommitEnd, GramCode::INVALID_COMMIT),
        (
            Signal::StdioUpdate("&(stdout=https://h:1/x)".to_owned()),
            GramCode::SUCCESS,
        ),
        (
            Signal::StdioUpdate("&(executable=a)".to_owned()),
            GramCode::INVALID_STDIO_UPDATE_ATTRIBUTE,
        ),
        (Signal::StdioUpdate("&(".to_owned()), GramCode::BAD_RSL),
        (Signal::StopManager, GramCode::SUCCESS),
    ];
    for (signal, code) in rows {
        let told = format!("{signal:?}");
        let answer = client
            .query(&contact, &Query::Signal(signal))
            .await
            .unwrap();
        assert_eq!(answer.failure, code, "{told}");
    }
    let sizes = |stdout_bytes| {
        Query::Signal(Signal::StdioSize(Sizes {
            stdout_bytes: Some(stdout_bytes),
            stderr_bytes: None,
        }))
    };
    let early = client.query(&contact, &sizes(0)).await.unwrap();
    assert_eq!(early.failure, GramCode::STILL_STREAMING);
    client.query(&contact, &Query::Cancel).await.unwrap();
    for (bytes, code) in [(0, GramCode::SUCCESS), (1, GramCode::STDIO_SIZE)] {
        assert_eq!(
            client.query(&contact, &sizes(bytes)).await.unwrap().failure,
            code
        );
    }
    assert_eq!(
        site.jobs.with(JobId(1), |job| job.signals.clone()),
        [19, 18]
    );
    let unknown = contact.replace(['1', '2', '3'], "4");
    let answer = client.query(&unknown, &Query::Status).await;
    // Its port may have had one of these digits.
    if let Ok(answer) = answer {
        assert_eq!(answer.failure, GramCode::JOB_CONTACT_NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_two_phase_job_waits_fails_or_runs_as_its_client_says() {
    let (site, proxy) = site().await;
    let client = client(&site, &proxy);
    let commit = Query::Signal(Signal::CommitRequest);
    let reply = submit(&site, &client, "&(executable=true)(two_phase=60)", None).await;
    assert_eq!(reply.status, GramCode::WAITING_FOR_COMMIT);
    let contact = reply.contact.unwrap();
    let waits = client.query(&contact, &Query::Status).await.unwrap();
    assert_eq!(waits.state, Some(JobState::Unsubmitted));
    assert_eq!(site.jobs.count(), 0);
    // Twice: it is submitted once.
    for _ in 0..2 {
        let answer = client.query(&contact, &commit).await.unwrap();
        assert_eq!(answer.failure, GramCode::SUCCESS);
    }
    assert_eq!(site.jobs.count(), 1);
    site.jobs
        .until(JobId(1), "the end", |job| job.view.state.has_ended())
        .await;
    let ended = client
        .query(&contact, &Query::Signal(Signal::CommitEnd))
        .await
        .unwrap();
    assert_eq!(
        (ended.state, ended.failure),
        (Some(JobState::Done), GramCode::SUCCESS)
    );
    let gone = client.query(&contact, &Query::Status).await.unwrap();
    assert_eq!(
        (gone.state, gone.failure),
        (None, GramCode::JOB_CONTACT_NOT_FOUND)
    );

    let listener = client
        .listen("127.0.0.1:0".parse().unwrap(), "localhost")
        .await
        .unwrap();
    let late = submit(
        &site,
        &client,
        "&(executable=true)(two_phase=1)",
        Some(listener.url()),
    )
    .await;
    let told = deadline("its failure", listener.next()).await.unwrap();
    assert_eq!(
        (told.state, told.failure),
        (JobState::Failed, GramCode::COMMIT_TIMED_OUT)
    );
    let refused = client.query(&late.contact.unwrap(), &commit).await.unwrap();
    assert_eq!(refused.failure, GramCode::COMMIT_TIMED_OUT);
    assert_eq!(site.jobs.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_finds_where_its_clients_server_is_and_where_it_has_moved_to() {
    let (site, proxy) = site().await;
    let client = client(&site, &proxy);
    let says = |job: u64| {
        let folder = site.jobs.dir.path().join(format!("job-{job}"));
        std::fs::read_to_string(folder.join(".remote_io_url")).unwrap()
    };
    let one = "&(executable=deaf)(remote_io_url=https://h:1)";
    let reply = submit(&site, &client, one, None).await;
    assert_eq!(says(1), "https://h:1\n");
    let place = site.jobs.with(JobId(1), |job| {
        job.description.environment["GLOBUS_REMOTE_IO_URL"].clone()
    });
    assert_eq!(place, "/job/.remote_io_url");
    let contact = reply.contact.unwrap();
    let update = |text: &str| Query::Signal(Signal::StdioUpdate(text.to_owned()));
    let moved = update("&(remote_io_url=https://h:2)");
    let answer = client.query(&contact, &moved).await.unwrap();
    assert_eq!(answer.failure, GramCode::SUCCESS);
    assert_eq!(says(1), "https://h:2\n");
    let restart = format!("&(restart={contact})(remote_io_url=https://h:3)");
    let reply = submit(&site, &client, &restart, None).await;
    assert_eq!(reply.status, GramCode::SUCCESS);
    assert_eq!(says(1), "https://h:3\n");
    // What the job has put in its place is not written through, and is not in the way.
    let folder = site.jobs.dir.path().join("job-1");
    std::fs::remove_file(folder.join(".remote_io_url")).unwrap();
    std::fs::write(folder.join("other"), "mine").unwrap();
    std::os::unix::fs::symlink("other", folder.join(".remote_io_url")).unwrap();
    let answer = client.query(&contact, &moved).await.unwrap();
    assert_eq!(
        (answer.failure, says(1).as_str()),
        (GramCode::SUCCESS, "https://h:2\n")
    );
    assert_eq!(
        std::fs::read_to_string(folder.join("other")).unwrap(),
        "mine"
    );

    // In two phases: what was said last before the commit counts.
    let two = "&(executable=deaf)(remote_io_url=https://h:4)(two_phase=60)";
    let contact = submit(&site, &client, two, None).await.contact.unwrap();
    let restart = format!("&(restart={contact})(remote_io_url=https://h:5)");
    let reply = submit(&site, &client, &restart, None).await;
    assert_eq!(reply.status, GramCode::WAITING_FOR_COMMIT);
    let commit = Query::Signal(Signal::CommitRequest);
    let answer = client.query(&contact, &commit).await.unwrap();
    assert_eq!(answer.failure, GramCode::SUCCESS);
    assert_eq!(says(2), "https://h:5\n");

    // One that began without a file was never told of it.
    let none = submit(&site, &client, "&(executable=deaf)", None).await;
    let answer = client.query(&none.contact.unwrap(), &moved).await.unwrap();
    assert_eq!(answer.failure, GramCode::RSL_REMOTE_IO_URL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contacts_and_callbacks_outlive_the_gatekeeper() {
    let (mut site, proxy) = site().await;
    let client = client(&site, &proxy);
    let listener = client
        .listen("127.0.0.1:0".parse().unwrap(), "localhost")
        .await
        .unwrap();
    let reply = submit(&site, &client, "&(executable=deaf)", Some(listener.url())).await;
    let contact = reply.contact.unwrap();
    deadline("active", listener.next()).await.unwrap();
    site.stop().await;
    assert!(client.query(&contact, &Query::Status).await.is_err());
    site.serve().await;
    let asked = client.query(&contact, &Query::Status).await.unwrap();
    assert_eq!(asked.state, Some(JobState::Active));
    client.query(&contact, &Query::Cancel).await.unwrap();
    let end = async {
        loop {
            let told = listener.next().await.unwrap();
            if told.state == JobState::Failed {
                return told;
            }
        }
    };
    assert_eq!(deadline("the end", end).await.contact, contact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_outlives_its_credential_and_is_reached_again_under_a_newer_one() {
    let (site, proxy) = site().await;
    let lasting = client(&site, &proxy);
    // As short as this machine lets a submission be.
    let mut contact = None;
    for lifetime in [2, 8, 32].map(Duration::from_secs) {
        let options = Options {
            lifetime,
            ..Options::default()
        };
        let short = client(&site, &proxy::create(&site.alice, &options).unwrap());
        let address = site.site_address();
        let asked = short.submit(&address, "jobmanager", job("&(executable=deaf)", None));
        contact = match deadline("an answer", asked).await {
            Ok(reply) if reply.status == GramCode::SUCCESS => reply.contact,
            _ => continue,
        };
        break;
    }
    let contact = contact.unwrap();
    // G51: the contact shows a proxy that has ended, and no client talks to that.
    deadline("its end", async {
        while lasting.query(&contact, &Query::Status).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let reply = submit(&site, &lasting, "&(executable=deaf)", None).await;
    assert_eq!(reply.status, GramCode::SUCCESS);
    let asked = lasting.query(&contact, &Query::Status).await.unwrap();
    assert_eq!(asked.state, Some(JobState::Active));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_anywhere_in_the_exchange_harms_nobody() {
    let (site, proxy) = site().await;
    // After the greeting; after the flag; after the request for a certificate; after the certificate; within the frame.
    drop(link(&site, &proxy).await);
    let mut flag = link(&site, &proxy).await;
    flag.write_all(b"D").await.unwrap();
    let mut request = vec![0; 4096];
    let length = flag.read(&mut request).await.unwrap();
    drop(flag);
    assert!(length > 100);
    for more in [&b""[..], &b"POST /jobmanager HTTP/1.1\r\nContent-Len"[..]] {
        let mut signed = link(&site, &proxy).await;
        signed.write_all(b"D").await.unwrap();
        let length = signed.read(&mut request).await.unwrap();
        let certificate =
            delegation::sign(&request[..length], &proxy, &Options::default()).unwrap();
        signed.write_all(&certificate).await.unwrap();
        signed.write_all(more).await.unwrap();
    }
    let client = client(&site, &proxy);
    // One whose listener is not there.
    let reply = submit(
        &site,
        &client,
        "&(executable=true)",
        Some("https://localhost:1/"),
    )
    .await;
    assert_eq!(reply.status, GramCode::SUCCESS);
    assert_eq!(
        client
            .ping(&site.site_address(), "jobmanager")
            .await
            .unwrap(),
        Status::Ok
    );
    assert_eq!(site.jobs.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_frame_is_refused_and_what_is_endless_is_cut_off() {
    let (site, proxy) = site().await;
    let long = format!(
        "POST /jobmanager HTTP/1.1\r\nX: {}",
        "x".repeat(MAX_HEAD_BYTES)
    );
    let rows: &[(&[u8], Option<Status>)] = &[
        (b"0GET / HTTP/1.1\r\n\r\n", Some(Status::BadRequest)),
        (
            b"0POST / HTTP/1.1\r\nContent-Length: 64001\r\n\r\n",
            Some(Status::BadRequest),
        ),
        (
            b"0POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            Some(Status::BadRequest),
        ),
        (
            b"0POST /ping/jobmanager HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            Some(Status::Ok),
        ),
        (
            b"0POST nothing HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            Some(Status::NotFound),
        ),
        (
            b"0POST ping/jobmanager@root HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            Some(Status::Forbidden),
        ),
        (b"x", None),
        (b"D\x30\x84\xff\xff\xff\xff", None),
        (b"DPOST / HTTP/1.1\r\n\r\n", None),
    ];
    for (bytes, expected) in rows {
        let mut link = link(&site, &proxy).await;
        link.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let _ = deadline("the end", link.read_to_end(&mut answer)).await;
        // A request for a certificate may stand before the status.
        let status = decode_response(&answer)
            .ok()
            .flatten()
            .map(|(response, _)| response.status);
        assert_eq!(status, *expected, "{:?}", String::from_utf8_lossy(bytes));
    }
    let mut endless = link(&site, &proxy).await;
    endless.write_all(b"0").await.unwrap();
    endless.write_all(long.as_bytes()).await.unwrap();
    assert_eq!(status(&mut endless).await, Some(Status::BadRequest));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_megabyte_of_header_is_refused_by_each_end_and_a_silent_listener_holds_up_nobody() {
    let (site, proxy) = site().await;
    let (client, trust) = (client(&site, &proxy), site.ca.trust());
    let long = [b"POST /1/2/ HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat();
    let contact = submit(&site, &client, "&(executable=deaf)", None).await;
    let contact = contact.contact.unwrap();
    let place = contact.trim_start_matches("https://").split('/').next();
    let tcp = TcpStream::connect(place.unwrap()).await.unwrap();
    let connector = Connector::new(Some(&proxy), &trust, &[]).unwrap();
    let own = connector.connect_to_identity("localhost", proxy.identity(), tcp);
    let (mut at_contact, _) = own.await.unwrap();
    let mut at_gatekeeper = link(&site, &proxy).await;
    at_gatekeeper.write_all(b"0").await.unwrap();
    for link in [&mut at_gatekeeper, &mut at_contact] {
        // It may be closed before all is sent, and the answer lost with what was under way.
        let _ = deadline("the end", link.write_all(&long)).await;
        assert_ne!(status(link).await, Some(Status::Ok));
    }
    // A listener that answers so, and one that accepts nobody.
    let liar = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [liar.local_addr(), silent.local_addr()].map(|at| at.unwrap().port());
    let acceptor = Acceptor::new(&proxy, &trust, &[]).unwrap();
    let lied = tokio::spawn(async move {
        let (mut link, _) = acceptor
            .accept(liar.accept().await.unwrap().0)
            .await
            .unwrap();
        let _ = link.write_all(&long).await;
        let _ = link.read_to_end(&mut Vec::new()).await;
    });
    for port in ports {
        let url = format!("https://localhost:{port}/");
        let reply = submit(&site, &client, "&(executable=true)", Some(&url)).await;
        assert_eq!(reply.status, GramCode::SUCCESS);
    }
    deadline("the liar is left", lied).await.unwrap();
    let listener = client
        .listen("127.0.0.1:0".parse().unwrap(), "localhost")
        .await
        .unwrap();
    submit(&site, &client, "&(executable=true)", Some(listener.url())).await;
    let told = deadline("its end", listener.next()).await.unwrap();
    assert_eq!(told.state, JobState::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_and_limited_proxies_are_refused_after_the_exchange() {
    let (site, _) = site().await;
    let address = site.site_address();
    let stranger = site.ca.proxy(&site.ca.user("Mallory"));
    let limited = site.ca.limited_proxy(&site.alice);
    for credential in [&stranger, &limited] {
        let client = client(&site, credential);
        let ping = deadline("an answer", client.ping(&address, "jobmanager")).await;
        assert_eq!(ping.unwrap(), Status::Forbidden);
        let asked = client.submit(&address, "jobmanager", job("&(executable=true)", None));
        let refused = deadline("an answer", asked).await.unwrap_err();
        assert!(refused.to_string().contains("403"), "{refused}");
    }
    assert_eq!(site.jobs.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contacts_are_served_to_their_owner_alone() {
    let (site, proxy) = site().await;
    let alice = client(&site, &proxy);
    let contact = submit(&site, &alice, "&(executable=deaf)", None)
        .await
        .contact
        .unwrap();
    let bob = site.ca.user("Bob");
    let mapfile = kumiko_testkit::Ca::mapfile(&[(&site.alice, "alice"), (&bob, "alice")]);
    std::fs::write(site.mapfile(), mapfile).unwrap();
    // Bob's client demands Bob at the other end, and finds Alice.
    let bob = client(&site, &site.ca.proxy(&bob));
    let refused = bob.query(&contact, &Query::Cancel).await.unwrap_err();
    assert!(refused.to_string().contains("Alice"), "{refused}");
    assert_eq!(
        alice.query(&contact, &Query::Status).await.unwrap().state,
        Some(JobState::Active)
    );
    tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let restart = format!("&(restart={contact})");
            let address = site.site_address();
            let asked = bob.submit(&address, "jobmanager", job(&restart, None));
            // Until the gatekeeper has read the mapfile again.
            if let Ok(reply) = asked.await {
                assert_eq!(reply.status, GramCode::NO_STATE_FILE);
                return;
            }
        }
    })
    .await
    .unwrap();
}
