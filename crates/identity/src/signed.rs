//! Texts that somebody has signed (PKCS #7, RFC 2315, in PEM; `openssl smime -sign -nodetach -outform PEM` makes the
//! same). Who signed is decided by the one verification of this crate (V1 to V5); whether they may, by the caller.

use std::time::SystemTime;

use openssl::error::ErrorStack;
use openssl::pkcs7::{Pkcs7, Pkcs7Flags};
use openssl::stack::Stack;
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;

use crate::certificate::{Certificate, CertificateError};
use crate::credential::Credential;
use crate::proxy::ProxyKind;
use crate::trust::TrustStore;
use crate::verify::{Peer, Purpose, VerifyError, settled, verify};

/// Longest signed text that is read: a list of 20,000 names of 100 bytes, in base64.
pub const MAX_SIGNED_BYTES: usize = 4 << 20;
/// What such a text begins with.
pub const SIGNED_BEGIN: &str = "-----BEGIN PKCS7-----";

/// Why a signed text is not believed, or could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    #[error("it is longer than {MAX_SIGNED_BYTES} bytes")]
    TooLong,
    #[error("it is no signed text (PKCS #7 in PEM, beginning with {SIGNED_BEGIN}): {0}")]
    Form(ErrorStack),
    #[error("it has {found} signatures, and needs one with the signer's certificate in it")]
    Signers { found: usize },
    #[error("the text is not what its signer signed: {0}")]
    Changed(ErrorStack),
    #[error("its signer is not believed: {0}")]
    Signer(#[from] VerifyError),
    #[error(
        "it is signed with a proxy ({subject}), which anybody may have who runs a job of its owner's: sign with the certificate itself"
    )]
    Proxy { subject: String },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the cryptographic library failed: {0}")]
    Library(#[from] ErrorStack),
}

/// Signs a text; the text and the signer's chain are in the result, which is PEM.
pub fn sign(text: &[u8], signer: &Credential) -> Result<Vec<u8>, SignedError> {
    if signer.proxy_kind() != ProxyKind::EndEntity {
        return Err(SignedError::Proxy {
            subject: signer.subject().to_string(),
        });
    }
    let mut others = Stack::<X509>::new()?;
    for certificate in signer.issuers() {
        others.push(certificate.to_x509())?;
    }
    let leaf = signer.leaf().x509();
    let signed = Pkcs7::sign(leaf, &signer.key().0, &others, text, Pkcs7Flags::BINARY)?;
    Ok(signed.to_pem()?)
}

/// The text, and who signed it: a certificate (no proxy) of an authority that is trusted, as of `at`.
pub fn open(
    pem: &[u8],
    trust: &TrustStore,
    at: SystemTime,
) -> Result<(Vec<u8>, Peer), SignedError> {
    if pem.len() > MAX_SIGNED_BYTES {
        return Err(SignedError::TooLong);
    }
    let signed = settled(Pkcs7::from_pem(pem)).map_err(SignedError::Form)?;
    let none = Stack::<X509>::new()?;
    let signers = settled(signed.signers(&none, Pkcs7Flags::empty()))
        .map_err(|_| SignedError::Signers { found: 0 })?;
    let signer = match (signers.get(0), signers.len()) {
        (Some(signer), 1) => Certificate::from_x509(signer)?,
        (_, found) => return Err(SignedError::Signers { found }),
    };
    let mut text = Vec::new();
    // The chain is verified below: here it is only whether the signer's key made this signature over this text.
    let flags = Pkcs7Flags::NOVERIFY | Pkcs7Flags::BINARY;
    let store = X509StoreBuilder::new()?.build();
    settled(signed.verify(&none, &store, None, Some(&mut text), flags))
        .map_err(SignedError::Changed)?;
    let mut chain = vec![signer];
    let given = signed.signed().and_then(|signed| signed.certificates());
    for certificate in given.into_iter().flatten() {
        let certificate = Certificate::from_x509(certificate)?;
        if !chain.contains(&certificate) {
            chain.push(certificate);
        }
    }
    let peer = verify(&chain, trust, at, &Purpose::Client)?;
    match peer.kind {
        ProxyKind::EndEntity => Ok((text, peer)),
        _ => Err(SignedError::Proxy {
            subject: peer.subject.to_string(),
        }),
    }
}
