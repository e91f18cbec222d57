//! Certificates and revocation lists of the CA, as bytes (RFC 5280). What may be signed is decided in `ca`.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use openssl::asn1::{Asn1Object, Asn1OctetString};
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKeyRef, Public};
use openssl::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, CrlNumber, ExtendedKeyUsage, KeyUsage,
    SubjectAlternativeName, SubjectKeyIdentifier,
};
use openssl::x509::{
    X509, X509Builder, X509CrlBuilder, X509Extension, X509Name, X509NameRef, X509RevokedBuilder,
};

use super::CaError;
use super::log::Issued;
use crate::certificate::Certificate;
use crate::der;
use crate::dn::Dn;
use crate::key::Key;
use crate::proxy::{asn1_time, unique_number};

/// Clocks of two sites differ by some minutes.
const BACKDATE: Duration = Duration::from_secs(300);

pub(super) fn name(subject: &Dn) -> Result<X509Name, CaError> {
    let failed = |source| CaError::Name {
        name: subject.clone(),
        source,
    };
    let mut builder = X509Name::builder()?;
    for (oid, value) in subject.encoded_parts() {
        builder.append_entry_by_text(oid, value).map_err(failed)?;
    }
    Ok(builder.build())
}

fn start(
    subject: &X509NameRef,
    issuer: &X509NameRef,
    public: &PKeyRef<impl openssl::pkey::HasPublic>,
    not_after: SystemTime,
) -> Result<X509Builder, ErrorStack> {
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = BigNum::from_slice(&unique_number()?.to_be_bytes())?.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(public)?;
    let begin = asn1_time(SystemTime::now() - BACKDATE)?;
    builder.set_not_before(&begin)?;
    let end = asn1_time(not_after)?;
    builder.set_not_after(&end)?;
    Ok(builder)
}

pub(super) fn root(subject: &Dn, key: &Key, lifetime: Duration) -> Result<Certificate, CaError> {
    let name = name(subject)?;
    let now = SystemTime::now();
    let end = now.checked_add(lifetime).unwrap_or(now);
    let mut builder = start(&name, &name, &key.0, end)?;
    builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
    let usage = KeyUsage::new()
        .critical()
        .key_cert_sign()
        .crl_sign()
        .build()?;
    builder.append_extension(usage)?;
    let id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
    builder.append_extension(id)?;
    builder.sign(&key.0, MessageDigest::sha256())?;
    Ok(Certificate::from_x509(&builder.build())?)
}

/// `names`: those of a host; a user has none.
pub(super) fn end_entity(
    ca: &Certificate,
    ca_key: &Key,
    subject: &X509NameRef,
    public: &PKeyRef<Public>,
    names: Option<&[String]>,
    not_after: SystemTime,
) -> Result<Certificate, CaError> {
    let mut builder = start(subject, ca.x509().subject_name(), public, not_after)?;
    builder.append_extension(BasicConstraints::new().critical().build()?)?;
    let mut usage = KeyUsage::new();
    usage.critical().digital_signature();
    if public.rsa().is_ok() {
        usage.key_encipherment();
    }
    builder.append_extension(usage.build()?)?;
    // Users serve too: at their end points (callbacks, job contacts) they show a proxy that is a TLS server.
    let extended = ExtendedKeyUsage::new()
        .client_auth()
        .server_auth()
        .build()?;
    builder.append_extension(extended)?;
    let id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(Some(ca.x509()), None))?;
    builder.append_extension(id)?;
    let authority = AuthorityKeyIdentifier::new()
        .keyid(true)
        .build(&builder.x509v3_context(Some(ca.x509()), None))?;
    builder.append_extension(authority)?;
    if let Some(names) = names {
        let mut alternative = SubjectAlternativeName::new();
        for name in names {
            if name.parse::<IpAddr>().is_ok() {
                alternative.ip(name);
            } else {
                alternative.dns(name);
            }
        }
        let alternative = alternative.build(&builder.x509v3_context(Some(ca.x509()), None))?;
        builder.append_extension(alternative)?;
    }
    builder.sign(&ca_key.0, MessageDigest::sha256())?;
    Ok(Certificate::from_x509(&builder.build())?)
}

/// The list of what is revoked, PEM.
pub(super) fn crl(
    ca: &Certificate,
    key: &Key,
    issued: &[Issued],
    next_update: SystemTime,
) -> Result<Vec<u8>, CaError> {
    let now = SystemTime::now();
    let mut builder = X509CrlBuilder::new()?;
    builder.set_issuer_name(ca.x509().subject_name())?;
    let from = asn1_time(now)?;
    builder.set_last_update(&from)?;
    let until = asn1_time(next_update)?;
    builder.set_next_update(&until)?;
    for entry in issued {
        let Some(at) = entry.revoked else { continue };
        let mut revoked = X509RevokedBuilder::new()?;
        let at = asn1_time(at)?;
        revoked.set_revocation_date(&at)?;
        let serial = BigNum::from_hex_str(&entry.serial)?.to_asn1_integer()?;
        revoked.set_serial_number(&serial)?;
        builder.add_revoked(revoked.build())?;
    }
    // Numbers have to grow from list to list (RFC 5280, section 5.2.3); the clock does.
    let number = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64);
    let number = BigNum::from_slice(&number.to_be_bytes())?;
    builder.append_extension(CrlNumber::new(number)?.build()?)?;
    if let Some(id) = ca.x509().subject_key_id() {
        let value = der::element(der::SEQUENCE, &der::element(0x80, id.as_slice()));
        let extension = X509Extension::new_from_der(
            &*Asn1Object::from_str("2.5.29.35")?,
            false,
            &*Asn1OctetString::new_from_bytes(&value)?,
        )?;
        builder.append_extension(extension)?;
    }
    builder.sort()?;
    builder.sign(&key.0, MessageDigest::sha256())?;
    Ok(builder.build()?.to_pem()?)
}
