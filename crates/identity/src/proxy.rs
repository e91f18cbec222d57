//! RFC 3820 proxy certificates: their extension, and making one (spec/identity, clauses P1 to P8).
//!
//! Checking a chain of them is `verify`; the exchange in which somebody else makes the key is `delegation`.

use std::time::{Duration, SystemTime};

use openssl::asn1::{Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKeyRef, Public};
use openssl::x509::{X509, X509Extension, X509Name};

use crate::certificate::{Certificate, CertificateError};
use crate::credential::Credential;
use crate::der::{self, DerError, Reader};
use crate::fields::{Fields, OID_EXTENDED_KEY_USAGE, OID_KEY_USAGE, OID_PROXY_INFO};
use crate::key::{Key, KeyError, KeyKind};

const OID_INHERIT_ALL: &str = "1.3.6.1.5.5.7.21.1";
const OID_INDEPENDENT: &str = "1.3.6.1.5.5.7.21.2";
/// Globus's own: all rights but the starting of jobs.
const OID_LIMITED: &str = "1.3.6.1.4.1.3536.1.1.1.9";

/// Clocks of two sites differ; GT has always begun a proxy five minutes ago.
const BACKDATE: Duration = Duration::from_secs(300);

/// What `grid-proxy-init` gives when nothing is said.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// The policy language of a proxy: which of its issuer's rights it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Language {
    InheritAll,
    Independent,
    Limited,
    /// Any other: restrictions that we do not understand, so `verify` refuses it (RFC 3820, section 3.8.2).
    Other(String),
}

/// The contents of proxyCertInfo (RFC 3820, section 3.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyInfo {
    /// How many proxies may follow below this one.
    pub path_length: Option<u32>,
    pub language: Language,
}

impl ProxyInfo {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<ProxyInfo, DerError> {
        let mut info = reader
            .expect(der::SEQUENCE, "proxyCertInfo is a sequence")?
            .reader();
        reader.finish("bytes after proxyCertInfo")?;
        let path_length = match info.optional(der::INTEGER)? {
            Some(element) => Some(der::small_unsigned(&element)?),
            None => None,
        };
        let mut policy = info
            .expect(der::SEQUENCE, "no policy in proxyCertInfo")?
            .reader();
        info.finish("bytes after the policy of proxyCertInfo")?;
        let oid = der::oid(&policy.next()?)?;
        policy.optional(der::OCTET_STRING)?;
        policy.finish("bytes after the language of proxyCertInfo")?;
        let language = match oid.as_str() {
            OID_INHERIT_ALL => Language::InheritAll,
            OID_INDEPENDENT => Language::Independent,
            OID_LIMITED => Language::Limited,
            _ => Language::Other(oid),
        };
        Ok(ProxyInfo {
            path_length,
            language,
        })
    }

    fn to_der(&self) -> Vec<u8> {
        let oid = match &self.language {
            Language::InheritAll => OID_INHERIT_ALL,
            Language::Independent => OID_INDEPENDENT,
            Language::Limited => OID_LIMITED,
            Language::Other(oid) => oid,
        };
        let mut contents = self
            .path_length
            .map(|n| der::write_unsigned(u64::from(n)))
            .unwrap_or_default();
        contents.extend(der::element(der::SEQUENCE, &der::write_oid(oid)));
        der::element(der::SEQUENCE, &contents)
    }
}

/// What the holder of a chain may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyKind {
    /// No proxy: the user or host itself.
    EndEntity,
    /// All rights of the end entity.
    Full,
    /// All but the starting of jobs: good for moving data.
    Limited,
    /// None of the end entity's rights, only what is granted to the proxy itself.
    Independent,
}

impl std::fmt::Display for ProxyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProxyKind::EndEntity => "end entity",
            ProxyKind::Full => "full proxy",
            ProxyKind::Limited => "limited proxy",
            ProxyKind::Independent => "independent proxy",
        })
    }
}

