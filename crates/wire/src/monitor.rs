//! What front, monitor and agents of a site for many accounts tell each other (spec/monitor, M2 to M7): one message a
//! packet, bytes to values and back. Not in it: sockets, and the descriptors that travel beside some messages.
//!
//! The monitor runs as root and believes nobody; so its decoders take exactly these few shapes and nothing else.

/// The longest text: what a subject may have at most (spec/identity).
pub const TEXT_MOST_BYTES: usize = 4096;
/// The longest message of all: kind, number and text.
pub const MESSAGE_MOST_BYTES: usize = 1 + 4 + TEXT_MOST_BYTES;

const READY: u8 = 0x01;
const INTRODUCE: u8 = 0x02;
const CONNECTION: u8 = 0x41;
const GO: u8 = 0x42;
const INTRODUCED: u8 = 0x81;
const REFUSED: u8 = 0x82;
const IDLE: u8 = 0xc1;

/// Front to monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromFront {
    /// It accepts connections.
    Ready,
    /// One connection of this subject wants to the subject's agent.
    Introduce { number: u32, subject: String },
}

/// Monitor to front; `number` is that of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToFront {
    /// With a descriptor: the stream whose other end the account's agent has.
    Introduced {
        number: u32,
        account: String,
    },
    Refused {
        number: u32,
        why: NotIntroduced,
    },
}

/// Monitor to agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// With a descriptor: the stream whose other end the front has.
    Connection { subject: String },
    /// It may end: nothing was sent that it has not taken.
    Go,
}

/// Agent to monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// It has nothing to do, and would end; so many connections it has taken in its life.
    Idle { taken: u64 },
}

/// Why a connection is not introduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotIntroduced {
    /// The subject is not in the grid-mapfile.
    Unmapped = 1,
    /// Its account is not one that the site serves: it does not exist, is root's or one of the system's.
    NotServed = 2,
    /// As many accounts have agents as may.
    TooMany = 3,
    /// The account's agent does not start, or ends at once; its log says why.
    Failing = 4,
    /// The account's agent does not take what it is given.
    Busy = 5,
    /// The site is going down.
    Closing = 6,
    /// The grid-mapfile or the accounts cannot be read now.
    Unreadable = 7,
}

impl NotIntroduced {
    const ALL: [NotIntroduced; 7] = [
        NotIntroduced::Unmapped,
        NotIntroduced::NotServed,
        NotIntroduced::TooMany,
        NotIntroduced::Failing,
        NotIntroduced::Busy,
        NotIntroduced::Closing,
        NotIntroduced::Unreadable,
    ];

    /// It is about the site, not about who asks: it may be otherwise later.
    pub fn is_of_site(self) -> bool {
        !matches!(self, NotIntroduced::Unmapped | NotIntroduced::NotServed)
    }

    /// It passes by itself, and soon.
    pub fn passes(self) -> bool {
        matches!(self, NotIntroduced::Busy | NotIntroduced::Closing)
    }
}

/// Why a message was refused; whoever sent it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MonitorMessageError {
    #[error("a message of kind {0:#04x} is none that may come here")]
    Kind(u8),
    #[error("a message of kind {kind:#04x} has {bytes} bytes, which it never has")]
    Length { kind: u8, bytes: usize },
    #[error("an empty message")]
    Empty,
    #[error("a text that is not UTF-8, or has control characters")]
    Text,
    #[error("there is no reason {0}")]
    Reason(u8),
}

use MonitorMessageError as Bad;

impl FromFront {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromFront::Ready => vec![READY],
            FromFront::Introduce { number, subject } => numbered(INTRODUCE, *number, subject),
        }
    }

    pub fn decode(message: &[u8]) -> Result<FromFront, Bad> {
        match split(message)? {
            (READY, []) => Ok(FromFront::Ready),
            (kind @ INTRODUCE, rest) => {
                let (number, rest) = number(kind, rest)?;
                let subject = text(kind, rest)?;
                Ok(FromFront::Introduce { number, subject })
            }
            (kind, rest) => Err(strange(kind, rest, &[READY])),
        }
    }
}

