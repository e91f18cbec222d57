//! Why a call has no result.

use kumiko_call::event::Failure;
use kumiko_call::id::CallId;
use kumiko_client::ClientError;
use kumiko_idl::{BadSignature, PlanError};
use kumiko_job::contract::Refusal;
use kumiko_session::SessionError;

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
    #[error("call {call} {}", failed(failure))]
    Failed { call: CallId, failure: Failure },
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
    /// The row of spec/errors.toml, where it has one of its own.
    pub fn code(&self) -> Option<&str> {
        match self {
            RpcError::Refused(refusal) | RpcError::Client(ClientError::Refused(refusal)) => {
                Some(&refusal.code)
            }
            _ => None,
        }
    }
}

fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Crashes { cause, .. } => format!("crashed twice alike: {cause}"),
        Failure::Fruitless { attempts, last } => {
            format!("was tried {attempts} times and came no further; the last try ended: {last}")
        }
        Failure::TimeLimit => "computed for longer than it may".to_owned(),
        Failure::Cancelled => "was cancelled".to_owned(),
        Failure::Refused { message } => format!("cannot be computed there: {message}"),
    }
}
