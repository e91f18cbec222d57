//! What is asked of a job (spec/gram G40 to G43): one quoted command, and its text form.

use super::message::MessageError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    Status,
    Cancel,
    /// Tell `url` of the states in `mask`.
    Register {
        mask: u32,
        url: String,
    },
    Unregister {
        url: String,
    },
    Signal(Signal),
    /// A new credential follows (G50).
    Renew,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    Cancel,
    Suspend,
    Resume,
    Priority(String),
    CommitRequest,
    /// Seconds more to wait for a commit.
    CommitExtend(u64),
    /// RSL that says where stdout and stderr go from now on.
    StdioUpdate(String),
    StdioSize(Sizes),
    StopManager,
    CommitEnd,
    /// No signal that is known.
    Unknown(i64),
}

/// How much of the output the client has, bytes; None: it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub stdout_bytes: Option<u64>,
    pub stderr_bytes: Option<u64>,
}

impl Query {
    pub(super) fn parse(command: &str) -> Result<Query, MessageError> {
        let unknown = || MessageError::UnknownQuery {
            query: command.chars().take(80).collect(),
        };
        let (word, rest) = split(command.trim_end());
        match (word, rest) {
            ("status", "") => Ok(Query::Status),
            ("cancel", "") => Ok(Query::Cancel),
            ("renew", "") => Ok(Query::Renew),
            ("register", rest) => {
                let (mask, url) = split(rest);
                // GT writes it as a signed number.
                let mask = mask.parse::<i64>().map_err(|_| unknown())?;
                Ok(Query::Register {
                    mask: u32::try_from(mask & 0xffff_ffff).map_err(|_| unknown())?,
                    url: address(url).ok_or_else(unknown)?,
                })
            }
            ("unregister", url) => Ok(Query::Unregister {
                url: address(url).ok_or_else(unknown)?,
            }),
            ("signal", rest) => {
                let (number, argument) = split(rest);
                let number = number.parse::<i64>().map_err(|_| unknown())?;
                signal(number, argument)
                    .map(Query::Signal)
                    .ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Query::Status => "status".to_owned(),
            Query::Cancel => "cancel".to_owned(),
            Query::Renew => "renew".to_owned(),
            Query::Register { mask, url } => format!("register {mask} {url}"),
            Query::Unregister { url } => format!("unregister {url}"),
            Query::Signal(signal) => {
                let (number, argument) = match signal {
                    Signal::Cancel => (1, String::new()),
                    Signal::Suspend => (2, String::new()),
                    Signal::Resume => (3, String::new()),
                    Signal::Priority(priority) => (4, priority.clone()),
                    Signal::CommitRequest => (5, String::new()),
                    Signal::CommitExtend(seconds) => (6, seconds.to_string()),
                    Signal::StdioUpdate(rsl) => (7, rsl.clone()),
                    Signal::StdioSize(sizes) => (8, sizes.text()),
                    Signal::StopManager => (9, String::new()),
                    Signal::CommitEnd => (10, String::new()),
                    Signal::Unknown(number) => (*number, String::new()),
                };
                format!("signal {number} {argument}").trim_end().to_owned()
            }
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn address(text: &str) -> Option<String> {
    let fits = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    fits.then(|| text.to_owned())
}

/// None: the argument is not of this signal. What follows a commit or a stop says nothing (GT writes "commit").
fn signal(number: i64, argument: &str) -> Option<Signal> {
    Some(match number {
        1 => Signal::Cancel,
        2 => Signal::Suspend,
        3 => Signal::Resume,
        4 => Signal::Priority(argument.to_owned()),
        5 => Signal::CommitRequest,
        6 => Signal::CommitExtend(argument.trim().parse().ok()?),
        7 => Signal::StdioUpdate(argument.to_owned()),
        8 => Signal::StdioSize(Sizes::parse(argument)?),
        9 => Signal::StopManager,
        10 => Signal::CommitEnd,
        other => Signal::Unknown(other),
    })
}

impl Sizes {
    fn parse(text: &str) -> Option<Sizes> {
        let mut numbers = text.split_whitespace().map(str::parse::<i64>);
        let mut next = || match numbers.next() {
            None => Some(None),
            Some(Ok(number)) => Some(u64::try_from(number).ok()),
            Some(Err(_)) => None,
        };
        let stdout_bytes = next()?;
        let stderr_bytes = next()?;
        numbers.next().is_none().then_some(Sizes {
            stdout_bytes,
            stderr_bytes,
        })
    }

    fn text(self) -> String {
        let number = |size: Option<u64>| size.map_or("-1".to_owned(), |bytes| bytes.to_string());
        format!(
            "{} {}",
            number(self.stdout_bytes),
            number(self.stderr_bytes)
        )
    }
}
