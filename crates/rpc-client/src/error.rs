//! Why a call has no result.

use kumiko_call::event::Failure;
use kumiko_call::id::CallId;
use kumiko_client::ClientError;
use kumiko_idl::{BadSignature, BadTail, PlanError};
use kumiko_job::contract::Refusal;
use kumiko_session::SessionError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the stream of calls broke: {0}")]
    Stream(#[from] SessionError),
    /// The site's own words.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the site sent what is not understood: {0}")]
    Message(#[from] kumiko_wire::rpc::RpcError),
    #[error("the site sent a signature that cannot be used: {0}")]
    Signature(Box<BadSignature>),
    #[error("the site answered something else than was asked")]
    Unexpected,
    #[error(transparent)]
    Arguments(Box<PlanError>),
    #[error("{routine}, {parameter}: {what}")]
    Argument {
        routine: String,
        parameter: String,
        what: String,
    },
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    /// While the call was sent, which is over by that.
    #[error("{}: {cause}: leave files alone until the call that they are for is over", path.display())]
    Unread { path: PathBuf, cause: io::Error },
    #[error("the result of a call: {0}")]
    Files(#[from] BadTail),
    #[error("call {call} was ended, for a function that its routine needs failed: {what}")]
    Function { call: CallId, what: String },
    #[error("call {call} needs a function of its caller's, which is not here")]
    NoFunction { call: CallId },
    #[error("the caller has taken its arguments back")]
    TakenBack,
    #[error("call {call} {}", failed(failure))]
    Failed { call: CallId, failure: Failure },
    #[error("call {call} has not begun: its arguments stand still, {sent} of {to_send} bytes went")]
    StandsStill {
        call: CallId,
        sent: u64,
        to_send: u64,
    },
    #[error("call {call} is over: {what}")]
    Over { call: CallId, what: &'static str },
    #[error("the result of call {call} has {got} bytes, and by its arguments {expected}")]
    Result {
        call: CallId,
        got: u64,
        expected: u64,
    },
}

impl From<BadSignature> for RpcError {
    fn from(error: BadSignature) -> RpcError {
        RpcError::Signature(Box::new(error))
    }
}

impl From<PlanError> for RpcError {
    fn from(error: PlanError) -> RpcError {
        RpcError::Arguments(Box::new(error))
    }
}

impl RpcError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &str {
        match self {
            RpcError::Refused(refusal) | RpcError::Client(ClientError::Refused(refusal)) => {
                &refusal.code
            }
            RpcError::Client(ClientError::Address { .. }) => "bad_contact",
            RpcError::Client(ClientError::Connect { .. }) => "site_unreachable",
            RpcError::Client(ClientError::Credential { .. } | ClientError::Delegation { .. }) => {
                "credential_unusable"
            }
            RpcError::Client(ClientError::Lost { .. } | ClientError::Stream { .. })
            | RpcError::Stream(_)
            | RpcError::StandsStill { .. } => "link_lost",
            RpcError::Client(_)
            | RpcError::Message(_)
            | RpcError::Signature(_)
            | RpcError::Unexpected
            | RpcError::Files(_)
            | RpcError::Result { .. } => "bad_reply",
            RpcError::Arguments(_) | RpcError::Argument { .. } => "bad_arguments",
            RpcError::TakenBack
            | RpcError::Failed {
                failure: Failure::Cancelled,
                ..
            } => "call_cancelled",
            RpcError::Failed {
                failure: Failure::Refused { .. },
                ..
            } => "routine_not_begun",
            RpcError::Failed {
                failure: Failure::Raised { .. },
                ..
            } => "routine_raised",
            RpcError::Failed { .. } => "routine_failed",
            RpcError::Over { .. } => "result_gone",
            RpcError::File { .. } | RpcError::Unread { .. } => "argument_file",
            RpcError::Function { .. } | RpcError::NoFunction { .. } => "callback_failed",
        }
    }

    /// There will be no other outcome of the call.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            RpcError::Failed { .. }
                | RpcError::Function { .. }
                | RpcError::Over { .. }
                | RpcError::Unread { .. }
                | RpcError::Refused(_)
        )
    }
}

fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Crashes { cause, .. } => format!("crashed twice alike: {cause}"),
        Failure::Fruitless { attempts, last } => {
            format!("was tried {attempts} times and came no further; the last try ended: {last}")
        }
        Failure::Raised { error, told } if told.is_empty() => format!("ended by {error}"),
        Failure::Raised { error, told } => format!("ended by {error}: {told}"),
        Failure::TimeLimit => "computed for longer than it may".to_owned(),
        Failure::Cancelled => "was cancelled".to_owned(),
        Failure::Refused { message } => format!("cannot be computed there: {message}"),
    }
}
