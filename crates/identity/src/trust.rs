//! A trust directory: the CAs, their signing policies and their revocation lists (spec/identity, clauses T1 to T4).
//!
//! Reading only; what installs a CA there is `ca`. A CA of which any file is broken is not trusted at all.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use openssl::error::ErrorStack;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::{X509VerifyFlags, X509VerifyParam};
use openssl::x509::{X509Crl, X509PurposeId};

use crate::certificate::{Certificate, CertificateError};
use crate::dn::Dn;
use crate::proxy::asn1_time;
use crate::signing_policy::{SigningPolicy, SigningPolicyError};
use crate::verify::settled;

/// A revocation list of the largest CAs has a few MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The directory as a whole could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot read the trust directory {}: {source}; make one with `kumiko identity init-ca` or `trust`, or name it in X509_CERT_DIR", path.display())]
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// Why a file of the directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustFileError {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("longer than {MAX_FILE_BYTES} bytes")]
    TooLong,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("its name begins with {found}, the hash of its subject is {expected}")]
    WrongHash { found: String, expected: String },
    #[error("{0}")]
    Policy(#[from] SigningPolicyError),
    #[error("not a revocation list: {0}")]
    Crl(ErrorStack),
    #[error("a revocation list that no CA of this hash has signed")]
    CrlNotSigned,
}

/// A file that made its CA untrusted.
#[derive(Debug)]
pub struct TrustProblem {
    pub path: PathBuf,
    pub error: TrustFileError,
}

pub(crate) struct Anchor {
    pub certificates: Vec<Certificate>,
    pub policy: Option<Arc<SigningPolicy>>,
    /// The newest.
    pub crl: Option<X509Crl>,
}

/// One entry of the directory listing, to see whether anything changed.
type Stamp = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

struct Inner {
    dir: PathBuf,
    stamp: Stamp,
    anchors: HashMap<Dn, Anchor>,
    problems: Vec<TrustProblem>,
}

/// The CAs that are trusted. Cheap to clone; a value, so what was loaded does not change under anybody.
#[derive(Clone)]
pub struct TrustStore(Arc<Inner>);

impl fmt::Debug for TrustStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustStore")
            .field("dir", &self.0.dir)
            .field("authorities", &self.0.anchors.len())
            .finish()
    }
}

#[derive(Default)]
struct Group {
    certificates: Vec<PathBuf>,
    policy: Option<PathBuf>,
    crls: Vec<PathBuf>,
}

/// `0123abcd.0` and the like: the hash and what follows.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (hash, rest) = name.split_once('.')?;
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (hash.len() == 8 && hash.bytes().all(hex)).then_some((hash, rest))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn read(path: &Path) -> Result<Vec<u8>, TrustFileError> {
    if std::fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(TrustFileError::TooLong);
    }
    Ok(std::fs::read(path)?)
}

fn read_crl(path: &Path) -> Result<X509Crl, TrustFileError> {
    let bytes = read(path)?;
    if bytes.first() == Some(&0x30) {
        X509Crl::from_der(&bytes).map_err(TrustFileError::Crl)
    } else {
        X509Crl::from_pem(&bytes).map_err(TrustFileError::Crl)
    }
}

fn list(dir: &Path) -> Result<Stamp, TrustError> {
    let failed = |source| TrustError::Directory {
        path: dir.to_owned(),
        source,
    };
    let mut stamp = Stamp::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // A link that leads nowhere is found when it is read; here it only has to differ once it leads somewhere.
        let seen = std::fs::metadata(&path)
            .map(|m| (m.len(), m.modified().ok()))
            .unwrap_or_default();
        stamp.insert(path, seen);
    }
    Ok(stamp)
}

