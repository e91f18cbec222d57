//! Credentials in files, the grid-mapfile, delegation, and the CA as its commands use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use kumiko_identity::ca::{self, Authority, CaError, Kind, TrustFiles, install_trust};
use kumiko_identity::delegation::{self, DelegationError, Receiver};
use kumiko_identity::proxy::{self, Options, ProxyError};
use kumiko_identity::{
    Credential, CredentialError, Dn, GridMap, Key, KeyError, KeyKind, ProxyKind, Purpose,
    VerifyError, verify,
};
use kumiko_testkit::Ca;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_proxy_file_is_for_its_owner_only_and_reads_back() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let proxy = ca.limited_proxy(&ca.proxy(&alice));
    let path = ca.save(&proxy, "x509up");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let blocks: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("-----BEGIN"))
        .collect();
    let certificate = "-----BEGIN CERTIFICATE-----";
    assert_eq!(
        blocks,
        [
            certificate,
            "-----BEGIN PRIVATE KEY-----",
            certificate,
            certificate
        ]
    );
    let read = Credential::load(&path).unwrap();
    assert_eq!(read.chain(), proxy.chain());
    assert_eq!(read.identity(), alice.subject());
    assert_eq!(read.proxy_kind(), ProxyKind::Limited);
    let now = SystemTime::now();
    assert!(read.remaining(now) > 11 * HOUR && !read.is_about_to_expire(now));
    assert!(read.is_about_to_expire(now + 12 * HOUR));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let ca = Ca::new();
    let path = ca.save(&ca.user("Alice"), "alice.pem");
    for mode in [0o644, 0o640, 0o604, 0o660, 0o601] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        match Credential::load(&path) {
            Err(CredentialError::Key(KeyError::Mode { mode: seen, .. })) => assert_eq!(seen, mode),
            other => panic!("{mode:o}: {other:?}"),
        }
    }
    std::fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    Credential::load(&path).unwrap();
}

#[test]
fn what_is_no_credential_is_refused_with_its_path() {
    let ca = Ca::new();
    let (alice, bob) = (ca.user("Alice"), ca.user("Bob"));
    let good = String::from_utf8(alice.to_pem().unwrap().to_vec()).unwrap();
    let (certificate, key) = good.split_at(good.find("-----BEGIN PRIVATE").unwrap());
    let bobs = String::from_utf8(bob.to_pem().unwrap().to_vec()).unwrap();
    let bobs_key = &bobs[bobs.find("-----BEGIN PRIVATE").unwrap()..];
    let cut = &good[..good.len() - 40];
    let rows = [
        ("", "no certificate"),
        ("garbage\n", "no certificate"),
        (key, "no certificate"),
        (certificate, "no usable private key"),
        (&format!("{certificate}{bobs_key}"), "does not belong"),
        (cut, "cannot use the certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "cannot use the certificate",
        ),
    ];
    let path = ca.dir().join("bad.pem");
    for (text, expected) in rows {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let said = Credential::load(&path).unwrap_err().to_string();
        assert!(
            said.contains(expected) && said.contains("bad.pem"),
            "{said}"
        );
    }
    let said = Credential::load(ca.dir()).unwrap_err().to_string();
    assert!(said.contains("not a plain file"), "{said}");
    let said = Credential::load(&ca.dir().join("absent"))
        .unwrap_err()
        .to_string();
    assert!(said.contains("absent"), "{said}");
}

#[test]
fn a_key_under_a_pass_phrase_opens_with_the_right_one_only() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let (certificate, key) = (ca.dir().join("usercert.pem"), ca.dir().join("userkey.pem"));
    alice.save_pair(&certificate, &key).unwrap();
    let locked = ca.dir().join("locked.pem");
    let made = kumiko_testkit::run(
        std::process::Command::new("openssl")
            .args(["pkcs8", "-topk8", "-passout", "pass:open sesame", "-in"])
            .arg(&key)
            .arg("-out")
            .arg(&locked),
    );
    assert!(made.status.success());
    std::fs::set_permissions(&locked, Permissions::from_mode(0o600)).unwrap();
    let phrase = |text: &str| zeroize::Zeroizing::new(text.as_bytes().to_vec());
    for (given, opens) in [
        (None, false),
        (Some("wrong"), false),
        (Some("open sesame"), true),
    ] {
        let given = given.map(phrase);
        let read = Credential::load_pair_with(&certificate, &locked, given.as_ref());
        match read {
            Ok(_) => assert!(opens),
            Err(CredentialError::Key(KeyError::PassPhrase { .. })) => assert!(!opens),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_secret_does_not_print() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let printed = format!("{alice:?} {:?} {:?}", alice.key(), ca.authority());
    let pem = alice.key().to_pem().unwrap();
    let inner = String::from_utf8(pem.to_vec()).unwrap();
    let line = inner.lines().nth(1).unwrap();
    assert!(
        !printed.contains(line) && !printed.contains("PRIVATE"),
        "{printed}"
    );
    assert!(printed.contains("256 bits"), "{printed}");
}

#[test]
fn a_proxy_ends_with_its_issuer_and_limits_are_inherited() {
    let ca = Ca::new();
    let alice = ca.user_with("Alice", KeyKind::P256, HOUR);
    let long = Options {
        lifetime: 100 * HOUR,
        ..Options::default()
    };
    let proxy = proxy::create(&alice, &long).unwrap();
    assert_eq!(proxy.not_after(), alice.not_after());
    let limited = ca.limited_proxy(&proxy);
    let below = proxy::create(&limited, &long).unwrap();
    assert_eq!(below.proxy_kind(), ProxyKind::Limited);
    let over = ca.expired_proxy(&alice);
    assert!(matches!(
        proxy::create(&over, &long),
        Err(ProxyError::IssuerExpired { .. })
    ));
    assert_eq!(over.remaining(SystemTime::now()), Duration::ZERO);
}

#[test]
fn a_delegated_proxy_completes_the_chain_that_was_shown() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let proxy = ca.proxy(&alice);
    for (key, limited, kind) in [
        (KeyKind::P256, true, ProxyKind::Limited),
        (KeyKind::Rsa(2048), false, ProxyKind::Full),
    ] {
        let (receiver, request) = Receiver::new(key).unwrap();
        let options = Options {
            limited,
            ..Options::default()
        };
        let reply = delegation::sign(&request, &proxy, &options).unwrap();
        let now = SystemTime::now();
        let (delegated, peer) = receiver
            .finish(&reply, proxy.chain(), &ca.trust(), now)
            .unwrap();
        assert_eq!(delegated.chain().len(), 3);
        assert_eq!(peer.kind, kind);
        assert_eq!(&peer.identity, alice.subject());
    }
}

