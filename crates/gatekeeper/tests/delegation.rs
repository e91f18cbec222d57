//! Credentials given over a session (spec/services V8), and sessions that outlive the certificate they began with (V9).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::Site;
use kumiko_client::{Client, ClientError, Rights};
use kumiko_identity::delegation::{self, sign};
use kumiko_identity::tls::{Connector, TlsStream};
use kumiko_identity::{Credential, KeyKind, ProxyKind, Purpose, proxy, verify};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_session::{Dial, Options, Session};
use kumiko_testkit::deadline;
use kumiko_wire::api::{self, Request, kind};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The last credential that the manager was given, as a program would read it.
fn last_given(site: &Site) -> (Credential, u64) {
    let credentials = site.jobs.credentials.lock().unwrap();
    let (subject, given) = credentials.last().unwrap();
    assert_eq!(*subject, site.alice.subject().to_string());
    let path = site.ca.dir().join("given.pem");
    std::fs::write(&path, &given.pem).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (Credential::load(&path).unwrap(), given.not_after_ms)
}

fn code(refused: ClientError) -> String {
    match refused {
        ClientError::Refused(refusal) => refusal.code,
        other => panic!("no refusal: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_given_is_a_verified_proxy_of_its_giver() {
    let site = Site::start().await;
    for (rights, kind) in [
        (Rights::Limited, ProxyKind::Limited),
        (Rights::Full, ProxyKind::Full),
    ] {
        let given = site.client().await.delegate(rights).await.unwrap();
        let (credential, not_after_ms) = last_given(&site);
        let now = SystemTime::now();
        let peer = verify(credential.chain(), &site.ca.trust(), now, &Purpose::Client).unwrap();
        assert_eq!((peer.kind, &peer.identity), (kind, site.alice.subject()));
        let ends = peer.not_after.duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(u128::from(given.not_after_ms), ends.as_millis());
        assert_eq!(given.not_after_ms, not_after_ms);
        assert!(peer.not_after <= now + proxy::DEFAULT_LIFETIME);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_is_for_a_job_of_the_caller() {
    let site = Site::start().await;
    let client = site.client().await;
    let refused = client.renew(JobId(1), Rights::Limited).await.unwrap_err();
    assert_eq!(code(refused), "no_such_job");
    assert!(site.jobs.credentials.lock().unwrap().is_empty());
    let job = client
        .submit(JobDescription::new("deaf", &[]), None)
        .await
        .unwrap();
    let renewed = client.renew(job, Rights::Limited).await.unwrap();
    assert_eq!(last_given(&site).1, renewed.not_after_ms);
    let view = client.show(job).await.unwrap();
    assert_eq!(view.credential_ends_ms, Some(renewed.not_after_ms));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_proxy_gives_nothing() {
    let site = Site::start().await;
    let limited = site.ca.limited_proxy(&site.alice);
    let client = site.client_of(&limited).await.unwrap();
    let refused = client.delegate(Rights::Limited).await.unwrap_err();
    assert_eq!(code(refused), "limited_proxy");
}

/// A client that says what it likes.
struct Rude {
    connector: Connector,
    address: std::net::SocketAddr,
}

impl Dial for Rude {
    type Io = TlsStream<TcpStream>;

    async fn dial(&self) -> io::Result<Self::Io> {
        let tcp = TcpStream::connect(self.address).await?;
        let dialled = self.connector.connect("localhost", tcp).await;
        dialled.map(|(tls, _)| tls).map_err(io::Error::other)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_no_certificate_is_not_waited_for() {
    let site = Site::with(|config| config.limits.body_stall = Duration::from_millis(300)).await;
    let shown = site.ca.proxy(&site.alice);
    let rude = Rude {
        connector: Connector::new(Some(&shown), &site.ca.trust(), &[b"kumiko/1"]).unwrap(),
        address: site.address,
    };
    let session = Session::connect(rude, Options::default()).await.unwrap();
    let stream = session.open(Request::Delegate.encode()).await.unwrap();
    let (_sender, mut receiver) = stream.split();
    let wanted = receiver.recv().await.unwrap().unwrap();
    assert_eq!(wanted.kind, kind::CERTIFICATE_REQUEST);
    let refused = deadline("it is told", receiver.recv()).await.unwrap();
    assert_eq!(api::refusal(&refused.unwrap().data).code, "body_stalled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_certificate_for_the_key_asked_for_is_refused() {
    let site = Site::start().await;
    let shown = site.ca.proxy(&site.alice);
    let bob = site.ca.user("Bob");
    let rude = Rude {
        connector: Connector::new(Some(&shown), &site.ca.trust(), &[b"kumiko/1"]).unwrap(),
        address: site.address,
    };
    let session = Session::connect(rude, Options::default()).await.unwrap();
    let options = proxy::Options::default();
    type Answer<'a> = &'a dyn Fn(&[u8]) -> (u8, Vec<u8>);
    let rows: [(&str, Answer<'_>, &str); 7] = [
        ("another kind", &|_| (kind::TAR, vec![1]), "bad_request"),
        (
            "no bytes",
            &|_| (kind::CERTIFICATE, vec![]),
            "bad_delegation",
        ),
        (
            "no DER",
            &|_| (kind::CERTIFICATE, b"proxy".to_vec()),
            "bad_delegation",
        ),
        (
            "too much",
            &|_| (kind::CERTIFICATE, vec![0x30; 300_000]),
            "bad_delegation",
        ),
        (
            "a certificate that is no proxy",
            &|_| (kind::CERTIFICATE, shown.issuers()[0].to_der().unwrap()),
            "bad_delegation",
        ),
        (
            "a proxy for another key",
            &|_| {
                let (_, other) = delegation::Receiver::new(KeyKind::P256).unwrap();
                (kind::CERTIFICATE, sign(&other, &shown, &options).unwrap())
            },
            "bad_delegation",
        ),
        (
            "a proxy of somebody else's",
            &|request| (kind::CERTIFICATE, sign(request, &bob, &options).unwrap()),
            "bad_delegation",
        ),
    ];
    for (what, answer, expected) in rows {
        let refused = deadline(what, async {
            let stream = session.open(Request::Delegate.encode()).await.unwrap();
            let (mut sender, mut receiver) = stream.split();
            let wanted = receiver.recv().await.unwrap().unwrap();
            assert_eq!(wanted.kind, kind::CERTIFICATE_REQUEST);
            let (kind, data) = answer(&wanted.data);
            sender.send(kind, Bytes::from(data)).await.unwrap();
            receiver.recv().await.unwrap().unwrap()
        })
        .await;
        assert_eq!(refused.kind, kind::REFUSED, "{what}");
        assert_eq!(api::refusal(&refused.data).code, expected, "{what}");
    }
    assert!(site.jobs.credentials.lock().unwrap().is_empty());
    site.client().await.delegate(Rights::Limited).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_and_an_http_connection_end_with_the_certificate_they_began_with() {
    let site = Site::start().await;
    let short = proxy::create(
        &site.alice,
        &proxy::Options {
            lifetime: Duration::from_secs(3),
            ..Default::default()
        },
    )
    .unwrap();
    let client = Client::connect(&site.site_address(), &short, &site.ca.trust())
        .await
        .unwrap();
    let job = client
        .submit(JobDescription::new("deaf", &[]), None)
        .await
        .unwrap();
    let connector = Connector::new(Some(&short), &site.ca.trust(), &[b"http/1.1"]).unwrap();
    let tcp = TcpStream::connect(site.address).await.unwrap();
    let (mut http, _) = connector.connect("localhost", tcp).await.unwrap();

    let mut events = client.watch(job, 0).await.unwrap();
    let ended = deadline("the end of the session", async {
        loop {
            match events.next().await {
                Ok(event) => assert!(event.is_some(), "the job is still there"),
                Err(error) => return error.to_string(),
            }
        }
    })
    .await;
    assert!(ended.contains("has ended"), "{ended}");
    let mut rest = Vec::new();
    // Cut, with or without a TLS farewell.
    let _ = deadline("the end of the connection", http.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    let again = deadline("an answer", client.site()).await.unwrap_err();
    assert!(again.to_string().contains("has ended"), "{again}");
    assert_eq!(site.client().await.show(job).await.unwrap().id, job);
}
