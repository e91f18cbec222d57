//! A small CA for a site or a VO: keys, requests, certificates, revocation (spec/identity, clauses A1 to A7).
//!
//! One directory holds it: `ca-cert.pem`, `private/ca-key.pem`, `signing_policy`, `log` and `crl.pem`. The log is only
//! ever appended to, so two commands at a time lose nothing. Installing a CA where others trust it is `install`.

mod encode;
mod install;
mod log;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Public};
use openssl::x509::X509Req;

use crate::certificate::{Certificate, CertificateError};
use crate::credential::Credential;
use crate::dn::Dn;
use crate::key::{self, Key, KeyError, KeyKind};
use crate::signing_policy::{SigningPolicy, SigningPolicyError};
use crate::verify::settled;

pub use install::{TrustFiles, install_trust};
pub use log::{Issued, LogError};

const DAY: Duration = Duration::from_secs(86_400);
const CERTIFICATE: &str = "ca-cert.pem";
const KEY: &str = "private/ca-key.pem";
const POLICY: &str = "signing_policy";
const LOG: &str = "log";
const CRL: &str = "crl.pem";

/// A request has about 1 kB.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Why the CA did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("there is a CA in {} already; take another directory", path.display())]
    Exists { path: PathBuf },
    #[error("{name} cannot be a name in a certificate: {source}")]
    Name { name: Dn, source: ErrorStack },
    #[error("not a certificate request in PEM or DER: {0}")]
    Request(ErrorStack),
    #[error("the certificate request is longer than {MAX_REQUEST_BYTES} bytes")]
    RequestTooLong,
    #[error("the certificate request of {subject} is not signed by the key in it")]
    RequestSignature { subject: Dn },
    #[error("the key of {subject} is too weak: RSA of {bits} bits; 2048 at least")]
    WeakKey { subject: Dn, bits: u32 },
    #[error("this CA may not sign {subject}: its policy allows only what {} says", policy.display())]
    Policy { subject: Dn, policy: PathBuf },
    #[error("{name:?} is neither a host name nor an address")]
    HostName { name: String },
    #[error("a host certificate needs a name: give one, or a subject that ends in /CN=host/NAME")]
    NoHostName,
    #[error("this CA has issued no certificate with serial number {serial}")]
    UnknownSerial { serial: String },
    #[error("{} holds a CA whose name hash {hash} is that of {subject} too; the two cannot share a trust directory", dir.display())]
    HashTaken {
        dir: PathBuf,
        hash: String,
        subject: Dn,
    },
    #[error("the signing policy does not speak of {ca}")]
    PolicyOfOther { ca: Dn },
    #[error("{subject} is no CA: its certificate may not sign others")]
    NotCa { subject: Dn },
    #[error("the signing policy cannot be used: {0}")]
    PolicySyntax(#[from] SigningPolicyError),
    #[error("the log of the CA cannot be used: {0}")]
    Log(#[from] LogError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the cryptographic library failed: {0}")]
    Library(#[from] ErrorStack),
}

/// How a CA is to be.
#[derive(Debug, Clone)]
pub struct Options {
    pub key: KeyKind,
    pub lifetime: Duration,
    /// Globs over names that it may sign; empty: everything below its own name without the last part.
    pub subjects: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            key: KeyKind::P256,
            lifetime: 3650 * DAY,
            subjects: Vec::new(),
        }
    }
}

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    User,
    /// Names and addresses of the host; empty: the one in the subject's CN.
    Host {
        names: Vec<String>,
    },
}

/// A key and the request to certify it.
#[derive(Debug)]
pub struct Request {
    pub key: Key,
    /// PKCS #10, DER.
    pub der: Vec<u8>,
}

impl Request {
    pub fn to_pem(&self) -> Result<Vec<u8>, CaError> {
        Ok(X509Req::from_der(&self.der)?.to_pem()?)
    }
}

/// Makes a key and a request for `subject`.
pub fn request(subject: &Dn, kind: KeyKind) -> Result<Request, CaError> {
    let key = Key::generate(kind)?;
    let mut builder = X509Req::builder()?;
    builder.set_version(0)?;
    let name = encode::name(subject)?;
    builder.set_subject_name(&name)?;
    builder.set_pubkey(&key.0)?;
    builder.sign(&key.0, MessageDigest::sha256())?;
    let der = builder.build().to_der()?;
    Ok(Request { key, der })
}