/// How a proxy is to be.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// From now on; cut off where the issuer ends.
    pub lifetime: Duration,
    /// Below a limited credential the result is limited, whatever stands here.
    pub limited: bool,
    pub path_length: Option<u32>,
    /// Which key to make. Not looked at by `delegation::sign`, where the other side makes it.
    pub key: KeyKind,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lifetime: DEFAULT_LIFETIME,
            limited: false,
            path_length: None,
            key: KeyKind::P256,
        }
    }
}

/// Why no proxy was made.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("{issuer} has expired; make a new proxy, or have the certificate renewed")]
    IssuerExpired { issuer: String },
    #[error("{issuer} has path length 0: no proxy may be made from it")]
    PathLength { issuer: String },
    #[error("{issuer} is a CA: proxies are made by end entities only")]
    IssuerIsCa { issuer: String },
    #[error(
        "{issuer} may not sign (its key usage lacks digitalSignature): no proxy can be made from it"
    )]
    MayNotSign { issuer: String },
    #[error("an independent proxy cannot be given on by this program")]
    Independent,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the cryptographic library failed: {0}")]
    Library(#[from] ErrorStack),
}

/// Makes a new key and a proxy for it, signed by `issuer`.
pub fn create(issuer: &Credential, options: &Options) -> Result<Credential, ProxyError> {
    let key = Key::generate(options.key)?;
    let leaf = sign(issuer, &*key.public()?, options)?;
    let mut chain = vec![leaf];
    chain.extend(issuer.chain().iter().cloned());
    Ok(Credential::assemble(chain, key))
}

/// What GCT's programs can give on: they make keys of the kind and size that their peer shows, and sign by the algorithm that
/// their own leaf was signed by, and know RSA for both. So below anything else stand two RSA proxies, the second signed by
/// the first (measured with globus-gssapi-gsi 14.20).
pub fn for_globus(credential: &Credential) -> Result<Credential, ProxyError> {
    let leaf = credential.leaf().x509();
    let signed_by = leaf.signature_algorithm().object().nid();
    let of_rsa = signed_by
        .signature_algorithms()
        .is_some_and(|algorithms| algorithms.pkey == Nid::RSAENCRYPTION);
    if of_rsa && leaf.public_key()?.id() == Id::RSA {
        return Ok(credential.clone());
    }
    let options = Options {
        key: KeyKind::Rsa(2048),
        ..Options::default()
    };
    create(&create(credential, &options)?, &options)
}

/// A proxy certificate for somebody's public key, signed by `issuer`.
pub(crate) fn sign(
    issuer: &Credential,
    public: &PKeyRef<Public>,
    options: &Options,
) -> Result<Certificate, ProxyError> {
    let parent = issuer.leaf();
    let fields = parent.fields();
    let name = || fields.subject.to_string();
    let now = SystemTime::now();
    if fields.not_after <= now {
        return Err(ProxyError::IssuerExpired { issuer: name() });
    }
    if fields.is_ca {
        return Err(ProxyError::IssuerIsCa { issuer: name() });
    }
    if fields.key_usage.is_some_and(|bits| bits & 0x80 == 0) {
        return Err(ProxyError::MayNotSign { issuer: name() });
    }
    let above = fields.proxy_info.as_ref();
    let above_length = above.and_then(|info| info.path_length);
    if above_length == Some(0) {
        return Err(ProxyError::PathLength { issuer: name() });
    }
    let limited = match issuer.proxy_kind() {
        ProxyKind::Independent => return Err(ProxyError::Independent),
        ProxyKind::Limited => true,
        ProxyKind::EndEntity | ProxyKind::Full => options.limited,
    };
    let info = ProxyInfo {
        path_length: options.path_length,
        language: if limited {
            Language::Limited
        } else {
            Language::InheritAll
        },
    };
    let not_after = now
        .checked_add(options.lifetime)
        .map_or(fields.not_after, |end| end.min(fields.not_after));

    let serial = unique_number()?;
    let draft = Draft {
        serial,
        subject_der: name_below(&fields.subject_der, serial)?,
        not_before: now - BACKDATE,
        not_after,
        info,
    };
    draft.sign(issuer, public)
}

