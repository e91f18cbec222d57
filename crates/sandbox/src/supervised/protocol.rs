//! What a room and its supervisor say to each other. Both ends are copies of one process: no decoder for strangers.

use kumiko_linux::cell::Failure;
use kumiko_linux::packets::{Packet, Packets};
use kumiko_linux::poll::{Interest, Poll};
use kumiko_policy::{Addresses, Followed, GuestPath, Now, Origin, Reach};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What is to be started. The streams follow, a message each, unless a terminal is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// To be tried in order; absolute, in the view.
    pub candidates: Vec<String>,
    pub directory: String,
    /// With the program's name first.
    pub arguments: Vec<String>,
    /// NAME=VALUE.
    pub environment: Vec<String>,
    /// Rows and columns.
    pub terminal: Option<(u16, u16)>,
}

impl Order {
    /// Counted lists of zero-terminated strings, none of which has a zero in it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |text: &str| {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        };
        let (rows, columns) = self.terminal.unwrap_or((0, 0));
        put(&format!(
            "{rows} {columns} {}",
            u8::from(self.terminal.is_some())
        ));
        put(&self.directory);
        for list in [&self.candidates, &self.arguments, &self.environment] {
            put(&list.len().to_string());
            list.iter().for_each(|text| put(text));
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Order> {
        let mut texts = bytes
            .split(|byte| *byte == 0)
            .map(|text| String::from_utf8_lossy(text).into_owned());
        let size = texts.next()?;
        let mut numbers = size.split(' ').map(|number| number.parse::<u16>().ok());
        let (rows, columns, wanted) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let directory = texts.next()?;
        let mut list = || -> Option<Vec<String>> {
            let count: usize = texts.next()?.parse().ok()?;
            (0..count).map(|_| texts.next()).collect()
        };
        Some(Order {
            candidates: list()?,
            arguments: list()?,
            environment: list()?,
            directory,
            terminal: (wanted == 1).then_some((rows, columns)),
        })
    }
}

/// What comes back.
#[derive(Debug)]
pub(super) enum Reply {
    /// The view stands, or the guest runs: its number, and its terminal.
    Done { pid: i32, terminal: Option<OwnedFd> },
    /// Why not; `pid` of a child that is left to be reaped, else 0.
    Failed { pid: i32, failure: Failure },
}

const DONE: u32 = 0;
const FAILED: u32 = 1;
const REPLY_BYTES: usize = 20;

impl Reply {
    pub(super) fn send(&self, to: &Packets) -> io::Result<()> {
        let (words, fd) = match self {
            Reply::Done { pid, terminal } => ([DONE, *pid as u32, 0, 0, 0], terminal.as_ref()),
            Reply::Failed { pid, failure } => {
                let [stage, index, errno] = failure.words();
                ([FAILED, *pid as u32, stage, index, errno], None)
            }
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        to.send(&bytes, fd.map(AsFd::as_fd))
    }

    /// Waits for it; None: the supervisor is gone.
    pub(super) fn receive(from: &Packets) -> io::Result<Option<Reply>> {
        let mut bytes = [0; REPLY_BYTES];
        let Some((count, terminal)) = next(from, &mut bytes)? else {
            return Ok(None);
        };
        let word = |at: usize| {
            let word = bytes
                .get(at * 4..at * 4 + 4)
                .and_then(|word| word.try_into().ok());
            u32::from_ne_bytes(word.unwrap_or_default())
        };
        let pid = word(1) as i32;
        Ok(match (count, word(0)) {
            (REPLY_BYTES, DONE) => Some(Reply::Done { pid, terminal }),
            (REPLY_BYTES, FAILED) => Some(Reply::Failed {
                pid,
                failure: Failure::of_words([word(2), word(3), word(4)]),
            }),
            _ => None,
        })
    }
}

/// The next message and what came with it; None: the other end is gone.
pub(super) fn next(
    from: &Packets,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let poll = Poll::new()?;
    poll.add(from, 0, Interest::Read)?;
    loop {
        match from.receive(buffer) {
            Ok(Packet::Message(count, fd)) => return Ok(Some((count, fd))),
            Ok(Packet::End) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => drop(poll.wait::<1>(None)?),
            // It ended with something unread; what it said before is there still (unix(7)).
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a room's guests are to follow: paths, each with a letter before it, and address rules as a policy writes them.
fn change_bytes(followed: &Followed) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |text: &str| {
        bytes.extend(text.as_bytes());
        bytes.push(0);
    };
    put(&followed.paths.len().to_string());
    for (path, now) in &followed.paths {
        let letter = match now {
            Now::AsBegun => 'b',
            Now::ReadOnly => 'r',
            Now::NotExecuted => 'n',
            Now::ReadAlone => 'a',
            Now::Denied => 'd',
            Now::Hidden => 'h',
        };
        put(&format!("{letter}{path}"));
    }
    put(&followed.reach.len().to_string());
    for layer in &followed.reach {
        for rules in [layer.allow.as_ref(), Some(&layer.deny)] {
            put(&rules.map_or("none".to_owned(), |rules| rules.len().to_string()));
            let rules = rules.into_iter().flatten();
            rules.for_each(|rule| put(&rule.to_string()));
        }
    }
    bytes
}

pub(super) fn read_change(bytes: &[u8]) -> Option<Followed> {
    let mut texts = bytes
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned());
    let count: usize = texts.next()?.parse().ok()?;
    let mut paths = Vec::new();
    for _ in 0..count {
        let text = texts.next()?;
        let (letter, path) = text.split_at_checked(1)?;
        let now = match letter {
            "b" => Now::AsBegun,
            "r" => Now::ReadOnly,
            "n" => Now::NotExecuted,
            "a" => Now::ReadAlone,
            "d" => Now::Denied,
            "h" => Now::Hidden,
            _ => return None,
        };
        paths.push((GuestPath::new(path).ok()?, now));
    }
    let layers: usize = texts.next()?.parse().ok()?;
    let mut reach = Vec::new();
    for _ in 0..layers {
        let mut rules = || -> Option<Option<Vec<Addresses>>> {
            match texts.next()?.as_str() {
                "none" => Some(None),
                count => {
                    let count: usize = count.parse().ok()?;
                    let rules = (0..count).map(|_| texts.next()?.parse().ok());
                    Some(Some(rules.collect::<Option<_>>()?))
                }
            }
        };
        reach.push(Reach {
            allow: rules()?,
            deny: rules()??,
            origin: Origin {
                source: String::new(),
                line: 0,
            },
            lines: BTreeMap::new(),
        });
    }
    Some(Followed {
        paths,
        reach,
        not: Vec::new(),
    })
}

pub(super) fn send_change(to: &Packets, followed: &Followed) -> io::Result<()> {
    let text = kumiko_linux::supervise::calls::file_of(c"change", &change_bytes(followed))?;
    to.send(CHANGE, Some(text.as_fd()))
}

/// Words between the two beside orders.
pub(super) const LAUNCH: &[u8] = b"launch";
pub(super) const STREAM: &[u8] = b"stream";
pub(super) const CHANGE: &[u8] = b"change";
pub(super) const KILL: &[u8] = b"kill";

/// An order with its streams.
pub(super) fn send_order(
    to: &Packets,
    order: &Order,
    streams: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = kumiko_linux::supervise::calls::file_of(c"order", &order.bytes())?;
    to.send(LAUNCH, Some(text.as_fd()))?;
    for stream in streams {
        to.send(STREAM, Some(*stream))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let layer = |allow: Option<&[&str]>, deny: &[&str]| Reach {
            allow: allow.map(rules),
            deny: rules(deny),
            origin: Origin {
                source: String::new(),
                line: 0,
            },
            lines: BTreeMap::new(),
        };
        let path = |text: &str, now| (GuestPath::new(text).unwrap(), now);
        let followed = Followed {
            paths: vec![
                path("/", Now::Hidden),
                path("/usr", Now::AsBegun),
                path("/usr/share/ü", Now::Denied),
                path("/var", Now::ReadOnly),
                path("/var/a", Now::NotExecuted),
                path("/var/b", Now::ReadAlone),
            ],
            reach: vec![
                layer(None, &["*:25"]),
                layer(Some(&[]), &[]),
                layer(Some(&["192.0.2.0/24:80-90", "[2001:db8::]"]), &[]),
            ],
            not: Vec::new(),
        };
        assert_eq!(read_change(&change_bytes(&followed)), Some(followed));
        assert_eq!(read_change(b"1\0x/a\0"), None);
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        for terminal in [None, Some((24, 80))] {
            let order = Order {
                candidates: texts(&["/bin/a", "/usr/bin/a"]),
                directory: "/job".to_owned(),
                arguments: texts(&["a", "", "two words"]),
                environment: texts(&["A=", "B=ü\n"]),
                terminal,
            };
            assert_eq!(Order::read(&order.bytes()), Some(order));
        }
        assert_eq!(Order::read(b""), None);
    }
}
