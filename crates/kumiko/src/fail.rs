//! How a command fails: one type at the edge, with the exit status it means. The chain is printed once, by main.

use std::fmt;

/// 1: refused or failed.
pub const FAILED: u8 = 1;
/// 2: misuse of the command line.
pub const MISUSE: u8 = 2;
/// 125: our own failure where a program's status is passed on (as env, timeout and docker do).
pub const OWN_FAILURE: u8 = 125;

#[derive(Debug)]
pub struct Failure {
    pub status: u8,
    /// What was tried, on what, whose fault, what to try; may be empty when all was said.
    pub message: String,
}

impl Failure {
    pub fn misuse(message: impl Into<String>) -> Self {
        Failure {
            status: MISUSE,
            message: message.into(),
        }
    }

    pub fn from_text(message: impl Into<String>) -> Self {
        Failure {
            status: FAILED,
            message: message.into(),
        }
    }

    /// The same failure where a program's own status would have been passed on.
    pub fn own(self) -> Self {
        Failure {
            status: if self.status == FAILED {
                OWN_FAILURE
            } else {
                self.status
            },
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Any error that reaches the edge is a failure whose message is the error with its causes.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Failure {
            status: FAILED,
            message,
        }
    }
}

/// Says what was being done when an error came.
pub trait While<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> While<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| {
            let Failure { status, message } = error.into();
            Failure {
                status,
                message: format!("{}: {message}", what()),
            }
        })
    }
}
