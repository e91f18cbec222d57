//! Why an info server cannot serve, or a client cannot ask.

use kumiko_identity::tls::TlsError;
use kumiko_identity::{CredentialError, TrustError};
use kumiko_session::SessionError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the name {name:?} of the server cannot be used: it is empty or longer than 255 bytes")]
    Name { name: String },
    #[error("the certificate of the server: {0}")]
    Credential(#[from] CredentialError),
    #[error("the trust directory: {0}")]
    Trust(#[from] TrustError),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error(
        "listening at {address}: {cause}; another info server may be running, or choose another port"
    )]
    Listen {
        address: SocketAddr,
        cause: io::Error,
    },
    #[error("{}: {cause}", path.display())]
    State { path: PathBuf, cause: io::Error },
    #[error("{address:?} of [[register]] is no HOST or HOST:PORT")]
    Address { address: String },
}

/// A question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("{address:?} is no HOST or HOST:PORT")]
    Address { address: String },
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error(
        "the info server at {address} was not reached: {cause}; is it running? `kumiko info status` on its host says so"
    )]
    Connect {
        address: String,
        cause: SessionError,
    },
    #[error("the info server at {address} is not there any more: {cause}")]
    Session {
        address: String,
        cause: SessionError,
    },
    /// The server says no.
    #[error("{message}")]
    Refused { code: String, message: String },
    #[error("the info server answers what is none: {0}")]
    Answer(#[from] serde_json::Error),
}