impl ToFront {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToFront::Introduced { number, account } => numbered(INTRODUCED, *number, account),
            ToFront::Refused { number, why } => {
                let mut message = numbered(REFUSED, *number, "");
                message.push(*why as u8);
                message
            }
        }
    }

    pub fn decode(message: &[u8]) -> Result<ToFront, Bad> {
        match split(message)? {
            (kind @ INTRODUCED, rest) => {
                let (number, rest) = number(kind, rest)?;
                let account = text(kind, rest)?;
                Ok(ToFront::Introduced { number, account })
            }
            (kind @ REFUSED, rest) => {
                let (number, rest) = number(kind, rest)?;
                let [reason] = rest else {
                    return Err(wrong_length(kind, rest.len()));
                };
                let why = NotIntroduced::ALL.into_iter().find(|w| *w as u8 == *reason);
                let why = why.ok_or(Bad::Reason(*reason))?;
                Ok(ToFront::Refused { number, why })
            }
            (kind, rest) => Err(strange(kind, rest, &[])),
        }
    }
}

impl ToAgent {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToAgent::Connection { subject } => {
                let mut message = vec![CONNECTION];
                message.extend_from_slice(subject.as_bytes());
                message
            }
            ToAgent::Go => vec![GO],
        }
    }

    pub fn decode(message: &[u8]) -> Result<ToAgent, Bad> {
        match split(message)? {
            (GO, []) => Ok(ToAgent::Go),
            (kind @ CONNECTION, rest) => {
                let subject = text(kind, rest)?;
                Ok(ToAgent::Connection { subject })
            }
            (kind, rest) => Err(strange(kind, rest, &[GO])),
        }
    }
}

impl FromAgent {
    pub fn encode(&self) -> Vec<u8> {
        let FromAgent::Idle { taken } = self;
        let mut message = vec![IDLE];
        message.extend_from_slice(&taken.to_le_bytes());
        message
    }

    pub fn decode(message: &[u8]) -> Result<FromAgent, Bad> {
        match split(message)? {
            (kind @ IDLE, rest) => {
                let taken = rest
                    .try_into()
                    .map_err(|_| wrong_length(kind, rest.len()))?;
                Ok(FromAgent::Idle {
                    taken: u64::from_le_bytes(taken),
                })
            }
            (kind, rest) => Err(strange(kind, rest, &[])),
        }
    }
}

fn numbered(kind: u8, number: u32, text: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(5 + text.len() + 1);
    message.push(kind);
    message.extend_from_slice(&number.to_le_bytes());
    message.extend_from_slice(text.as_bytes());
    message
}

fn split(message: &[u8]) -> Result<(u8, &[u8]), Bad> {
    let (kind, rest) = message.split_first().ok_or(Bad::Empty)?;
    Ok((*kind, rest))
}

fn number(kind: u8, rest: &[u8]) -> Result<(u32, &[u8]), Bad> {
    let (number, text) = rest
        .split_first_chunk()
        .ok_or_else(|| wrong_length(kind, rest.len()))?;
    Ok((u32::from_le_bytes(*number), text))
}

fn text(kind: u8, bytes: &[u8]) -> Result<String, Bad> {
    if bytes.is_empty() || bytes.len() > TEXT_MOST_BYTES {
        return Err(wrong_length(kind, bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Bad::Text)?;
    match text.chars().any(char::is_control) {
        true => Err(Bad::Text),
        false => Ok(text.to_owned()),
    }
}

fn wrong_length(kind: u8, rest: usize) -> Bad {
    Bad::Length {
        kind,
        bytes: rest + 1,
    }
}

/// A known kind without text that has one, or no kind that may come.
fn strange(kind: u8, rest: &[u8], bare: &[u8]) -> Bad {
    match bare.contains(&kind) {
        true => wrong_length(kind, rest.len()),
        false => Bad::Kind(kind),
    }
}
