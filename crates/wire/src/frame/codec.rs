//! Session frames to bytes and back (S2 to S4). Pure.

use super::{
    Frame, FrameError, HEADER_BYTES, HELLO_BYTES_MAX, Half, Hello, PART_BYTES, REQUEST_BYTES,
    TEXT_BYTES, VERSION, Welcome,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Below this a payload is copied out of the read buffer, so that a small message does not keep a large buffer alive.
const COPY_BELOW: usize = 16 << 10;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const OPEN: u8 = 3;
const DATA: u8 = 4;
const FINISH: u8 = 5;
const RESET: u8 = 6;
const CREDIT: u8 = 7;
const ACK: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const GOODBYE: u8 = 11;
const MORE: u16 = 1;
const HELLO_BYTES: usize = 2 + 2 + 16 + 16 + 8;
const WELCOME_BYTES: usize = 2 + 2 + 8 + 4 + 4;

/// What a type's header may look like: name, sequenced, payload length (None: up to `most`).
struct Shape {
    name: &'static str,
    stream: bool,
    number: bool,
    exact: Option<usize>,
    most: usize,
}

fn shape(kind: u8) -> Result<Shape, FrameError> {
    let (name, stream, number, exact, most) = match kind {
        HELLO => ("HELLO", false, false, None, HELLO_BYTES_MAX),
        WELCOME => ("WELCOME", false, false, Some(WELCOME_BYTES), WELCOME_BYTES),
        OPEN => ("OPEN", true, true, None, REQUEST_BYTES),
        DATA => ("DATA", true, true, None, PART_BYTES),
        FINISH => ("FINISH", true, true, Some(0), 0),
        RESET => ("RESET", true, true, Some(8), 8),
        CREDIT => ("CREDIT", true, false, Some(8), 8),
        ACK => ("ACK", false, false, Some(8), 8),
        PING => ("PING", false, false, Some(8), 8),
        PONG => ("PONG", false, false, Some(8), 8),
        GOODBYE => ("GOODBYE", false, false, None, 4 + TEXT_BYTES),
        other => return Err(FrameError::UnknownType(other)),
    };
    Ok(Shape {
        name,
        stream,
        number,
        exact,
        most,
    })
}

/// Takes one frame off the front of `buffer`; None: it is not complete yet. What a header alone makes impossible is
/// refused before its payload has come.
///
/// # Errors
/// The peer's fault, all; the connection cannot go on after one.
pub fn decode(buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
    let Some(mut header) = buffer.get(..HEADER_BYTES) else {
        return match buffer.first() {
            Some(&kind) => shape(kind).map(|_| None),
            None => Ok(None),
        };
    };
    let frame_type = header.get_u8();
    let kind = header.get_u8();
    let flags = header.get_u16_le();
    let length = header.get_u32_le();
    let stream = header.get_u32_le();
    let number = header.get_u32_le();

    let Shape {
        name,
        stream: has_stream,
        number: has_number,
        exact,
        most,
    } = shape(frame_type)?;
    let unused = |field| Err(FrameError::UnusedField { frame: name, field });
    if kind != 0 && frame_type != DATA {
        return unused("kind");
    }
    if flags & !MORE != 0 || flags != 0 && frame_type != DATA {
        return unused("flags");
    }
    if stream != 0 && !has_stream {
        return unused("stream");
    }
    if number != 0 && !has_number {
        return unused("number");
    }
    if stream == 0 && has_stream {
        return Err(FrameError::NoStream { frame: name });
    }
    let size = length as usize;
    match exact {
        Some(wanted) if wanted != size => {
            return Err(FrameError::WrongLength {
                frame: name,
                length,
                wanted,
            });
        }
        None if size > most => {
            return Err(FrameError::TooLong {
                frame: name,
                length,
                limit: most,
            });
        }
        _ => {}
    }
    if buffer.len() < HEADER_BYTES + size {
        return Ok(None);
    }
    buffer.advance(HEADER_BYTES);
    let mut payload = if size < COPY_BELOW {
        let copy = Bytes::copy_from_slice(&buffer[..size]);
        buffer.advance(size);
        copy
    } else {
        buffer.split_to(size).freeze()
    };

    Ok(Some(match frame_type {
        HELLO => Frame::Hello(hello(payload)?),
        WELCOME => {
            let version = payload.get_u16_le();
            if version != VERSION {
                return Err(FrameError::Version(version));
            }
            reserved_is_zero(name, payload.get_u16_le())?;
            Frame::Welcome(Welcome {
                received: payload.get_u64_le(),
                resume_within_ms: payload.get_u32_le(),
                max_streams: payload.get_u32_le(),
            })
        }
        OPEN => Frame::Open {
            stream,
            number,
            request: payload,
        },
        DATA => Frame::Data {
            stream,
            number,
            kind,
            more: flags & MORE != 0,
            data: payload,
        },
        FINISH => Frame::Finish { stream, number },
        RESET => {
            let half = match payload.get_u32_le() {
                0 => Half::Sending,
                1 => Half::Receiving,
                value => {
                    return Err(FrameError::BadValue {
                        frame: name,
                        field: "half",
                        value,
                    });
                }
            };
            Frame::Reset {
                stream,
                number,
                half,
                code: payload.get_u32_le(),
            }
        }
        CREDIT => Frame::Credit {
            stream,
            limit: payload.get_u64_le(),
        },
        ACK => Frame::Ack {
            received: payload.get_u64_le(),
        },
        PING => Frame::Ping {
            nonce: payload.get_u64_le(),
        },
        PONG => Frame::Pong {
            nonce: payload.get_u64_le(),
        },
        _ => {
            if size < 4 {
                return Err(FrameError::WrongLength {
                    frame: name,
                    length,
                    wanted: 4,
                });
            }
            let code = payload.get_u32_le();
            let text = String::from_utf8(payload.into()).map_err(|_| FrameError::NotText)?;
            Frame::Goodbye { code, text }
        }
    }))
}

fn hello(mut payload: Bytes) -> Result<Hello, FrameError> {
    let wrong = FrameError::WrongLength {
        frame: "HELLO",
        length: payload.len() as u32,
        wanted: HELLO_BYTES,
    };
    if payload.len() < 2 {
        return Err(wrong);
    }
    let version = payload.get_u16_le();
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    if payload.len() + 2 != HELLO_BYTES {
        return Err(wrong);
    }
    let mode = payload.get_u16_le();
    let (mut session, mut token) = ([0; 16], [0; 16]);
    payload.copy_to_slice(&mut session);
    payload.copy_to_slice(&mut token);
    let resume = match (mode, payload.get_u64_le()) {
        (0, 0) => None,
        (1, received) => Some(received),
        _ => {
            return Err(FrameError::BadValue {
                frame: "HELLO",
                field: "mode",
                value: mode.into(),
            });
        }
    };
    Ok(Hello {
        session,
        token,
        resume,
    })
}

fn reserved_is_zero(frame: &'static str, value: u16) -> Result<(), FrameError> {
    if value == 0 {
        Ok(())
    } else {
        Err(FrameError::BadValue {
            frame,
            field: "reserved",
            value: value.into(),
        })
    }
}

/// Appends a DATA frame whose payload is two pieces, so that who has them apart need not join them first.
pub fn encode_data(
    out: &mut BytesMut,
    (stream, number): (u32, u32),
    kind: u8,
    more: bool,
    [first, rest]: [&[u8]; 2],
) {
    let length = first.len() + rest.len();
    header(out, DATA, kind, more, length, (stream, number));
    out.put_slice(first);
    out.put_slice(rest);
}

fn header(
    out: &mut BytesMut,
    frame_type: u8,
    kind: u8,
    more: bool,
    length: usize,
    (stream, number): (u32, u32),
) {
    out.reserve(HEADER_BYTES + length);
    out.put_u8(frame_type);
    out.put_u8(kind);
    out.put_u16_le(u16::from(more) * MORE);
    out.put_u32_le(length as u32);
    out.put_u32_le(stream);
    out.put_u32_le(number);
}

impl Frame {
    /// Appends the frame. Payloads above the limits of S4 are the caller's bug; the peer will refuse them.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut header = |frame_type, length, stream, number| {
            header(out, frame_type, 0, false, length, (stream, number));
        };
        match self {
            Frame::Hello(hello) => {
                header(HELLO, HELLO_BYTES, 0, 0);
                out.put_u16_le(VERSION);
                out.put_u16_le(hello.resume.is_some().into());
                out.put_slice(&hello.session);
                out.put_slice(&hello.token);
                out.put_u64_le(hello.resume.unwrap_or(0));
            }
            Frame::Welcome(welcome) => {
                header(WELCOME, WELCOME_BYTES, 0, 0);
                out.put_u16_le(VERSION);
                out.put_u16_le(0);
                out.put_u64_le(welcome.received);
                out.put_u32_le(welcome.resume_within_ms);
                out.put_u32_le(welcome.max_streams);
            }
            Frame::Open {
                stream,
                number,
                request,
            } => {
                header(OPEN, request.len(), *stream, *number);
                out.put_slice(request);
            }
            Frame::Data {
                stream,
                number,
                kind,
                more,
                data,
            } => {
                encode_data(out, (*stream, *number), *kind, *more, [&[], data]);
            }
            Frame::Finish { stream, number } => header(FINISH, 0, *stream, *number),
            Frame::Reset {
                stream,
                number,
                half,
                code,
            } => {
                header(RESET, 8, *stream, *number);
                out.put_u32_le((*half == Half::Receiving).into());
                out.put_u32_le(*code);
            }
            Frame::Credit { stream, limit } => {
                header(CREDIT, 8, *stream, 0);
                out.put_u64_le(*limit);
            }
            Frame::Ack { received: value }
            | Frame::Ping { nonce: value }
            | Frame::Pong { nonce: value } => {
                let frame_type = match self {
                    Frame::Ack { .. } => ACK,
                    Frame::Ping { .. } => PING,
                    _ => PONG,
                };
                header(frame_type, 8, 0, 0);
                out.put_u64_le(*value);
            }
            Frame::Goodbye { code, text } => {
                header(GOODBYE, 4 + text.len(), 0, 0);
                out.put_u32_le(*code);
                out.put_slice(text.as_bytes());
            }
        }
    }
}