impl TrustStore {
    /// Reads a directory of `<hash>.N`, `<hash>.signing_policy` and `<hash>.rN`. A CA with a broken file is left out;
    /// `problems` says why.
    pub fn load(dir: &Path) -> Result<TrustStore, TrustError> {
        let stamp = list(dir)?;
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for path in stamp.keys() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some((hash, rest)) = parts(&name) else {
                continue;
            };
            if is_number(rest) {
                let group = groups.entry(hash.to_owned()).or_default();
                group.certificates.push(path.clone());
            } else if rest == "signing_policy" {
                groups.entry(hash.to_owned()).or_default().policy = Some(path.clone());
            } else if rest.strip_prefix('r').is_some_and(is_number) {
                let group = groups.entry(hash.to_owned()).or_default();
                group.crls.push(path.clone());
            }
        }
        let mut anchors = HashMap::new();
        let mut problems = Vec::new();
        for (hash, group) in &groups {
            match load_group(hash, group) {
                Ok(found) => anchors.extend(found),
                Err(problem) => problems.push(problem),
            }
        }
        Ok(TrustStore(Arc::new(Inner {
            dir: dir.to_owned(),
            stamp,
            anchors,
            problems,
        })))
    }

    /// Reads the directory anew if any file of it changed (by size and time), else `None`.
    pub fn reload(&self) -> Result<Option<TrustStore>, TrustError> {
        if list(&self.0.dir)? == self.0.stamp {
            return Ok(None);
        }
        TrustStore::load(&self.0.dir).map(Some)
    }

    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The files for whose sake a CA is not trusted.
    pub fn problems(&self) -> &[TrustProblem] {
        &self.0.problems
    }

    /// The certificates of all trusted CAs.
    pub fn authorities(&self) -> impl Iterator<Item = &Certificate> {
        self.0.anchors.values().flat_map(|a| &a.certificates)
    }

    pub(crate) fn anchor(&self, ca: &Dn) -> Option<&Anchor> {
        self.0.anchors.get(ca)
    }

    /// What a peer needs besides the leaf: the rest of the chain, and CAs from here up to below a root.
    pub(crate) fn complete(&self, chain: &[Certificate]) -> Vec<Certificate> {
        let mut issuers: Vec<Certificate> = chain.iter().skip(1).cloned().collect();
        let mut last = chain.last().cloned();
        while let Some(certificate) = last.filter(|c| !c.fields().is_self_issued()) {
            last = self
                .anchor(certificate.issuer())
                .and_then(|anchor| anchor.certificates.first())
                .filter(|ca| !ca.fields().is_self_issued() && !issuers.contains(ca))
                .cloned();
            issuers.extend(last.clone());
        }
        issuers
    }

    /// OpenSSL's view: the CAs, and proxies allowed. TLS leaves time and purpose open: it sets them by itself.
    pub(crate) fn store(
        &self,
        at: Option<(SystemTime, X509PurposeId)>,
    ) -> Result<X509Store, ErrorStack> {
        let mut builder = X509StoreBuilder::new()?;
        for certificate in self.authorities() {
            builder.add_cert(certificate.to_x509())?;
        }
        let mut param = X509VerifyParam::new()?;
        param.set_flags(X509VerifyFlags::ALLOW_PROXY_CERTS)?;
        if let Some((at, purpose)) = at {
            param.set_purpose(purpose)?;
            let seconds = at
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs());
            param.set_time(i64::try_from(seconds).unwrap_or(i64::MAX));
        }
        builder.set_param(&param)?;
        Ok(builder.build())
    }
}

fn load_group(hash: &str, group: &Group) -> Result<HashMap<Dn, Anchor>, TrustProblem> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: TrustFileError| TrustProblem { path, error }
    };
    let policy = match &group.policy {
        Some(path) => {
            let bytes = read(path).map_err(at(path))?;
            let policy = SigningPolicy::parse_bytes(&bytes).map_err(|e| at(path)(e.into()))?;
            Some(Arc::new(policy))
        }
        None => None,
    };
    let mut anchors: HashMap<Dn, Anchor> = HashMap::new();
    for path in &group.certificates {
        let bytes = read(path).map_err(at(path))?;
        let certificates = Certificate::bundle_from_pem(&bytes).map_err(|e| at(path)(e.into()))?;
        // GT reads the first certificate of a file only.
        let Some(certificate) = certificates.into_iter().next() else {
            continue;
        };
        let expected = certificate.subject_hash();
        if expected != hash {
            return Err(at(path)(TrustFileError::WrongHash {
                found: hash.to_owned(),
                expected,
            }));
        }
        let policy = policy
            .clone()
            .filter(|policy| policy.knows(certificate.subject()));
        anchors
            .entry(certificate.subject().clone())
            .or_insert_with(|| Anchor {
                certificates: Vec::new(),
                policy,
                crl: None,
            })
            .certificates
            .push(certificate);
    }
    for path in &group.crls {
        let crl = read_crl(path).map_err(at(path))?;
        let issuer = crl
            .issuer_name()
            .to_der()
            .ok()
            .and_then(|der| Dn::from_der(&der).ok());
        let anchor = issuer
            .and_then(|issuer| anchors.get_mut(&issuer))
            .filter(|anchor| {
                anchor.certificates.iter().any(|c| {
                    c.x509()
                        .public_key()
                        .and_then(|key| settled(crl.verify(&key)))
                        .unwrap_or(false)
                })
            })
            .ok_or_else(|| at(path)(TrustFileError::CrlNotSigned))?;
        let newer = anchor
            .crl
            .as_ref()
            .is_none_or(|old| old.last_update() < crl.last_update());
        if newer {
            anchor.crl = Some(crl);
        }
    }
    Ok(anchors)
}

/// What a revocation list says of a certificate at a time.
pub(crate) enum CrlWord {
    Good,
    Revoked,
    /// Its nextUpdate has passed, or it has none, or it is not from before `at`.
    Stale,
}

impl Anchor {
    /// `Good` where the CA has no list.
    pub fn ask_crl(
        &self,
        certificate: &Certificate,
        at: SystemTime,
    ) -> Result<CrlWord, ErrorStack> {
        let Some(crl) = &self.crl else {
            return Ok(CrlWord::Good);
        };
        let now = asn1_time(at)?;
        let current = crl
            .next_update()
            .is_some_and(|next| next > &*now && crl.last_update() <= &*now);
        if !current {
            return Ok(CrlWord::Stale);
        }
        Ok(match crl.get_by_cert(&certificate.to_x509()) {
            openssl::x509::CrlStatus::Revoked(_) => CrlWord::Revoked,
            openssl::x509::CrlStatus::NotRevoked | openssl::x509::CrlStatus::RemoveFromCrl(_) => {
                CrlWord::Good
            }
        })
    }
}
