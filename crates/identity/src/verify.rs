//! The one verification of the grid (spec/identity, clauses V1 to V5): OpenSSL judges chain, signatures, validity and
//! what of RFC 3820 it knows; `judge` then applies the grid's rules to the chain that OpenSSL built.
//!
//! TLS (`tls`) runs the same two from inside the handshake, so that there is no second path to disagree with this one.

use std::time::SystemTime;

use openssl::error::ErrorStack;
use openssl::stack::Stack;
use openssl::x509::{X509, X509PurposeId, X509StoreContext, X509StoreContextRef};

use crate::certificate::{Certificate, CertificateError};
use crate::credential::kind_of;
use crate::dn::Dn;
use crate::host;
use crate::proxy::{Language, ProxyKind};
use crate::trust::{CrlWord, TrustStore};

/// What the peer is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// It comes to us: any subject; what it may do is decided by its identity.
    Client,
    /// We went to this host (a name or an address): its certificate must be for it.
    Server(String),
    /// We went to an end point of somebody: it must have this identity, whatever its host is.
    Identity(Dn),
    /// We went to a file server of this host, or of somebody's on it: either will do (GASS).
    HostOrIdentity { host: String, identity: Dn },
}

/// Who the peer is, once verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Subject of the end entity certificate: who this is.
    pub identity: Dn,
    /// Subject of the certificate that was shown: the identity, and a CN for each proxy.
    pub subject: Dn,
    pub kind: ProxyKind,
    /// When the first of the proxies and the end entity certificate ends.
    pub not_after: SystemTime,
    /// From the shown certificate to the end entity's: what completes a delegated proxy.
    pub chain: Vec<Certificate>,
}

/// Why a chain was refused. All but `Library` are the peer's fault, or say what the site has to repair.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("no certificate was shown")]
    EmptyChain,
    #[error(
        "{subject} is signed by {issuer}, which is not trusted here; install that CA with `kumiko identity trust`, if it is to be"
    )]
    UnknownIssuer { subject: Dn, issuer: Dn },
    #[error(
        "the certificate of {subject} has expired; make a new proxy or have the certificate renewed"
    )]
    Expired { subject: Dn },
    #[error("the certificate of {subject} is not valid yet; is a clock wrong?")]
    NotYetValid { subject: Dn },
    #[error("the signature on the certificate of {subject} is wrong")]
    BadSignature { subject: Dn },
    #[error("there is no signing policy for {ca} in {trust_dir}")]
    NoSigningPolicy { ca: Dn, trust_dir: String },
    #[error("{ca} may not sign {subject}: its signing policy does not allow the name")]
    SigningPolicy { ca: Dn, subject: Dn },
    #[error("the certificate of {subject} was revoked by {ca}")]
    Revoked { subject: Dn, ca: Dn },
    #[error(
        "the revocation list of {ca} is out of date; fetch a new one: until then its certificates are refused"
    )]
    StaleCrl { ca: Dn },
    #[error(
        "{subject} is a legacy (GT2) proxy; make an RFC 3820 proxy, as grid-proxy-init does by default"
    )]
    LegacyProxy { subject: Dn },
    #[error(
        "{subject} is a proxy of the GT3 draft; make an RFC 3820 proxy, as grid-proxy-init does by default"
    )]
    DraftProxy { subject: Dn },
    #[error("the proxy {subject} is not named as its issuer with one CN added")]
    ProxyName { subject: Dn },
    #[error("more proxies stand below {subject} than its path length allows")]
    ProxyPathLength { subject: Dn },
    #[error("the proxy {subject} claims all rights, but stands below a limited one")]
    BelowLimited { subject: Dn },
    #[error("the proxy {subject} has the policy language {language}, which is not understood here")]
    ProxyLanguage { subject: Dn, language: String },
    #[error("the proxy {subject} was signed by a CA")]
    ProxyOfCa { subject: Dn },
    #[error("the certificate is for {}, not for {host}", names.join(", "))]
    WrongHost { host: String, names: Vec<String> },
    #[error("the peer is {found}, not {expected}")]
    WrongIdentity { expected: Dn, found: Dn },
    /// What OpenSSL refuses for reasons of its own.
    #[error("the certificate of {subject} was refused: {reason} (OpenSSL's number {code})")]
    Refused {
        subject: Dn,
        reason: &'static str,
        code: i32,
    },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the cryptographic library failed: {0}")]
    Library(#[from] ErrorStack),
}

