//! Delegation: one side makes a key and a request, the other signs a proxy for it (spec/identity, clauses D1 to D4).
//!
//! The messages are DER as GSI sends them; how they travel (flag bytes, records) is the caller's protocol.

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::x509::{X509NameBuilder, X509Req};
use std::time::SystemTime;

use crate::certificate::{Certificate, CertificateError};
use crate::credential::Credential;
use crate::key::{Key, KeyError, KeyKind};
use crate::proxy::{self, Options, ProxyError};
use crate::trust::TrustStore;
use crate::verify::{Peer, Purpose, VerifyError, settled, verify};

/// A request of GT's has 700 bytes, with an RSA key of 8192 bits about 1.7 kB.
pub const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// A proxy has 1 kB; some senders add their whole chain.
pub const MAX_REPLY_BYTES: usize = 256 * 1024;

/// The subject of GT's requests; what the proxy is called is the signer's to say.
const SUBJECT: &str = "NULL SUBJECT NAME ENTRY";

/// Why a delegation failed.
#[derive(Debug, thiserror::Error)]
pub enum DelegationError {
    #[error("the peer's message has {bytes} bytes, at most {most} are read")]
    TooLong { bytes: usize, most: usize },
    #[error("the peer's certificate request cannot be read: {0}")]
    Request(ErrorStack),
    #[error("the peer's certificate request is not signed by the key in it")]
    RequestSignature,
    #[error("the peer asks for a proxy with a key of {bits} bits; RSA needs 2048 at least")]
    WeakKey { bits: u32 },
    #[error("the peer's reply holds no usable certificate: {0}")]
    Reply(#[from] CertificateError),
    #[error("the peer's reply holds no certificate")]
    NoCertificate,
    #[error("the certificate in the peer's reply is for another key than the one requested for")]
    WrongKey,
    #[error("the certificate in the peer's reply is no proxy of {expected}")]
    WrongIssuer { expected: String },
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("the cryptographic library failed: {0}")]
    Library(#[from] ErrorStack),
}

/// The receiving side, between its request and the reply. Holds the new key.
#[derive(Debug)]
pub struct Receiver {
    key: Key,
}

impl Receiver {
    /// Makes a key and the request for it (PKCS #10, DER). P-256 unless the credential must be delegated to GCT peers.
    pub fn new(kind: KeyKind) -> Result<(Receiver, Vec<u8>), DelegationError> {
        Self::with_key(Key::generate(kind)?)
    }

    /// The same with a key made earlier: RSA takes too long to be made while a peer waits.
    pub fn with_key(key: Key) -> Result<(Receiver, Vec<u8>), DelegationError> {
        let mut name = X509NameBuilder::new()?;
        name.append_entry_by_nid(Nid::COMMONNAME, SUBJECT)?;
        let mut request = X509Req::builder()?;
        request.set_version(0)?;
        request.set_subject_name(&name.build())?;
        request.set_pubkey(&key.0)?;
        request.sign(&key.0, MessageDigest::sha256())?;
        let der = request.build().to_der()?;
        Ok((Receiver { key }, der))
    }

    /// Takes the reply: the proxy's certificate, which others may follow. `shown` is the chain that the peer showed in
    /// the handshake (`Peer::chain`); it completes the credential, which is then judged as if it were shown to us: since
    /// the handshake a list may have come that revokes it.
    pub fn finish(
        self,
        reply: &[u8],
        shown: &[Certificate],
        trust: &TrustStore,
        at: SystemTime,
    ) -> Result<(Credential, Peer), DelegationError> {
        if reply.len() > MAX_REPLY_BYTES {
            return Err(DelegationError::TooLong {
                bytes: reply.len(),
                most: MAX_REPLY_BYTES,
            });
        }
        let leaf = Certificate::sequence_from_der(reply)?
            .into_iter()
            .next()
            .ok_or(DelegationError::NoCertificate)?;
        let issuer = shown.first().ok_or(DelegationError::NoCertificate)?;
        if !leaf.is_proxy() || leaf.issuer() != issuer.subject() {
            return Err(DelegationError::WrongIssuer {
                expected: issuer.subject().to_string(),
            });
        }
        let mut chain = vec![leaf];
        chain.extend(shown.iter().cloned());
        let credential = Credential::assemble(chain, self.key);
        if !credential.key_matches()? {
            return Err(DelegationError::WrongKey);
        }
        let peer = verify(credential.chain(), trust, at, &Purpose::Client)?;
        Ok((credential, peer))
    }
}

/// The sending side: signs a proxy for the peer's request. Returns its DER; what the request says besides its key is
/// not looked at. `Options::limited` should be true unless the peer is to start jobs elsewhere.
pub fn sign(
    request: &[u8],
    credential: &Credential,
    options: &Options,
) -> Result<Vec<u8>, DelegationError> {
    if request.len() > MAX_REQUEST_BYTES {
        return Err(DelegationError::TooLong {
            bytes: request.len(),
            most: MAX_REQUEST_BYTES,
        });
    }
    let request = X509Req::from_der(request).map_err(DelegationError::Request)?;
    let public = request.public_key().map_err(DelegationError::Request)?;
    if !settled(request.verify(&public)).map_err(DelegationError::Request)? {
        return Err(DelegationError::RequestSignature);
    }
    if public.rsa().is_ok() && public.bits() < 2048 {
        return Err(DelegationError::WeakKey {
            bits: public.bits(),
        });
    }
    Ok(proxy::sign(credential, &public, options)?.to_der()?)
}
