//! A credential: a chain of certificates and the key of the first, in GT's file formats (spec/identity, C1 to C4).

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zeroize::Zeroizing;

use crate::certificate::{Certificate, CertificateError};
use crate::dn::Dn;
use crate::key::{self, Key, KeyError};
use crate::proxy::{Language, ProxyKind};

/// A person needs some minutes to make a new proxy.
pub const EXPIRY_WARNING: Duration = Duration::from_secs(30 * 60);

/// Why a credential could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("cannot use the certificate in {}: {source}", path.display())]
    Certificate {
        path: PathBuf,
        source: CertificateError,
    },
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the key in {} does not belong to the certificate of {subject}", path.display())]
    Mismatch { path: PathBuf, subject: Dn },
    #[error("the certificate cannot be written: {0}")]
    Encode(#[from] CertificateError),
}

/// Leaf first, then its issuers; and the leaf's key.
#[derive(Clone, Debug)]
pub struct Credential {
    chain: Vec<Certificate>,
    key: Key,
}

impl Credential {
    /// `chain` is not empty and its first certificate has this key; callers in this crate see to it.
    pub(crate) fn assemble(chain: Vec<Certificate>, key: Key) -> Credential {
        Credential { chain, key }
    }

    /// Reads a proxy file, or any one file with certificates and a key. Must be 0600.
    pub fn load(path: &Path) -> Result<Credential, CredentialError> {
        let pem = key::read_secret(path)?;
        Self::from_pem(&pem, &pem, None, path, path)
    }

    /// Reads a certificate file and a key file, as `usercert.pem` and `userkey.pem`. The key must be 0600.
    pub fn load_pair(certificate: &Path, key: &Path) -> Result<Credential, CredentialError> {
        Self::load_pair_with(certificate, key, None)
    }

    /// The same for a key under a pass phrase; `KeyError::PassPhrase` says that one is needed or was wrong.
    pub fn load_pair_with(
        certificate: &Path,
        key: &Path,
        pass_phrase: Option<&Zeroizing<Vec<u8>>>,
    ) -> Result<Credential, CredentialError> {
        let certificates = std::fs::read(certificate).map_err(|source| CredentialError::Io {
            path: certificate.to_owned(),
            source,
        })?;
        let secret = key::read_secret(key)?;
        let phrase = pass_phrase.map(|p| p.as_slice());
        Self::from_pem(&certificates, &secret, phrase, certificate, key)
    }

    /// Reads the text of a proxy file: leaf, key, issuers.
    pub fn from_proxy_pem(pem: &[u8]) -> Result<Credential, CredentialError> {
        let told = Path::new("a delegated credential");
        Self::from_pem(pem, pem, None, told, told)
    }

    fn from_pem(
        certificates: &[u8],
        secret: &[u8],
        pass_phrase: Option<&[u8]>,
        certificate_path: &Path,
        key_path: &Path,
    ) -> Result<Credential, CredentialError> {
        let chain = Certificate::bundle_from_pem(certificates).map_err(|source| {
            CredentialError::Certificate {
                path: certificate_path.to_owned(),
                source,
            }
        })?;
        let key = Key::from_pem(secret, pass_phrase, key_path)?;
        let credential = Credential { chain, key };
        if !credential.key_matches()? {
            return Err(CredentialError::Mismatch {
                path: key_path.to_owned(),
                subject: credential.subject().clone(),
            });
        }
        Ok(credential)
    }

    pub(crate) fn key_matches(&self) -> Result<bool, KeyError> {
        let public = self.leaf().x509().public_key()?;
        Ok(self.key.0.public_eq(&public))
    }

    /// Leaf, key, issuers: the layout of GT's proxy files. Wipes itself.
    pub fn to_pem(&self) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
        let leaf = self.leaf().to_pem()?;
        let secret = self.key.to_pem()?;
        let mut issuers = Vec::new();
        for certificate in self.issuers() {
            issuers.extend(certificate.to_pem()?);
        }
        let mut pem = Zeroizing::new(Vec::with_capacity(
            leaf.len() + secret.len() + issuers.len(),
        ));
        pem.extend_from_slice(&leaf);
        pem.extend_from_slice(&secret);
        pem.extend_from_slice(&issuers);
        Ok(pem)
    }

    /// Writes one file, mode 0600, in one step.
    pub fn save_proxy(&self, path: &Path) -> Result<(), CredentialError> {
        Ok(key::write_secret(path, &self.to_pem()?)?)
    }

    /// Writes the certificates (0644) and the key (0600) to two files.
    pub fn save_pair(&self, certificate: &Path, key: &Path) -> Result<(), CredentialError> {
        let mut pem = Vec::new();
        for certificate in &self.chain {
            pem.extend(certificate.to_pem()?);
        }
        key::write_secret(key, &self.key.to_pem()?)?;
        key::replace_file(certificate, &pem, 0o644)?;
        Ok(())
    }

    /// Leaf first.
    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    pub fn leaf(&self) -> &Certificate {
        // `assemble` and `from_pem` leave no empty chain.
        &self.chain[0]
    }

    /// All but the leaf.
    pub fn issuers(&self) -> &[Certificate] {
        &self.chain[1..]
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The subject of the leaf.
    pub fn subject(&self) -> &Dn {
        self.leaf().subject()
    }

    /// The subject of the end entity: who this is, whatever proxies stand below.
    pub fn identity(&self) -> &Dn {
        self.chain
            .iter()
            .find(|c| !c.is_proxy())
            .unwrap_or(self.leaf())
            .subject()
    }

    /// When the first certificate of the chain ends that has to hold: proxies and end entity.
    pub fn not_after(&self) -> SystemTime {
        let end = self.chain.iter().position(|c| !c.is_proxy());
        let count = end.map_or(self.chain.len(), |at| at + 1);
        self.chain[..count]
            .iter()
            .map(|c| c.fields().not_after)
            .min()
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// What is left of it at `now`; zero once expired.
    pub fn remaining(&self, now: SystemTime) -> Duration {
        self.not_after().duration_since(now).unwrap_or_default()
    }

    /// Whether to say now that it will end soon, or has ended.
    pub fn is_about_to_expire(&self, now: SystemTime) -> bool {
        self.remaining(now) < EXPIRY_WARNING
    }

    pub fn proxy_kind(&self) -> ProxyKind {
        kind_of(self.chain.iter())
    }
}

/// The kind of a chain, leaf first. A restriction stays: below an independent or limited proxy nothing regains rights.
pub(crate) fn kind_of<'a>(chain: impl Iterator<Item = &'a Certificate>) -> ProxyKind {
    let mut kind = ProxyKind::EndEntity;
    for certificate in chain {
        kind = match certificate.fields().language() {
            None => break,
            Some(Language::InheritAll) if kind == ProxyKind::EndEntity => ProxyKind::Full,
            Some(Language::InheritAll) => kind,
            Some(Language::Limited) if kind == ProxyKind::Independent => kind,
            Some(Language::Limited) => ProxyKind::Limited,
            Some(Language::Independent | Language::Other(_)) => ProxyKind::Independent,
        };
    }
    kind
}