/// Verifies a chain, leaf first, as of `at`. Issuers may stand in any order, and CAs be left out.
pub fn verify(
    chain: &[Certificate],
    trust: &TrustStore,
    at: SystemTime,
    purpose: &Purpose,
) -> Result<Peer, VerifyError> {
    let (leaf, others) = chain.split_first().ok_or(VerifyError::EmptyChain)?;
    let mut untrusted = Stack::<X509>::new()?;
    for certificate in others {
        untrusted.push(certificate.to_x509())?;
    }
    let role = match purpose {
        Purpose::Client => X509PurposeId::SSL_CLIENT,
        Purpose::Server(_) | Purpose::Identity(_) | Purpose::HostOrIdentity { .. } => {
            X509PurposeId::SSL_SERVER
        }
    };
    let store = trust.store(Some((at, role)))?;
    let mut context = X509StoreContext::new()?;
    settled(context.init(&store, leaf.x509(), &untrusted, |context| {
        Ok(if context.verify_cert()? {
            judge(context, trust, at, purpose)
        } else {
            Err(explain(context))
        })
    }))?
}

/// An answer of OpenSSL's, with its reasons forgotten. After a plain "no" they stay in the thread's queue, where the next
/// TLS read on this thread would take them for its own failure (SSL_get_error(3)).
pub(crate) fn settled<T>(answer: T) -> T {
    drop(ErrorStack::get());
    answer
}

/// The grid's rules over the chain that OpenSSL built and found good: leaf first, root last.
pub(crate) fn judge(
    context: &X509StoreContextRef,
    trust: &TrustStore,
    at: SystemTime,
    purpose: &Purpose,
) -> Result<Peer, VerifyError> {
    let built = context.chain().ok_or(VerifyError::EmptyChain)?;
    let chain = built
        .iter()
        .map(Certificate::from_x509)
        .collect::<Result<Vec<_>, _>>()?;
    let proxies = chain.iter().take_while(|c| c.is_proxy()).count();
    let Some((own, authorities)) = chain.split_at_checked(proxies + 1) else {
        return Err(VerifyError::EmptyChain);
    };
    let entity = &own[proxies];
    check_proxies(own)?;
    check_authorities(entity, authorities, trust, at)?;
    match purpose {
        Purpose::Client => {}
        Purpose::HostOrIdentity { identity, .. } if entity.subject() == identity => {}
        Purpose::Server(host) | Purpose::HostOrIdentity { host, .. } => {
            if !host::matches(host, entity.fields()) {
                return Err(VerifyError::WrongHost {
                    host: host.clone(),
                    names: host::names(entity.fields()),
                });
            }
        }
        Purpose::Identity(expected) => {
            if entity.subject() != expected {
                return Err(VerifyError::WrongIdentity {
                    expected: expected.clone(),
                    found: entity.subject().clone(),
                });
            }
        }
    }
    let not_after = own.iter().map(|c| c.fields().not_after).min();
    Ok(Peer {
        identity: entity.subject().clone(),
        subject: own[0].subject().clone(),
        kind: kind_of(own.iter()),
        not_after: not_after.unwrap_or(SystemTime::UNIX_EPOCH),
        chain: own.to_vec(),
    })
}

/// `own`: the proxies, leaf first, and the end entity last.
fn check_proxies(own: &[Certificate]) -> Result<(), VerifyError> {
    for certificate in own {
        foreign_proxy(certificate)?;
    }
    let mut below_limited = false;
    for (depth, pair) in own.windows(2).enumerate().rev() {
        let [proxy, issuer] = pair else { continue };
        let subject = || proxy.subject().clone();
        if issuer.fields().is_ca {
            return Err(VerifyError::ProxyOfCa { subject: subject() });
        }
        if proxy.issuer() != issuer.subject() || !proxy.subject().is_one_cn_below(issuer.subject())
        {
            return Err(VerifyError::ProxyName { subject: subject() });
        }
        let Some(info) = &proxy.fields().proxy_info else {
            continue;
        };
        // `depth` proxies stand below this one.
        if info
            .path_length
            .is_some_and(|most| depth as u64 > u64::from(most))
        {
            return Err(VerifyError::ProxyPathLength { subject: subject() });
        }
        match &info.language {
            Language::InheritAll if below_limited => {
                return Err(VerifyError::BelowLimited { subject: subject() });
            }
            Language::Other(language) => {
                return Err(VerifyError::ProxyLanguage {
                    subject: subject(),
                    language: language.clone(),
                });
            }
            Language::Limited => below_limited = true,
            Language::InheritAll | Language::Independent => {}
        }
    }
    Ok(())
}