/// A proxy certificate before it is signed. Nothing is checked any more: tests make wrong ones with it.
pub(crate) struct Draft {
    pub serial: u64,
    pub subject_der: Vec<u8>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    pub info: ProxyInfo,
}

impl Draft {
    pub fn sign(
        &self,
        issuer: &Credential,
        public: &PKeyRef<Public>,
    ) -> Result<Certificate, ProxyError> {
        let parent = issuer.leaf();
        let mut builder = X509::builder()?;
        builder.set_version(2)?;
        let number = BigNum::from_slice(&self.serial.to_be_bytes())?.to_asn1_integer()?;
        builder.set_serial_number(&number)?;
        builder.set_issuer_name(parent.x509().subject_name())?;
        let subject = X509Name::from_der(&self.subject_der)?;
        builder.set_subject_name(&subject)?;
        builder.set_pubkey(public)?;
        let not_before = asn1_time(self.not_before)?;
        builder.set_not_before(&not_before)?;
        let not_after = asn1_time(self.not_after)?;
        builder.set_not_after(&not_after)?;
        add_extension(&mut builder, OID_PROXY_INFO, true, &self.info.to_der())?;
        if let Some(bits) = proxy_key_usage(parent.fields()) {
            add_extension(&mut builder, OID_KEY_USAGE, true, &bits)?;
        }
        if let Some((critical, value)) = &parent.fields().extended_key_usage {
            add_extension(&mut builder, OID_EXTENDED_KEY_USAGE, *critical, value)?;
        }
        builder.sign(&issuer.key().0, MessageDigest::sha256())?;
        Ok(Certificate::from_x509(&builder.build())?)
    }
}

/// The issuer's key usage without nonRepudiation, keyCertSign and cRLSign, as GT's tools make it.
fn proxy_key_usage(issuer: &Fields) -> Option<Vec<u8>> {
    let bits = issuer.key_usage? & !0x46;
    Some(der::element(
        der::BIT_STRING,
        &[bits.trailing_zeros().min(7) as u8, bits],
    ))
}

fn add_extension(
    builder: &mut openssl::x509::X509Builder,
    oid: &str,
    critical: bool,
    value: &[u8],
) -> Result<(), ErrorStack> {
    let extension = X509Extension::new_from_der(
        &*Asn1Object::from_str(oid)?,
        critical,
        &*Asn1OctetString::new_from_bytes(value)?,
    )?;
    builder.append_extension(extension)
}

/// 63 random bits: a serial number is positive, and unique among an issuer's proxies (RFC 3820, section 3.5).
pub(crate) fn unique_number() -> Result<u64, ErrorStack> {
    let mut bytes = [0u8; 8];
    openssl::rand::rand_bytes(&mut bytes)?;
    Ok((u64::from_be_bytes(bytes) >> 1).max(1))
}

pub(crate) fn asn1_time(time: SystemTime) -> Result<Asn1Time, ErrorStack> {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    // Year 9999 is where certificates end (RFC 5280, section 4.1.2.5).
    Asn1Time::from_unix(seconds.min(253_402_300_799) as i64)
}

/// The DER name `subject` with a CN of its own added; all else stays byte for byte.
pub(crate) fn name_below(subject: &[u8], number: u64) -> Result<Vec<u8>, CertificateError> {
    let mut reader = Reader::new(subject);
    let name = reader.expect(der::SEQUENCE, "a name is a sequence")?;
    let mut pair = der::write_oid("2.5.4.3");
    pair.extend(der::element(0x13, number.to_string().as_bytes()));
    let mut contents = name.contents.to_vec();
    contents.extend(der::element(der::SET, &der::element(der::SEQUENCE, &pair)));
    Ok(der::element(der::SEQUENCE, &contents))
}
