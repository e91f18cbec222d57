//! Why a measurement, or the whole run, came to nothing. A row that fails says so in the report; the others go on.

use std::fmt::Display;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{doing}: {cause}")]
    Io {
        doing: String,
        cause: std::io::Error,
    },
    /// A service or a library below refused; in its words.
    #[error("{doing}: {cause}")]
    Said { doing: String, cause: String },
    #[error("{program} is not installed (Debian package {package})")]
    NoPeer {
        program: &'static str,
        package: &'static str,
    },
    #[error("{command} ended with {status}{said}")]
    Ended {
        command: String,
        status: String,
        said: String,
    },
    #[error("{what} did not happen within {within:?}")]
    Deadline { what: String, within: Duration },
    #[error("{what}")]
    Unexpected { what: String },
}

impl Failure {
    pub fn said(doing: &str, cause: &dyn Display) -> Failure {
        Failure::Said {
            doing: doing.to_owned(),
            cause: cause.to_string(),
        }
    }
    pub fn unexpected(what: impl Into<String>) -> Failure {
        Failure::Unexpected { what: what.into() }
    }
}

/// Says what was being done when an operation of the system failed.
pub trait While<T> {
    fn doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Result<T, Failure>;
}

impl<T> While<T> for std::io::Result<T> {
    fn doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Result<T, Failure> {
        self.map_err(|cause| Failure::Io {
            doing: doing().into(),
            cause,
        })
    }
}
