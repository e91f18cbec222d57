//! Real Globus and OpenSSL programs: they take our certificates and proxies, and we take theirs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use kumiko_identity::proxy::{self, Options};
use kumiko_identity::{Credential, KeyKind, ProxyKind, Purpose, verify};
use kumiko_testkit::{Ca, has_program, run, skip};

const RSA: KeyKind = KeyKind::Rsa(2048);

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

/// Globus picks the digest for a proxy by the signature on the user's certificate, and knows RSA's only: a P-256 CA's
/// users cannot use its grid-proxy-init (measured with globus-gsi-proxy-core 9.8: "signing algorithm not supported").
fn rsa_ca() -> Ca {
    let options = kumiko_identity::ca::Options {
        key: RSA,
        ..Default::default()
    };
    Ca::with("/O=Grid/OU=Test/CN=CA", &options)
}

/// A program that sees this CA and nothing else of the machine's grid.
fn program(ca: &Ca, name: &str) -> Command {
    let mut command = Command::new(name);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", ca.dir())
        .env("X509_CERT_DIR", ca.trust_dir());
    command
}

/// Alice's certificate and key in files, as a user has them.
fn alice(ca: &Ca, key: KeyKind) -> Credential {
    let alice = ca.user_with("Alice", key, Duration::from_secs(86_400));
    let (certificate, key) = (ca.dir().join("usercert.pem"), ca.dir().join("userkey.pem"));
    alice.save_pair(&certificate, &key).unwrap();
    alice
}

fn grid_proxy_init(ca: &Ca, options: &[&str], out: &Path) -> Output {
    run(program(ca, "grid-proxy-init")
        .arg("-cert")
        .arg(ca.dir().join("usercert.pem"))
        .arg("-key")
        .arg(ca.dir().join("userkey.pem"))
        .arg("-out")
        .arg(out)
        .arg("-debug")
        .args(options))
}

