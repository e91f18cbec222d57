//! Who is let in and who is not, and that nobody's misbehaviour is another's trouble.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Site;
use kumiko_client::{Client, ClientError};
use kumiko_identity::tls::Connector;
use kumiko_identity::{Credential, TrustStore};
use kumiko_testkit::{Ca, deadline};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Still serving, whatever came before.
async fn serves(site: &Site) {
    site.client().await.site().await.unwrap();
}

/// The first answer to somebody, as text if it is an error.
async fn asked_by(
    site: &Site,
    credential: &Credential,
    trust: &TrustStore,
) -> Result<String, String> {
    let client = deadline(
        "a connection",
        Client::connect(&site.site_address(), credential, trust),
    )
    .await;
    let answer = match client {
        Ok(client) => deadline("an answer", client.site()).await,
        Err(e) => Err(e),
    };
    answer
        .map(|site| site.account)
        .map_err(|e: ClientError| format!("{e}"))
}

/// The value of one of the counters, asked for over HTTP.
async fn counted(site: &Site, name: &str) -> u64 {
    let text = http(
        site,
        "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    let name = format!("{name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .parse()
        .unwrap()
}

async fn refused_so_far(site: &Site, reason: &str) -> u64 {
    counted(
        site,
        &format!("kumiko_refused_connections_total{{reason=\"{reason}\"}}"),
    )
    .await
}

async fn until_refused(site: &Site, reason: &str, count: u64) {
    deadline(&format!("{count} refused for {reason}"), async {
        while refused_so_far(site, reason).await < count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// One HTTP/1.1 conversation as Alice, until the site closes.
async fn http(site: &Site, request: &str) -> String {
    let connector = Connector::new(Some(&site.alice), &site.ca.trust(), &[b"http/1.1"]).unwrap();
    let tcp = TcpStream::connect(site.address).await.unwrap();
    let (mut tls, _) = connector.connect("localhost", tcp).await.unwrap();
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    deadline("an HTTP answer", tls.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_are_not_known_are_refused_by_name_and_the_site_goes_on() {
    let site = Site::start().await;
    let stranger_ca = Ca::with("/O=Elsewhere/CN=CA", &Default::default());
    let stranger = stranger_ca.user("Alice");
    let trust = site.ca.trust();
    for (who, credential, says, reason) in [
        ("a proxy", site.ca.proxy(&site.alice), Ok("alice"), ""),
        (
            "the user's own certificate",
            site.alice.clone(),
            Ok("alice"),
            "",
        ),
        (
            "a limited proxy",
            site.ca.limited_proxy(&site.alice),
            Ok("alice"),
            "",
        ),
        (
            "an expired proxy",
            site.ca.expired_proxy(&site.alice),
            Err("expired"),
            "tls",
        ),
        (
            "an unknown CA's user",
            stranger,
            Err("does not trust the CA of our certificate"),
            "tls",
        ),
        (
            "an unmapped subject",
            site.ca.user("Bob"),
            Err("/O=Grid/OU=Test/CN=Bob is not in the grid-mapfile"),
            "unmapped",
        ),
    ] {
        let before = if reason.is_empty() {
            0
        } else {
            refused_so_far(&site, reason).await
        };
        match (asked_by(&site, &credential, &trust).await, says) {
            (Ok(account), Ok(expected)) => assert_eq!(account, expected, "{who}"),
            (Err(e), Err(part)) => assert!(e.contains(part), "{who}: {e}"),
            (other, _) => panic!("{who}: {other:?}"),
        }
        if !reason.is_empty() {
            until_refused(&site, reason, before + 1).await;
        }
    }
    let error = asked_by(&site, &site.alice, &stranger_ca.trust())
        .await
        .unwrap_err();
    assert!(
        error.contains("localhost"),
        "a site that the client does not trust: {error}"
    );
    serves(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_with_a_name_of_another_host_is_refused_by_the_client() {
    let site = Site::start().await;
    let mut address = site.site_address();
    address.host = "ip6-localhost".to_owned();
    let client = Client::connect(&address, &site.alice, &site.ca.trust()).await;
    assert!(client.is_err(), "the certificate does not bear that name");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_the_site_does_not_serve_is_refused() {
    let site = Site::with(|config| config.only_account = Some("owner".to_owned())).await;
    let error = asked_by(&site, &site.alice, &site.ca.trust())
        .await
        .unwrap_err();
    assert!(error.contains("this site serves owner only"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_names_no_protocol_stands_before_grams_door_and_is_told_that_it_is_closed() {
    let site = Site::start().await;
    let connector = Connector::new(Some(&site.alice), &site.ca.trust(), &[]).unwrap();
    let tcp = TcpStream::connect(site.address).await.unwrap();
    let (mut tls, _) = connector.connect("localhost", tcp).await.unwrap();
    tls.write_all(b"0POST ping/jobmanager HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = deadline("the end", tls.read_to_end(&mut answer)).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("\0HTTP/1.1 403 "), "{answer:?}");
    until_refused(&site, "gram", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silent_the_slow_and_the_talkative_are_cut_off() {
    let site =
        Site::with(|config| config.limits.handshake_within = Duration::from_millis(300)).await;
    // Half open: never says a word.
    let mut silent = TcpStream::connect(site.address).await.unwrap();
    // Slow: a byte of a TLS record now and then.
    let mut slow = TcpStream::connect(site.address).await.unwrap();
    slow.write_all(&[22, 3, 1, 2]).await.unwrap();
    let mut buffer = [0; 64];
    for peer in [&mut silent, &mut slow] {
        let end = deadline("to be cut off", peer.read(&mut buffer)).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
    until_refused(&site, "too_slow", 2).await;
    // Not TLS at all.
    let mut plain = TcpStream::connect(site.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = deadline("to be cut off", plain.read_to_end(&mut answer)).await;
    until_refused(&site, "tls", 1).await;
    serves(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_may_send_only_so_much() {
    let site = Site::with(|config| config.limits.bytes_before_authentication = 300).await;
    let connector = Connector::new(Some(&site.alice), &site.ca.trust(), &[b"kumiko/1"]).unwrap();
    let tcp = TcpStream::connect(site.address).await.unwrap();
    let mut cut = false;
    if let Ok((mut tls, _)) = connector.connect("localhost", tcp).await {
        cut = !matches!(deadline("to be cut off", tls.read(&mut [0; 16])).await, Ok(n) if n > 0);
    } else {
        cut |= true;
    }
    assert!(cut);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_only_so_many_connections_and_gets_them_back() {
    let site = Site::with(|config| config.limits.connections_per_address = 2).await;
    let first = TcpStream::connect(site.address).await.unwrap();
    let second = TcpStream::connect(site.address).await.unwrap();
    let mut third = TcpStream::connect(site.address).await.unwrap();
    let end = deadline("the third to be closed", third.read(&mut [0; 16])).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    drop((first, second));
    deadline("a place again", async {
        while asked_by(&site, &site.alice, &site.ca.trust())
            .await
            .is_err()
        {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_mapfile_and_a_revocation_are_in_force_without_a_restart() {
    let site = Site::start().await;
    let bob = site.ca.user("Bob");
    let trust = site.ca.trust();
    assert!(asked_by(&site, &bob, &trust).await.is_err());
    std::fs::write(
        site.mapfile(),
        Ca::mapfile(&[(&site.alice, "alice"), (&bob, "bob")]),
    )
    .unwrap();
    deadline("the new mapfile", async {
        while asked_by(&site, &bob, &trust).await != Ok("bob".to_owned()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    // What cannot be read changes nothing.
    std::fs::write(site.mapfile(), "\"/O=Grid/CN=unfinished").unwrap();
    deadline("the failed reload", async {
        while counted(&site, "kumiko_failed_reloads_total").await == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(asked_by(&site, &bob, &trust).await, Ok("bob".to_owned()));
    site.ca
        .authority()
        .revoke(&bob.leaf().serial().unwrap())
        .unwrap();
    std::fs::write(
        site.mapfile(),
        Ca::mapfile(&[(&site.alice, "alice"), (&bob, "bob")]),
    )
    .unwrap();
    site.ca.refresh();
    deadline("the revocation", async {
        while asked_by(&site, &bob, &trust).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    serves(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_stops_ends_idle_connections_at_once() {
    let mut site = Site::start().await;
    let client = site.client().await;
    client.site().await.unwrap();
    let _silent = TcpStream::connect(site.address).await.unwrap();
    let began = std::time::Instant::now();
    site.stop().await;
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_http_connection_is_closed_and_half_a_request_is_too() {
    let site = Site::with(|config| config.limits.http_idle = Duration::from_millis(300)).await;
    for request in ["", "GET /v1/si", "GET /v1/site HTTP/1.1\r\nhost: x\r\n"] {
        http(&site, request).await;
    }
    let answer = http(&site, "GET /v1/site HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_go_on_is_refused() {
    let site = Site::with(|config| config.limits.body_stall = Duration::from_millis(200)).await;
    for path in ["/v1/jobs", "/v1/uploads"] {
        let answer = http(
            &site,
            &format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2000\r\n\r\n{{"),
        )
        .await;
        assert!(
            answer.starts_with("HTTP/1.1 408") && answer.contains("body_stalled"),
            "{path}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_independent_proxy_has_no_rights_and_is_told_so() {
    if !kumiko_testkit::has_program("openssl") {
        return kumiko_testkit::skip(
            "an_independent_proxy_has_no_rights_and_is_told_so",
            "openssl",
        );
    }
    let site = Site::start().await;
    let dir = site.ca.dir();
    let path = |name: &str| dir.join(name).display().to_string();
    site.alice
        .save_pair(&dir.join("alice.pem"), &dir.join("alice.key"))
        .unwrap();
    std::fs::write(
        dir.join("independent.cnf"),
        "proxyCertInfo=critical,language:id-ppl-independent\n",
    )
    .unwrap();
    // None of our own programs makes one.
    let subject = format!("{}/CN=7", site.alice.subject());
    let steps = [
        format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {} -out {} -subj {subject}",
            path("proxy.key"),
            path("proxy.csr")
        ),
        format!(
            "x509 -req -in {} -CA {} -CAkey {} -set_serial 7 -days 1 -extfile {} -out {}",
            path("proxy.csr"),
            path("alice.pem"),
            path("alice.key"),
            path("independent.cnf"),
            path("proxy.pem")
        ),
    ];
    for step in &steps {
        kumiko_testkit::run(std::process::Command::new("openssl").args(step.split(' ')));
    }
    let mut chain = std::fs::read(dir.join("proxy.pem")).unwrap();
    chain.extend(std::fs::read(dir.join("alice.pem")).unwrap());
    std::fs::write(dir.join("chain.pem"), chain).unwrap();
    let proxy = Credential::load_pair(&dir.join("chain.pem"), &dir.join("proxy.key")).unwrap();
    let told = asked_by(&site, &proxy, &site.ca.trust()).await.unwrap_err();
    assert!(told.contains("has no rights here"), "{told}");
    assert_eq!(refused_so_far(&site, "independent").await, 1);
}