/// Who asks in a request (PEM or DER), which has to be signed by its own key; that it is who it says, nobody knows yet.
pub fn request_subject(request: &[u8]) -> Result<Dn, CaError> {
    Ok(read_request(request)?.1)
}

fn read_request(bytes: &[u8]) -> Result<(X509Req, Dn, PKey<Public>), CaError> {
    if bytes.len() > MAX_REQUEST_BYTES {
        return Err(CaError::RequestTooLong);
    }
    let request = if bytes.first() == Some(&0x30) {
        X509Req::from_der(bytes)
    } else {
        X509Req::from_pem(bytes)
    }
    .map_err(CaError::Request)?;
    let subject = request.subject_name().to_der()?;
    let subject = Dn::from_der(&subject).map_err(CertificateError::from)?;
    let public = request.public_key().map_err(CaError::Request)?;
    if !settled(request.verify(&public)).map_err(CaError::Request)? {
        return Err(CaError::RequestSignature { subject });
    }
    if public.rsa().is_ok() && public.bits() < 2048 {
        let bits = public.bits();
        return Err(CaError::WeakKey { subject, bits });
    }
    Ok((request, subject, public))
}

/// The CA itself, with its key.
#[derive(Debug)]
pub struct Authority {
    dir: PathBuf,
    certificate: Certificate,
    key: Key,
    policy: SigningPolicy,
    policy_text: String,
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CaError {
    let path = path.to_owned();
    move |source| CaError::Io {
        action,
        path,
        source,
    }
}

impl Authority {
    /// Makes a CA in `dir`, which may exist but hold no CA.
    pub fn init(dir: &Path, subject: &Dn, options: &Options) -> Result<Authority, CaError> {
        let key_path = dir.join(KEY);
        if key_path.exists() {
            return Err(CaError::Exists {
                path: dir.to_owned(),
            });
        }
        let private = dir.join("private");
        std::fs::create_dir_all(dir).map_err(io("make", dir))?;
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .recursive(true)
            .create(&private)
            .map_err(io("make", &private))?;
        let subjects = if options.subjects.is_empty() {
            vec![format!("{}/*", subject.parent())]
        } else {
            options.subjects.clone()
        };
        let policy_text = SigningPolicy::text_for(subject, &subjects);
        let policy = SigningPolicy::parse(&policy_text)?;
        let key = Key::generate(options.key)?;
        let certificate = encode::root(subject, &key, options.lifetime)?;
        key::write_secret(&key_path, &key.to_pem()?)?;
        key::replace_file(&dir.join(POLICY), policy_text.as_bytes(), 0o644)?;
        key::replace_file(&dir.join(CERTIFICATE), &certificate.to_pem()?, 0o644)?;
        let authority = Authority {
            dir: dir.to_owned(),
            certificate,
            key,
            policy,
            policy_text,
        };
        authority.write_crl(None)?;
        Ok(authority)
    }

    pub fn load(dir: &Path) -> Result<Authority, CaError> {
        let path = dir.join(CERTIFICATE);
        let pem = std::fs::read(&path).map_err(io("read", &path))?;
        let certificate = Certificate::bundle_from_pem(&pem)?
            .into_iter()
            .next()
            .ok_or(CertificateError::NoCertificate { bytes: pem.len() })?;
        let key_path = dir.join(KEY);
        let key = Key::from_pem(&key::read_secret(&key_path)?, None, &key_path)?;
        let path = dir.join(POLICY);
        let policy_text = std::fs::read_to_string(&path).map_err(io("read", &path))?;
        Ok(Authority {
            dir: dir.to_owned(),
            certificate,
            key,
            policy: SigningPolicy::parse(&policy_text)?,
            policy_text,
        })
    }

    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub fn subject(&self) -> &Dn {
        self.certificate.subject()
    }

    /// The name below which it signs by default: `/O=Grid` for a CA `/O=Grid/CN=CA`.
    pub fn name_space(&self) -> Dn {
        self.subject().parent()
    }