#[test]
fn replies_and_requests_that_do_not_fit_are_refused() {
    let ca = Ca::new();
    let (alice, bob) = (ca.user("Alice"), ca.user("Bob"));
    let options = Options::default();
    let (trust, now) = (ca.trust(), SystemTime::now());
    let receiver = || Receiver::new(KeyKind::P256).unwrap();
    let finish = |receiver: Receiver, reply: &[u8]| {
        receiver
            .finish(reply, alice.chain(), &trust, now)
            .map(|(credential, _)| credential)
    };
    let (wanting, request) = receiver();
    let (_, other_request) = receiver();
    let for_other = delegation::sign(&other_request, &alice, &options).unwrap();
    assert!(matches!(
        finish(wanting, &for_other),
        Err(DelegationError::WrongKey)
    ));
    let (wanting, request_of_bob) = receiver();
    let by_bob = delegation::sign(&request_of_bob, &bob, &options).unwrap();
    assert!(matches!(
        finish(wanting, &by_bob),
        Err(DelegationError::WrongIssuer { .. })
    ));
    let no_proxy = alice.leaf().to_der().unwrap();
    assert!(matches!(
        finish(receiver().0, &no_proxy),
        Err(DelegationError::WrongIssuer { .. })
    ));
    assert!(matches!(
        finish(receiver().0, b""),
        Err(DelegationError::NoCertificate)
    ));
    assert!(finish(receiver().0, b"\x30\x03abc").is_err());
    // One bit of the proxy's signature turned over: it is the chain that is wrong then.
    let (wanting, request_of_alice) = receiver();
    let mut forged = delegation::sign(&request_of_alice, &alice, &options).unwrap();
    if let Some(last) = forged.last_mut() {
        *last ^= 1;
    }
    assert!(matches!(
        finish(wanting, &forged),
        Err(DelegationError::Verify(VerifyError::BadSignature { .. }))
    ));
    // One bit of the key in the request turned over: the signature on it no longer holds.
    for at in 0..request.len() {
        let mut turned = request.clone();
        turned[at] ^= 1;
        assert!(
            delegation::sign(&turned, &alice, &options).is_err(),
            "byte {at}"
        );
    }
    let long = vec![0x30; delegation::MAX_REQUEST_BYTES + 1];
    assert!(matches!(
        delegation::sign(&long, &alice, &options),
        Err(DelegationError::TooLong { .. })
    ));
}

#[test]
fn a_key_made_earlier_serves_for_delegation() {
    let ca = Ca::new();
    let key = Key::generate(KeyKind::P256).unwrap();
    let (receiver, request) = Receiver::with_key(key).unwrap();
    let alice = ca.user("Alice");
    let reply = delegation::sign(&request, &alice, &Options::default()).unwrap();
    receiver
        .finish(&reply, alice.chain(), &ca.trust(), SystemTime::now())
        .unwrap();
}

#[test]
fn a_mapped_subject_has_its_accounts_in_order() {
    let text = "# comment\n\n\"/O=Grid/CN=Alice Tester\" alice,shared and the rest\n/O=Grid/USERID=bob bob\n";
    let map = GridMap::parse(text).unwrap();
    let alice = Dn::parse("/O=Grid/CN=Alice Tester").unwrap();
    let bob = Dn::parse("/O=Grid/UID=bob").unwrap();
    assert_eq!(map.lookup(&alice), ["alice", "shared"]);
    assert_eq!(map.account(&alice, None), Some("alice"));
    assert_eq!(map.account(&alice, Some("shared")), Some("shared"));
    assert_eq!(map.account(&alice, Some("root")), None);
    assert_eq!(map.account(&bob, None), Some("bob"));
    assert_eq!(map.account(&Dn::parse("/O=Grid").unwrap(), None), None);
}

