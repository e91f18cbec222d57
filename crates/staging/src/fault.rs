//! Why a file was not moved: what was tried, on what, whose fault it is, whether to try again.

use kumiko_job::transfer::TransferFailure;
use kumiko_policy::Network;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{url} cannot be used: it {cause}")]
    Url {
        url: String,
        cause: kumiko_job::url::UrlError,
    },
    #[error("{url} is not spoken to: the job's policy says network = {:?}", policy)]
    Forbidden { url: String, policy: Network },
    #[error("{path} is not read: the job's policy does not show it to the job ({why})")]
    Hidden { path: String, why: String },
    #[error("{url} needs a certificate: submit the job with a delegated credential (--delegate)")]
    NoCredential { url: String },
    #[error("the credential of the job cannot be used: {cause}")]
    Credential {
        cause: kumiko_identity::CredentialError,
    },
    #[error("no proxy can be made from the credential of the job: {cause}")]
    Proxy {
        cause: kumiko_identity::proxy::ProxyError,
    },
    #[error("the CAs of this site cannot be read: {cause}")]
    Trust { cause: kumiko_identity::TrustError },
    #[error("{url}: no connection to {host} port {port}: {cause}")]
    Unreachable {
        url: String,
        host: String,
        port: u16,
        cause: io::Error,
    },
    #[error("{url}: {cause}")]
    Untrusted {
        url: String,
        cause: kumiko_identity::tls::TlsError,
    },
    #[error("{url}: the server refuses: {status} {reason}")]
    Denied {
        url: String,
        status: u16,
        reason: String,
    },
    #[error("{url}: the server has no such file ({status})")]
    NoSuchFile { url: String, status: u16 },
    #[error("{url}: the server fails: {status} {reason}")]
    Failing {
        url: String,
        status: u16,
        reason: String,
    },
    #[error("{url}: nothing moved for {} s, after {bytes} bytes", within.as_secs())]
    Stalled {
        url: String,
        within: Duration,
        bytes: u64,
    },
    #[error("{url}: the connection was cut after {bytes} bytes: {cause}")]
    Cut {
        url: String,
        bytes: u64,
        cause: String,
    },
    #[error("{url}: the server does not speak as it should: {what}")]
    Protocol { url: String, what: String },
    #[error("{url}: {what} is {found}, {expected} was expected")]
    Mismatch {
        url: String,
        what: &'static str,
        found: String,
        expected: String,
    },
    #[error("{url} has more than {limit} bytes, the most this site takes")]
    TooLarge { url: String, limit: u64 },
    #[error("{doing} {}: {cause}", path.display())]
    Local {
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("the job has made no file {}: {cause}", path.display())]
    NotMade { path: PathBuf, cause: io::Error },
    #[error("{} is no plain file", path.display())]
    NotAFile { path: PathBuf },
    #[error(
        "{program} is not installed (Debian package globus-gass-copy-progs), and {url} needs it"
    )]
    NoProgram { program: String, url: String },
    #[error("{url}: globus-url-copy failed: {said}")]
    UrlCopy { url: String, said: String },
    #[error("the output of the job cannot be read: {cause}")]
    Source {
        cause: kumiko_job::contract::Refusal,
    },
    #[error("{cause}")]
    Cache {
        #[from]
        cause: crate::cache::CacheError,
    },
}

impl TransferError {
    /// Its row in spec/errors.toml.
    pub fn code(&self) -> &'static str {
        match self {
            TransferError::Url { .. } => "bad_description",
            TransferError::Forbidden { .. } | TransferError::Hidden { .. } => "transfer_forbidden",
            TransferError::NoCredential { .. } => "transfer_no_credential",
            TransferError::Credential { .. } | TransferError::Proxy { .. } => {
                "transfer_bad_credential"
            }
            TransferError::Trust { .. } => "transfer_no_trust",
            TransferError::Unreachable { .. } => "transfer_unreachable",
            TransferError::Untrusted { .. } => "transfer_untrusted",
            TransferError::Denied { .. } => "transfer_denied",
            TransferError::NoSuchFile { .. } => "transfer_no_such_file",
            TransferError::Failing { .. } => "transfer_failing",
            TransferError::Stalled { .. } => "transfer_stalled",
            TransferError::Cut { .. } => "transfer_cut",
            TransferError::Protocol { .. } => "transfer_protocol",
            TransferError::Mismatch { .. } => "transfer_mismatch",
            TransferError::TooLarge { .. } => "transfer_too_large",
            TransferError::Local { .. } if self.is_full() => "disk_full",
            TransferError::Local { .. } => "transfer_local",
            TransferError::NotMade { .. } | TransferError::NotAFile { .. } => "transfer_not_made",
            TransferError::NoProgram { .. } => "transfer_no_program",
            TransferError::UrlCopy { .. } => "transfer_url_copy",
            TransferError::Source { .. } => "transfer_source",
            TransferError::Cache { .. } => "transfer_cache",
        }
    }

    /// May it work later, as it is?
    pub fn retry(&self) -> bool {
        match self {
            TransferError::Unreachable { .. }
            | TransferError::Failing { .. }
            | TransferError::Stalled { .. }
            | TransferError::Cut { .. }
            | TransferError::UrlCopy { .. } => true,
            // A handshake that was cut, not one that was refused.
            TransferError::Untrusted { cause, .. } => matches!(
                cause,
                kumiko_identity::tls::TlsError::Closed | kumiko_identity::tls::TlsError::Io(_)
            ),
            _ => false,
        }
    }

    /// Is it for want of room on a disk of ours?
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, TransferError::Local { cause, .. } if is_full(cause))
    }

    pub(crate) fn local(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| TransferError::Local { doing, path, cause }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl From<TransferError> for TransferFailure {
    fn from(error: TransferError) -> TransferFailure {
        TransferFailure {
            code: error.code().to_owned(),
            message: error.to_string(),
            retry: error.retry(),
        }
    }
}
