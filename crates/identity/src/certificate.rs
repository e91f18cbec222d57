//! A certificate: OpenSSL's object and the fields that our rules read, decoded once. And bundles of them in PEM.

use std::fmt;
use std::sync::Arc;

use openssl::error::ErrorStack;
use openssl::x509::{X509, X509Ref};

use crate::der::DerError;
use crate::dn::Dn;
use crate::fields::Fields;

/// A chain has about four certificates; a bundle of more than this is no chain.
pub const MAX_CERTIFICATES: usize = 1024;

/// Why bytes are not a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("not a certificate: {0}")]
    Der(#[from] DerError),
    #[error("not a certificate that the cryptographic library reads: {0}")]
    Library(#[from] ErrorStack),
    #[error(
        "no certificate in {bytes} bytes of PEM: a line -----BEGIN CERTIFICATE----- is expected"
    )]
    NoCertificate { bytes: usize },
    #[error("more than {MAX_CERTIFICATES} certificates in one place")]
    TooMany,
}

/// One X.509 certificate. Cheap to clone.
#[derive(Clone)]
pub struct Certificate {
    x509: X509,
    fields: Arc<Fields>,
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields && self.to_der().ok() == other.to_der().ok()
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Certificate({} from {})",
            self.fields.subject, self.fields.issuer
        )
    }
}

impl Certificate {
    /// Reads one DER certificate; nothing may follow.
    pub fn from_der(bytes: &[u8]) -> Result<Certificate, CertificateError> {
        let fields = Fields::from_der(bytes)?;
        let x509 = X509::from_der(bytes)?;
        Ok(Certificate {
            x509,
            fields: Arc::new(fields),
        })
    }

    pub(crate) fn from_x509(x509: &X509Ref) -> Result<Certificate, CertificateError> {
        let fields = Fields::from_der(&x509.to_der()?)?;
        Ok(Certificate {
            x509: x509.to_owned(),
            fields: Arc::new(fields),
        })
    }

    /// Reads all certificates of a PEM text, in order; other blocks (keys) and text around them are passed over.
    pub fn bundle_from_pem(pem: &[u8]) -> Result<Vec<Certificate>, CertificateError> {
        let stack = X509::stack_from_pem(pem)?;
        if stack.is_empty() {
            return Err(CertificateError::NoCertificate { bytes: pem.len() });
        }
        if stack.len() > MAX_CERTIFICATES {
            return Err(CertificateError::TooMany);
        }
        stack.iter().map(|x| Certificate::from_x509(x)).collect()
    }

    /// Reads DER certificates that stand one after another, as GSI's delegation sends them.
    pub fn sequence_from_der(mut bytes: &[u8]) -> Result<Vec<Certificate>, CertificateError> {
        let mut certificates = Vec::new();
        while !bytes.is_empty() {
            let (one, rest) = bytes.split_at(crate::der::first_element_bytes(bytes)?);
            if certificates.len() == MAX_CERTIFICATES {
                return Err(CertificateError::TooMany);
            }
            certificates.push(Certificate::from_der(one)?);
            bytes = rest;
        }
        Ok(certificates)
    }

    pub fn to_der(&self) -> Result<Vec<u8>, CertificateError> {
        Ok(self.x509.to_der()?)
    }

    pub fn to_pem(&self) -> Result<Vec<u8>, CertificateError> {
        Ok(self.x509.to_pem()?)
    }

    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    pub fn subject(&self) -> &Dn {
        &self.fields.subject
    }

    pub fn issuer(&self) -> &Dn {
        &self.fields.issuer
    }

    pub fn is_proxy(&self) -> bool {
        self.fields.proxy_info.is_some()
    }

    /// The serial number in hexadecimal, as CAs name certificates.
    pub fn serial(&self) -> Result<String, CertificateError> {
        let number = self.x509.serial_number().to_bn()?;
        Ok(number.to_hex_str()?.to_string())
    }

    /// The name hash that files of a trust directory begin with, as eight hexadecimal digits.
    pub fn subject_hash(&self) -> String {
        format!("{:08x}", self.x509.subject_name_hash())
    }

    pub(crate) fn x509(&self) -> &X509Ref {
        &self.x509
    }

    pub(crate) fn to_x509(&self) -> X509 {
        self.x509.clone()
    }
}