#[test]
fn proxies_of_grid_proxy_init_are_accepted() {
    let name = "proxies_of_grid_proxy_init_are_accepted";
    if !has_program("grid-proxy-init") {
        return skip(name, "grid-proxy-init (package globus-proxy-utils)");
    }
    let ca = rsa_ca();
    let alice = alice(&ca, RSA);
    let rows: &[(&[&str], ProxyKind)] = &[
        (&["-verify"], ProxyKind::Full),
        (&["-limited"], ProxyKind::Limited),
        (&["-independent"], ProxyKind::Independent),
        (&["-path-length", "0"], ProxyKind::Full),
    ];
    for (options, kind) in rows {
        let path = ca.dir().join("theirs");
        let said = grid_proxy_init(&ca, options, &path);
        assert!(said.status.success(), "{options:?}: {}", text(&said));
        let theirs = Credential::load(&path).unwrap();
        let now = SystemTime::now();
        let peer = verify(theirs.chain(), &ca.trust(), now, &Purpose::Client).unwrap();
        assert_eq!(&peer.identity, alice.subject());
        assert_eq!(peer.kind, *kind, "{options:?}");
        assert_eq!(theirs.proxy_kind(), *kind);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn older_proxies_are_refused_by_their_name() {
    let name = "older_proxies_are_refused_by_their_name";
    if !has_program("grid-proxy-init") {
        return skip(name, "grid-proxy-init (package globus-proxy-utils)");
    }
    let ca = rsa_ca();
    alice(&ca, RSA);
    for (option, expected) in [("-old", "legacy (GT2)"), ("-draft", "GT3 draft")] {
        let path = ca.dir().join("older");
        let said = grid_proxy_init(&ca, &[option], &path);
        assert!(said.status.success(), "{option}: {}", text(&said));
        let older = Credential::load(&path).unwrap();
        let now = SystemTime::now();
        let error = verify(older.chain(), &ca.trust(), now, &Purpose::Client).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn grid_proxy_info_understands_our_proxies() {
    let name = "grid_proxy_info_understands_our_proxies";
    if !has_program("grid-proxy-info") {
        return skip(name, "grid-proxy-info (package globus-proxy-utils)");
    }
    let ca = Ca::new();
    for key in [KeyKind::P256, RSA] {
        let alice = alice(&ca, key);
        for (limited, expected) in [
            (false, "RFC 3820 compliant impersonation proxy"),
            (true, "RFC 3820 compliant limited proxy"),
        ] {
            let options = Options {
                limited,
                key,
                ..Options::default()
            };
            let ours = proxy::create(&alice, &options).unwrap();
            let path = ca.save(&ours, "ours");
            let info = run(program(&ca, "grid-proxy-info").arg("-file").arg(&path));
            let said = text(&info);
            assert!(info.status.success(), "{said}");
            assert!(said.contains(expected), "{said}");
            assert!(
                said.contains(&format!("identity : {}", alice.subject())),
                "{said}"
            );
        }
    }
}

#[test]
fn grid_proxy_init_makes_a_proxy_of_our_proxy() {
    let name = "grid_proxy_init_makes_a_proxy_of_our_proxy";
    if !has_program("grid-proxy-init") {
        return skip(name, "grid-proxy-init (package globus-proxy-utils)");
    }
    let ca = Ca::new();
    let alice = alice(&ca, RSA);
    let options = Options {
        key: RSA,
        ..Options::default()
    };
    let ours = ca.save(&proxy::create(&alice, &options).unwrap(), "ours");
    let path = ca.dir().join("below");
    let said = run(program(&ca, "grid-proxy-init")
        .args(["-verify", "-cert"])
        .arg(&ours)
        .arg("-key")
        .arg(&ours)
        .arg("-out")
        .arg(&path));
    assert!(said.status.success(), "{}", text(&said));
    let below = Credential::load(&path).unwrap();
    let peer = verify(
        below.chain(),
        &ca.trust(),
        SystemTime::now(),
        &Purpose::Client,
    )
    .unwrap();
    assert_eq!(peer.chain.len(), 3);
    assert_eq!(&peer.identity, alice.subject());
}

#[test]
fn openssl_verifies_our_proxies_with_our_trust_directory() {
    let name = "openssl_verifies_our_proxies_with_our_trust_directory";
    if !has_program("openssl") {
        return skip(name, "openssl");
    }
    let ca = Ca::new();
    for key in [KeyKind::P256, RSA] {
        let alice = alice(&ca, key);
        for proxy in [ca.proxy(&alice), ca.limited_proxy(&ca.proxy(&alice))] {
            let path = ca.save(&proxy, "proxy.pem");
            let said = run(program(&ca, "openssl")
                .args(["verify", "-allow_proxy_certs"])
                .args([
                    "-purpose",
                    "sslclient",
                    "-no-CAfile",
                    "-no-CAstore",
                    "-CApath",
                ])
                .arg(ca.trust_dir())
                .arg("-untrusted")
                .arg(&path)
                .arg(&path));
            assert!(said.status.success(), "{}", text(&said));
        }
    }
    let options = Options {
        path_length: Some(3),
        ..Options::default()
    };
    let path = ca.save(
        &proxy::create(&ca.user("Bob"), &options).unwrap(),
        "three.pem",
    );
    let said = run(program(&ca, "openssl")
        .args(["x509", "-noout", "-text", "-in"])
        .arg(&path));
    assert!(
        text(&said).contains("Path Length Constraint: 03"),
        "{}",
        text(&said)
    );
    // And the CRL: present, signed and in its file, or -crl_check would fail.
    let host = ca.save(&ca.host("a.example"), "host.pem");
    let said = run(program(&ca, "openssl")
        .args([
            "verify",
            "-crl_check",
            "-verify_hostname",
            "a.example",
            "-no-CAfile",
            "-CApath",
        ])
        .arg(ca.trust_dir())
        .arg(&host));
    assert!(said.status.success(), "{}", text(&said));
}