#[test]
fn a_line_that_we_write_is_the_line_we_read() {
    for value in [
        "Alice Tester",
        "quote\"inside",
        "back\\slash",
        "Jürgen",
        "host/vm",
        "a/CN=b",
        "\\x41\\",
    ] {
        let name = Dn::parse("/O=Grid").unwrap().with("CN", value);
        let map = GridMap::parse(&GridMap::line(&name, &["one", "two"])).unwrap();
        assert_eq!(map.lookup(&name), ["one", "two"], "{value:?}");
    }
}

#[test]
fn a_request_made_elsewhere_is_issued_if_the_policy_admits_its_name() {
    let ca = Ca::new();
    let request = ca::request(&ca.name("Carol"), KeyKind::P256).unwrap();
    let pem = request.to_pem().unwrap();
    let certificate = ca.authority().issue(&pem, &Kind::User, HOUR).unwrap();
    assert_eq!(certificate.subject(), &ca.name("Carol"));
    let outside = Dn::parse("/O=Else/CN=Carol").unwrap();
    let request = ca::request(&outside, KeyKind::P256).unwrap();
    let refused = ca.authority().issue(&request.der, &Kind::User, HOUR);
    assert!(
        matches!(refused, Err(CaError::Policy { .. })),
        "{refused:?}"
    );
    let garbage = ca.authority().issue(b"garbage", &Kind::User, HOUR);
    assert!(matches!(garbage, Err(CaError::Request(_))), "{garbage:?}");
}

#[test]
fn a_host_is_certified_for_its_names() {
    let ca = Ca::new();
    let subject = ca.name("host/a.example");
    let enrol = |names: &[&str]| {
        let names = names.iter().map(|n| (*n).to_owned()).collect();
        ca.authority()
            .enrol(&subject, KeyKind::P256, &Kind::Host { names }, HOUR)
    };
    let host = enrol(&["b.example", "*.c.example", "10.0.0.1", "::1"]).unwrap();
    assert_eq!(host.leaf().fields().dns_names, ["b.example", "*.c.example"]);
    assert_eq!(host.leaf().fields().addresses.len(), 2);
    assert_eq!(enrol(&[]).unwrap().leaf().fields().dns_names, ["a.example"]);
    for bad in [
        "",
        "a b",
        "a..b",
        "a/b",
        "*",
        "host/a.example",
        "a\nb",
        "ä.example",
    ] {
        let refused = enrol(&[bad]);
        assert!(
            matches!(refused, Err(CaError::HostName { .. })),
            "{bad:?}: {refused:?}"
        );
    }
}

#[test]
fn a_ca_is_made_once_and_loads_again_with_its_log() {
    let ca = Ca::new();
    let (alice, bob) = (ca.user("Alice"), ca.user("Bob"));
    let dir = ca.dir().join("ca");
    let again = Authority::load(&dir).unwrap();
    again
        .revoke(&bob.leaf().serial().unwrap().to_lowercase())
        .unwrap();
    let issued = ca.authority().issued().unwrap();
    assert_eq!(issued.len(), 2);
    assert_eq!(
        (&issued[0].subject, issued[0].revoked),
        (alice.subject(), None)
    );
    assert!(issued[1].revoked.is_some());
    let mode = |path: &str| {
        std::fs::metadata(dir.join(path))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("private") & 0o7777, 0o700);
    assert_eq!(mode("private/ca-key.pem") & 0o7777, 0o600);
    let twice = Authority::init(&dir, again.subject(), &Default::default());
    assert!(matches!(twice, Err(CaError::Exists { .. })));
    std::fs::write(dir.join("log"), "issued nonsense\n").unwrap();
    let said = again.issued().unwrap_err().to_string();
    assert!(said.contains("line 1"), "{said}");
}

#[test]
fn what_is_installed_as_a_ca_must_be_one() {
    let ca = Ca::new();
    let trusted = ca.authority().trust_files().unwrap();
    let rows = [
        TrustFiles {
            certificate: ca.user("Alice").leaf().clone(),
            ..trusted.clone()
        },
        TrustFiles {
            policy: String::new(),
            ..trusted.clone()
        },
        TrustFiles {
            policy: "nonsense".to_owned(),
            ..trusted
        },
    ];
    for files in rows {
        assert!(install_trust(&ca.dir().join("elsewhere"), &files).is_err());
    }
    assert!(!ca.dir().join("elsewhere").exists());
}

#[test]
fn a_renewed_ca_stands_beside_the_old_one() {
    let (old, new) = (Ca::new(), Ca::new());
    let (alice, anew) = (old.user("Alice"), new.user("Alice"));
    new.authority().install_trust(&old.trust_dir()).unwrap();
    let now = SystemTime::now();
    for credential in [&alice, &anew] {
        verify(credential.chain(), &old.trust(), now, &Purpose::Client).unwrap();
    }
}
