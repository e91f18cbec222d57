//! What a client's call can end in.

use crate::SiteAddress;
use kumiko_identity::delegation::DelegationError;
use kumiko_job::contract::Refusal;
use kumiko_session::SessionError;
use kumiko_staging::StagingError;
use kumiko_wire::api::ApiError;
use kumiko_wire::exec::ExecError;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("\"{text}\" is no address of a site: {cause}; write HOST or HOST:PORT")]
    Address { text: String, cause: String },
    #[error("no session with {site}: {cause}")]
    Connect {
        site: SiteAddress,
        cause: SessionError,
    },
    /// The certificate or the trust directory cannot be used for TLS.
    #[error("the credential cannot be used to connect to {site}: {cause}")]
    Credential { site: SiteAddress, cause: String },
    /// The link broke and the site did not answer again in time. What was submitted lives on.
    #[error(
        "the link to {site} is lost: {cause}; jobs go on without it, look again with `kumiko job list`"
    )]
    Lost {
        site: SiteAddress,
        cause: SessionError,
    },
    #[error("{site} broke off its answer: {cause}")]
    Stream {
        site: SiteAddress,
        cause: SessionError,
    },
    #[error("this credential cannot be delegated: {cause}")]
    Delegation { cause: DelegationError },
    /// The site's own words; `code` is a row of spec/errors.toml.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the site answered something else than was asked: {0}")]
    Reply(#[from] ApiError),
    #[error("the site sent a message that is not understood: {0}")]
    Message(#[from] ExecError),
    #[error("the site ended its answer too early ({asked})")]
    Short { asked: &'static str },
    #[error(transparent)]
    Staging(#[from] StagingError),
}
