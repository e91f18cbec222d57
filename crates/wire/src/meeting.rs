//! What the hosts of one MPI program say to the first of them (spec/jobs/mpi.md, N27): a line of words, and behind that of some a
//! number of bytes. Bytes only: sockets, and what is done about it, are the runner's.

use core::net::IpAddr;

/// Most bytes of a line, its end included: a secret, a number and two addresses.
pub const LINE_LIMIT_BYTES: usize = 256;
/// Most bytes behind a line: a command is one argument of a shell (MAX_ARG_STRLEN, execve(2), its closing zero included).
pub const BODY_LIMIT_BYTES: usize = 128 * 1024 - 1;
/// Hexadecimal digits of a secret: 128 bits.
pub const SECRET_DIGITS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Another host than the first, from 1, with its own address and that by which it found the first.
    Here {
        secret: String,
        number: u32,
        own: IpAddr,
        first: IpAddr,
    },
    /// What stands for ssh: the host with that address is to run this.
    Launch {
        secret: String,
        address: IpAddr,
        command: Vec<u8>,
    },
    /// To a host: run this.
    Run { command: Vec<u8> },
    /// From a host, and on to who launched it: how its command ended, and what it said if that is not 0.
    Ended { status: u8, said: Vec<u8> },
}

/// Why a message was refused. The peer is at fault, and the connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeetingError {
    #[error("a line is longer than {LINE_LIMIT_BYTES} bytes")]
    TooLong,
    #[error("a line is not what it should be: {what}")]
    Bad { what: &'static str },
}

pub fn encode(message: &Message, out: &mut Vec<u8>) {
    let (line, body): (String, &[u8]) = match message {
        Message::Here {
            secret,
            number,
            own,
            first,
        } => (format!("here {secret} {number} {own} {first}\n"), &[]),
        Message::Launch {
            secret,
            address,
            command,
        } => {
            let line = format!("launch {secret} {address} {}\n", command.len());
            (line, command)
        }
        Message::Run { command } => (format!("run {}\n", command.len()), command),
        Message::Ended { status, said } => (format!("ended {status} {}\n", said.len()), said),
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(body);
}

/// The first message of these bytes and how many they are; None: it is not whole yet.
///
/// # Errors
/// What is no message.
pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, MeetingError> {
    let within = &bytes[..bytes.len().min(LINE_LIMIT_BYTES)];
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() >= LINE_LIMIT_BYTES {
            true => Err(MeetingError::TooLong),
            false => Ok(None),
        };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("it is no text"))?;
    let (line, rest) = (line.split(' ').collect::<Vec<_>>(), &bytes[end + 1..]);
    let body = |length: &str| {
        let length: usize = printed(length)
            .filter(|length| *length <= BODY_LIMIT_BYTES)
            .ok_or_else(|| bad("a length is a number of bytes, and of not too many"))?;
        Ok::<_, MeetingError>(rest.get(..length).map(<[u8]>::to_vec))
    };
    let (message, length) = match line[..] {
        ["here", word, number, own, first] => {
            let here = Message::Here {
                secret: secret(word)?,
                number: printed(number)
                    .filter(|number| *number > 0)
                    .ok_or_else(|| bad("a host has a number from 1"))?,
                own: address(own)?,
                first: address(first)?,
            };
            return Ok(Some((here, end + 1)));
        }
        ["launch", word, to, length] => {
            let (secret, address) = (secret(word)?, address(to)?);
            let launch = |command| Message::Launch {
                secret,
                address,
                command,
            };
            (body(length)?.map(launch), length)
        }
        ["run", length] => {
            let run = |command| Message::Run { command };
            (body(length)?.map(run), length)
        }
        ["ended", status, length] => {
            let status = printed(status).ok_or_else(|| bad("a status is 0 to 255"))?;
            let ended = |said| Message::Ended { status, said };
            (body(length)?.map(ended), length)
        }
        _ => return Err(bad("no message has these words")),
    };
    let taken = end + 1 + printed::<usize>(length).unwrap_or(0);
    Ok(message.map(|message| (message, taken)))
}

fn bad(what: &'static str) -> MeetingError {
    MeetingError::Bad { what }
}

/// As it is printed, and no other way.
fn printed<T: std::str::FromStr + ToString>(word: &str) -> Option<T> {
    let value: T = word.parse().ok()?;
    (value.to_string() == word).then_some(value)
}

fn address(word: &str) -> Result<IpAddr, MeetingError> {
    printed(word).ok_or_else(|| bad("an address is one of IPv4 or IPv6"))
}

fn secret(word: &str) -> Result<String, MeetingError> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match word.len() == SECRET_DIGITS && word.bytes().all(digit) {
        true => Ok(word.to_owned()),
        false => Err(bad("a secret is hexadecimal digits")),
    }
}
