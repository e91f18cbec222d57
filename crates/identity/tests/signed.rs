//! Signed texts: read back as they were, refused when anything about them is not as it was signed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use kumiko_identity::signed::{MAX_SIGNED_BYTES, SignedError, open, sign};
use kumiko_identity::{Credential, TrustStore, VerifyError};
use kumiko_testkit::Ca;

const TEXT: &[u8] = b"vo = \"lattice.example\"\r\nmembers = []\n";

fn refused(pem: &[u8], trust: &TrustStore) -> SignedError {
    open(pem, trust, SystemTime::now()).unwrap_err()
}

#[test]
fn a_signed_text_tells_its_signer() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let pem = sign(TEXT, &alice).unwrap();
    assert!(pem.starts_with(b"-----BEGIN PKCS7-----"));
    let (text, peer) = open(&pem, &ca.trust(), SystemTime::now()).unwrap();
    assert_eq!(text, TEXT);
    assert_eq!(peer.identity, *alice.subject());
}

#[test]
fn what_openssl_signs_is_read_alike() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    alice.save_pair(&certificate, &key).unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, TEXT).unwrap();
    let made = Command::new("openssl")
        .args([
            "smime",
            "-sign",
            "-binary",
            "-nodetach",
            "-outform",
            "PEM",
            "-in",
        ])
        .arg(&text)
        .arg("-signer")
        .arg(&certificate)
        .arg("-inkey")
        .arg(&key)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(made.status.success());
    let (read, _) = open(&made.stdout, &ca.trust(), SystemTime::now()).unwrap();
    assert_eq!(read, TEXT);
}

#[test]
fn what_is_not_as_it_was_signed_is_refused() {
    let ca = Ca::new();
    let alice = ca.user("Alice");
    let pem = sign(TEXT, &alice).unwrap();
    let trust = ca.trust();
    // Each character of it changed in turn: the text, the signature, the certificate. None reads as another text.
    let body: Vec<usize> = (0..pem.len())
        .filter(|at| pem[*at].is_ascii_alphanumeric())
        .collect();
    for at in body.into_iter().step_by(7) {
        let mut changed = pem.clone();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        if let Ok((text, peer)) = open(&changed, &trust, SystemTime::now()) {
            assert_eq!(
                (text.as_slice(), &peer.identity),
                (TEXT, alice.subject()),
                "{at}"
            );
        }
    }
    assert!(matches!(refused(b"", &trust), SignedError::Form(_)));
    assert!(matches!(refused(TEXT, &trust), SignedError::Form(_)));
    assert!(matches!(
        refused(&pem[..pem.len() / 2], &trust),
        SignedError::Form(_)
    ));
    let long = vec![b'x'; MAX_SIGNED_BYTES + 1];
    assert!(matches!(refused(&long, &trust), SignedError::TooLong));
}

#[test]
fn signers_who_are_not_believed_here_are_refused() {
    let ca = Ca::new();
    let other = Ca::with("/O=Elsewhere/CN=CA", &Default::default());
    let check = |signer: &Credential| refused(&sign(TEXT, signer).unwrap(), &ca.trust());
    let stranger = check(&other.user("Alice"));
    assert!(
        matches!(
            &stranger,
            SignedError::Signer(VerifyError::UnknownIssuer { .. })
        ),
        "{stranger}"
    );
    let alice = ca.user("Alice");
    let pem = sign(TEXT, &alice).unwrap();
    let later = SystemTime::now() + Duration::from_secs(2 * 86_400);
    let expired = open(&pem, &ca.trust(), later).unwrap_err();
    assert!(
        matches!(&expired, SignedError::Signer(VerifyError::Expired { .. })),
        "{expired}"
    );
    let proxy = sign(TEXT, &ca.proxy(&alice)).unwrap_err();
    assert!(matches!(proxy, SignedError::Proxy { .. }), "{proxy}");
}
