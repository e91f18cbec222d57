//! Both ends of TLS over an in-memory stream: who gets in, who does not, and what each side is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_identity::tls::{Acceptor, Connector, TlsError, TlsStream};
use kumiko_identity::{Credential, Peer, ProxyKind, TrustStore, VerifyError};
use kumiko_testkit::{Ca, deadline, has_program, run, skip};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

type Outcome<S = DuplexStream> = Result<(TlsStream<S>, Peer), TlsError>;

/// One handshake: what the client says, and what the server says.
async fn shake(
    server: (&Credential, &TrustStore, &[&[u8]]),
    client: (Option<&Credential>, &TrustStore, &[&[u8]]),
    host: &str,
) -> (Outcome, Outcome) {
    let acceptor = Acceptor::new(server.0, server.1, server.2).unwrap();
    let connector = Connector::new(client.0, client.1, client.2).unwrap();
    let (near, far) = tokio::io::duplex(64 * 1024);
    deadline("a TLS handshake", async {
        tokio::join!(connector.connect(host, near), acceptor.accept(far))
    })
    .await
}

#[tokio::test]
async fn a_user_with_a_proxy_and_a_host_know_each_other() {
    let ca = Ca::new();
    let (alice, host) = (ca.user("Alice"), ca.host("localhost"));
    let proxy = ca.proxy(&alice);
    let trust = ca.trust();
    let protocols: &[&[u8]] = &[b"kumiko/1", b"h2"];
    let (client, server) = shake(
        (&host, &trust, protocols),
        (Some(&proxy), &trust, &[b"h2", b"kumiko/1"]),
        "localhost",
    )
    .await;
    let (mut client, seen_host) = client.unwrap();
    let (mut server, seen_user) = server.unwrap();
    assert_eq!(&seen_user.identity, alice.subject());
    assert_eq!(&seen_user.subject, proxy.subject());
    assert_eq!(seen_user.kind, ProxyKind::Full);
    assert_eq!(seen_user.not_after, proxy.not_after());
    assert_eq!(seen_user.chain.len(), 2);
    assert_eq!(&seen_host.identity, host.subject());
    assert_eq!(server.alpn().as_deref(), Some(&b"kumiko/1"[..]));
    assert_eq!(client.version(), "TLSv1.3");
    client.write_all(b"hello").await.unwrap();
    client.flush().await.unwrap();
    let mut buffer = [0; 5];
    deadline("five bytes", server.read_exact(&mut buffer))
        .await
        .unwrap();
    assert_eq!(&buffer, b"hello");
}

#[tokio::test]
async fn a_client_without_alpn_is_served_and_one_with_another_protocol_is_not() {
    let ca = Ca::new();
    let (alice, host, trust) = (ca.user("Alice"), ca.host("localhost"), ca.trust());
    let ours: &[&[u8]] = &[b"kumiko/1"];
    let (_, server) = shake(
        (&host, &trust, ours),
        (Some(&alice), &trust, &[]),
        "127.0.0.1",
    )
    .await;
    assert_eq!(server.unwrap().0.alpn(), None);
    let (client, server) = shake(
        (&host, &trust, ours),
        (Some(&alice), &trust, &[b"smtp"]),
        "localhost",
    )
    .await;
    assert!(server.is_err());
    let alert = client.unwrap_err();
    assert!(
        matches!(alert, TlsError::Refused { alert: 120 }),
        "{alert:?}"
    );
}