    /// Signs a request (PEM or DER) whose subject its policy admits. The lifetime is cut off where the CA ends.
    pub fn issue(
        &self,
        request: &[u8],
        kind: &Kind,
        lifetime: Duration,
    ) -> Result<Certificate, CaError> {
        let (request, subject, public) = read_request(request)?;
        if !self.policy.allows(self.subject(), &subject) {
            return Err(CaError::Policy {
                subject,
                policy: self.dir.join(POLICY),
            });
        }
        let names = match kind {
            Kind::User => None,
            Kind::Host { names } => Some(host_names(names, &subject)?),
        };
        let end = SystemTime::now()
            .checked_add(lifetime)
            .map_or(self.certificate.fields().not_after, |end| {
                end.min(self.certificate.fields().not_after)
            });
        let certificate = encode::end_entity(
            &self.certificate,
            &self.key,
            request.subject_name(),
            &public,
            names.as_deref(),
            end,
        )?;
        // Recorded before it is handed out: what is not in the log could not be revoked.
        log::append_issued(&self.dir.join(LOG), &certificate)?;
        Ok(certificate)
    }

    /// Key, request and certificate in one step, for whom the CA itself enrols.
    pub fn enrol(
        &self,
        subject: &Dn,
        key: KeyKind,
        kind: &Kind,
        lifetime: Duration,
    ) -> Result<Credential, CaError> {
        let request = request(subject, key)?;
        let certificate = self.issue(&request.der, kind, lifetime)?;
        Ok(Credential::assemble(vec![certificate], request.key))
    }

    /// All certificates ever issued, in order, with their revocations.
    pub fn issued(&self) -> Result<Vec<Issued>, CaError> {
        Ok(log::read(&self.dir.join(LOG))?)
    }

    /// Revokes a certificate by its serial number in hexadecimal, and writes the CRL anew. Twice does no harm.
    pub fn revoke(&self, serial: &str) -> Result<(), CaError> {
        let serial = serial.to_ascii_uppercase();
        let known = self.issued()?.into_iter().find(|i| i.serial == serial);
        let Some(known) = known else {
            return Err(CaError::UnknownSerial { serial });
        };
        if known.revoked.is_none() {
            log::append_revoked(&self.dir.join(LOG), &serial)?;
        }
        self.write_crl(None)
    }

    /// Writes the CRL anew. It is good for `lifetime`, else as long as the CA: past its end every certificate of the CA
    /// is refused, so a short one is for those who distribute it by a timer.
    pub fn write_crl(&self, lifetime: Option<Duration>) -> Result<(), CaError> {
        let end = lifetime
            .and_then(|l| SystemTime::now().checked_add(l))
            .unwrap_or(self.certificate.fields().not_after);
        let crl = encode::crl(&self.certificate, &self.key, &self.issued()?, end)?;
        Ok(key::replace_file(&self.dir.join(CRL), &crl, 0o644)?)
    }

    /// The CRL in PEM.
    pub fn crl(&self) -> Result<Vec<u8>, CaError> {
        let path = self.dir.join(CRL);
        std::fs::read(&path).map_err(io("read", &path))
    }

    /// What others need to trust this CA.
    pub fn trust_files(&self) -> Result<TrustFiles, CaError> {
        Ok(TrustFiles {
            certificate: self.certificate.clone(),
            policy: self.policy_text.clone(),
            crl: Some(self.crl()?),
        })
    }

    /// Installs this CA in a trust directory, or brings its CRL up to date there.
    pub fn install_trust(&self, dir: &Path) -> Result<(), CaError> {
        install_trust(dir, &self.trust_files()?)
    }
}

/// The names for subjectAltName.
fn host_names(given: &[String], subject: &Dn) -> Result<Vec<String>, CaError> {
    let names = if given.is_empty() {
        let cn = subject.common_name().ok_or(CaError::NoHostName)?;
        vec![cn.strip_prefix("host/").unwrap_or(cn).to_owned()]
    } else {
        given.to_vec()
    };
    for name in &names {
        let label = |l: &str| {
            !l.is_empty()
                && l.len() < 64
                && l.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let plain = name.strip_prefix("*.").unwrap_or(name);
        let is_host = name.len() < 254 && plain.split('.').all(label);
        if !is_host && name.parse::<IpAddr>().is_err() {
            return Err(CaError::HostName { name: name.clone() });
        }
    }
    Ok(names)
}