/// The end entity and the CAs above it: each link against its CA's signing policy and revocation list.
fn check_authorities(
    entity: &Certificate,
    authorities: &[Certificate],
    trust: &TrustStore,
    at: SystemTime,
) -> Result<(), VerifyError> {
    let signed = std::iter::once(entity).chain(authorities);
    for (certificate, issuer) in signed.zip(authorities) {
        let ca = issuer.subject();
        let no_policy = || VerifyError::NoSigningPolicy {
            ca: ca.clone(),
            trust_dir: trust.dir().display().to_string(),
        };
        let anchor = trust.anchor(ca).ok_or_else(no_policy)?;
        let policy = anchor.policy.as_ref().ok_or_else(no_policy)?;
        let subject = certificate.subject();
        if !policy.allows(ca, subject) {
            return Err(VerifyError::SigningPolicy {
                ca: ca.clone(),
                subject: subject.clone(),
            });
        }
        match anchor.ask_crl(certificate, at)? {
            CrlWord::Good => {}
            CrlWord::Revoked => {
                return Err(VerifyError::Revoked {
                    subject: subject.clone(),
                    ca: ca.clone(),
                });
            }
            CrlWord::Stale => return Err(VerifyError::StaleCrl { ca: ca.clone() }),
        }
    }
    Ok(())
}

/// The two older kinds of proxies, refused by name.
fn foreign_proxy(certificate: &Certificate) -> Result<(), VerifyError> {
    let subject = || certificate.subject().clone();
    if certificate.fields().is_draft_proxy {
        return Err(VerifyError::DraftProxy { subject: subject() });
    }
    if certificate.fields().is_legacy_proxy() {
        return Err(VerifyError::LegacyProxy { subject: subject() });
    }
    Ok(())
}

/// X509_V_ERR_PROXY_SUBJECT_NAME_VIOLATION of openssl/x509_vfy.h, which openssl-sys leaves out.
const PROXY_SUBJECT_NAME_VIOLATION: i32 = 72;

/// OpenSSL's refusal in our words.
pub(crate) fn explain(context: &X509StoreContextRef) -> VerifyError {
    // OpenSSL names what it stumbled on first; that an old proxy is in the chain is the better answer.
    for certificate in context.chain().into_iter().flatten() {
        if let Ok(Err(error)) = Certificate::from_x509(certificate).map(|c| foreign_proxy(&c)) {
            return error;
        }
    }
    let Some(current) = context.current_cert() else {
        return VerifyError::EmptyChain;
    };
    let certificate = match Certificate::from_x509(current) {
        Ok(certificate) => certificate,
        Err(error) => return error.into(),
    };
    let subject = certificate.subject().clone();
    let result = context.error();
    match result.as_raw() {
        openssl_sys::X509_V_ERR_CERT_HAS_EXPIRED => VerifyError::Expired { subject },
        openssl_sys::X509_V_ERR_CERT_NOT_YET_VALID => VerifyError::NotYetValid { subject },
        openssl_sys::X509_V_ERR_CERT_SIGNATURE_FAILURE => VerifyError::BadSignature { subject },
        openssl_sys::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
        | openssl_sys::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        | openssl_sys::X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
        | openssl_sys::X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
        | openssl_sys::X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN => VerifyError::UnknownIssuer {
            subject,
            issuer: certificate.issuer().clone(),
        },
        openssl_sys::X509_V_ERR_PROXY_PATH_LENGTH_EXCEEDED => {
            VerifyError::ProxyPathLength { subject }
        }
        PROXY_SUBJECT_NAME_VIOLATION => VerifyError::ProxyName { subject },
        code => VerifyError::Refused {
            subject,
            reason: result.error_string(),
            code,
        },
    }
}