/// What the server says to a client with this credential.
async fn refused(ca: &Ca, client: Option<&Credential>) -> VerifyError {
    let (host, trust) = (ca.host("localhost"), ca.trust());
    let (_, server) = shake((&host, &trust, &[]), (client, &trust, &[]), "localhost").await;
    match server {
        Err(TlsError::Verify(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_refuses_by_name_who_may_not_come_in() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let stranger = Ca::with("/O=Else/CN=CA", &Default::default()).user("Alice");
    let expired = ca.expired_proxy(&alice);
    assert!(matches!(
        refused(&ca, Some(&expired)).await,
        VerifyError::Expired { .. }
    ));
    let unknown = refused(&ca, Some(&stranger)).await;
    assert!(
        matches!(unknown, VerifyError::UnknownIssuer { .. }),
        "{unknown:?}"
    );
    let serial = alice.leaf().serial().unwrap();
    ca.authority().revoke(&serial).unwrap();
    ca.refresh();
    let revoked = refused(&ca, Some(&alice)).await;
    assert!(
        matches!(revoked, VerifyError::Revoked { .. }),
        "{revoked:?}"
    );
}

#[tokio::test]
async fn a_refused_client_learns_why_at_its_first_read() {
    let ca = Ca::new();
    let stranger = Ca::with("/O=Else/CN=CA", &Default::default()).user("Alice");
    let expired = ca.expired_proxy(&ca.user("Alice"));
    let (host, trust) = (ca.host("localhost"), ca.trust());
    for (credential, alert, words) in [
        (Some(&stranger), 48, "does not trust the CA"),
        (Some(&expired), 45, "has expired"),
        (None, 116, "make a proxy"),
    ] {
        let (client, _) = shake((&host, &trust, &[]), (credential, &trust, &[]), "localhost").await;
        let (mut stream, _) = client.unwrap();
        let error = deadline("the alert", stream.read_u8()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        let said = error.to_string();
        assert!(
            said.contains(words) && said.contains(&alert.to_string()),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let ca = Ca::new();
    let (host, trust) = (ca.host("localhost"), ca.trust());
    let (_, server) = shake((&host, &trust, &[]), (None, &trust, &[]), "localhost").await;
    assert!(server.is_err());
}

#[tokio::test]
async fn a_client_refuses_another_host_than_it_called() {
    let ca = Ca::new();
    let (alice, host, trust) = (ca.user("Alice"), ca.host("a.example"), ca.trust());
    let (client, server) = shake(
        (&host, &trust, &[]),
        (Some(&alice), &trust, &[]),
        "b.example",
    )
    .await;
    match client {
        Err(TlsError::Verify(VerifyError::WrongHost { host, names })) => {
            assert_eq!(host, "b.example");
            assert_eq!(names, ["a.example"]);
        }
        other => panic!("{other:?}"),
    }
    assert!(server.is_err());
}

#[tokio::test]
async fn an_end_point_of_a_user_is_known_by_the_identity() {
    let ca = Ca::new();
    let (alice, bob, trust) = (ca.user("Alice"), ca.user("Bob"), ca.trust());
    let delegated = ca.limited_proxy(&ca.proxy(&alice));
    for (expected, accepted) in [(&alice, true), (&bob, false)] {
        let acceptor = Acceptor::new(&delegated, &trust, &[]).unwrap();
        let connector = Connector::new(Some(&alice), &trust, &[]).unwrap();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (client, _) = deadline("a TLS handshake", async {
            tokio::join!(
                connector.connect_to_identity("somewhere", expected.subject(), near),
                acceptor.accept(far)
            )
        })
        .await;
        assert_eq!(client.is_ok(), accepted, "{client:?}");
    }
}

/// Serves one connection of OpenSSL's own client; what it says, and what we think of it.
async fn s_client(ca: &Ca, options: &[&str]) -> (String, Outcome<TcpStream>) {
    let acceptor = Acceptor::new(&ca.host("localhost"), &ca.trust(), &[b"kumiko/1"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = ca.save(&ca.proxy(&ca.user("Alice")), "proxy.pem");
    let mut command = Command::new("openssl");
    command
        .args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{port}"),
            "-servername",
            "localhost",
        ])
        .args([
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
            "-no-CAfile",
            "-CApath",
        ])
        .arg(ca.trust_dir())
        .arg("-cert")
        .arg(&proxy)
        .arg("-key")
        .arg(&proxy)
        .arg("-cert_chain")
        .arg(&proxy)
        .args(options);
    let client = tokio::task::spawn_blocking(move || run(&mut command));
    let (stream, _) = deadline("a connection", listener.accept()).await.unwrap();
    let mut outcome = deadline("a TLS handshake", acceptor.accept(stream)).await;
    if let Ok((stream, _)) = &mut outcome {
        // It may have left already: its standard input is empty.
        let _ = stream.shutdown().await;
    }
    let output = client.await.unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (said, outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_s_own_client_comes_in_with_a_proxy_and_gets_no_ticket() {
    if !has_program("openssl") {
        return skip(
            "openssl_s_own_client_comes_in_with_a_proxy_and_gets_no_ticket",
            "openssl",
        );
    }
    let ca = Ca::new();
    for (option, version) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        let (said, outcome) = s_client(&ca, &[option, "-alpn", "kumiko/1"]).await;
        let (stream, peer) = outcome.unwrap_or_else(|e| panic!("{e}: {said}"));
        assert_eq!(stream.version(), version);
        assert_eq!(peer.kind, ProxyKind::Full);
        assert!(said.contains("Verification: OK"), "{said}");
        assert!(said.contains("ALPN protocol: kumiko/1"), "{said}");
        assert!(!said.contains("session ticket"), "{said}");
    }
    let (said, outcome) = s_client(&ca, &["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"]).await;
    assert!(outcome.is_err(), "{said}");
}

#[tokio::test]
async fn a_peer_that_goes_away_or_talks_nonsense_is_an_error_with_a_name() {
    let ca = Ca::new();
    let acceptor = Acceptor::new(&ca.host("localhost"), &ca.trust(), &[]).unwrap();
    let (near, far) = tokio::io::duplex(1024);
    drop(near);
    let gone = acceptor.accept(far).await;
    assert!(matches!(gone, Err(TlsError::Closed)), "{gone:?}");
    let (mut near, far) = tokio::io::duplex(1024);
    near.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let nonsense = acceptor.accept(far).await;
    assert!(
        matches!(nonsense, Err(TlsError::Handshake(_))),
        "{nonsense:?}"
    );
}
