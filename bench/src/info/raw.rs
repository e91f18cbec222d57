//! LDAP at the least cost for a client: requests that were encoded before, answers of which only lengths and tags are
//! read. The same reader for both servers, so that what differs is the server.

use crate::fail::{Failure, While};
use kumiko_directory::ber;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const DONE: [u8; 4] = [0x65, 0x67, 0x61, 0x69];
const WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    input: Vec<u8>,
    /// What of `input` is read already.
    at: usize,
}

/// What one answer was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub entries: usize,
    pub bytes: usize,
    pub code: u8,
}

impl Raw {
    pub fn connect(port: u16) -> Result<Raw, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", port))
            .doing(|| format!("connecting to port {port}"))?;
        let tuned = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(WITHIN)));
        tuned.doing(|| "setting a socket up")?;
        Ok(Raw {
            stream,
            input: Vec::new(),
            at: 0,
        })
    }

    pub fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(request).doing(|| "sending a request")
    }

    /// Reads to the end of one operation.
    pub fn answer(&mut self) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        loop {
            let rest = self.input.get(self.at..).unwrap_or_default();
            let length =
                ber::element_bytes(rest).map_err(|e| Failure::said("reading an answer", &e))?;
            match length.and_then(|l| rest.get(..l)) {
                Some(message) => {
                    self.at += message.len();
                    answer.bytes += message.len();
                    let mut fields = ber::Reader::new(message);
                    let read = (|| {
                        let mut fields = fields.sequence()?;
                        fields.number()?;
                        fields.any()
                    })();
                    let (tag, content) =
                        read.map_err(|e| Failure::said("reading an answer", &e))?;
                    if DONE.contains(&tag) {
                        // ENUMERATED, one byte.
                        answer.code = content.get(2).copied().unwrap_or(255);
                        return Ok(answer);
                    }
                    answer.entries += 1;
                }
                None => self.more()?,
            }
        }
    }

    pub fn ask(&mut self, request: &[u8]) -> Result<Answer, Failure> {
        self.send(request)?;
        self.answer()
    }

    fn more(&mut self) -> Result<(), Failure> {
        self.input.drain(..self.at);
        self.at = 0;
        let before = self.input.len();
        self.input.resize(before + (256 << 10), 0);
        let read = self
            .stream
            .read(self.input.get_mut(before..).unwrap_or_default());
        let read = read.doing(|| "reading an answer")?;
        self.input.truncate(before + read);
        if read == 0 {
            return Err(Failure::unexpected("the server closed the connection"));
        }
        Ok(())
    }
}

/// A search below `base`.
pub fn search(base: &str, filter: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    ber::element(&mut content, ber::OCTETS, base.as_bytes());
    ber::integer(&mut content, ber::ENUMERATED, 2);
    ber::integer(&mut content, ber::ENUMERATED, 0);
    ber::integer(&mut content, ber::INTEGER, 0);
    ber::integer(&mut content, ber::INTEGER, 0);
    ber::element(&mut content, ber::BOOLEAN, &[0]);
    content.extend_from_slice(filter);
    ber::element(&mut content, ber::SEQUENCE, &[]);
    message(0x63, &content)
}

/// Replaces one value.
pub fn modify(dn: &str, attribute: &str, value: &str) -> Vec<u8> {
    let mut content = Vec::new();
    ber::element(&mut content, ber::OCTETS, dn.as_bytes());
    ber::nested(&mut content, ber::SEQUENCE, |out| {
        ber::nested(out, ber::SEQUENCE, |out| {
            ber::integer(out, ber::ENUMERATED, 2);
            ber::nested(out, ber::SEQUENCE, |out| {
                ber::element(out, ber::OCTETS, attribute.as_bytes());
                ber::nested(out, ber::SET, |out| {
                    ber::element(out, ber::OCTETS, value.as_bytes())
                });
            });
        });
    });
    message(0x66, &content)
}

/// With a password, for whoever may write.
pub fn bind(name: &str, password: &str) -> Vec<u8> {
    let mut content = Vec::new();
    ber::integer(&mut content, ber::INTEGER, 3);
    ber::element(&mut content, ber::OCTETS, name.as_bytes());
    ber::element(&mut content, 0x80, password.as_bytes());
    message(0x60, &content)
}

fn message(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ber::nested(&mut out, ber::SEQUENCE, |out| {
        ber::integer(out, ber::INTEGER, 2);
        ber::element(out, tag, content);
    });
    out
}

/// The assertion tags of RFC 4511: 0xa3 equal, 0xa5 at least, 0xa6 at most.
pub fn item(tag: u8, attribute: &str, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    ber::nested(&mut out, tag, |out| {
        ber::element(out, ber::OCTETS, attribute.as_bytes());
        ber::element(out, ber::OCTETS, value.as_bytes());
    });
    out
}

pub fn and(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    ber::nested(&mut out, 0xa0, |out| {
        parts.iter().for_each(|p| out.extend_from_slice(p))
    });
    out
}
