//! Messages of an attached job, both ways (spec/services, V4). Binary, little endian; output and stdin carry
//! the offset at which their bytes begin, so that whoever attaches again goes on exactly where the link broke.

use crate::api::{self, ApiError};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::description::WindowSize;

/// Kinds of messages (V4).
pub mod kind {
    pub const STDIN: u8 = 0x10;
    pub const STDIN_END: u8 = 0x11;
    pub const WINDOW: u8 = 0x12;
    pub const SIGNAL: u8 = 0x13;
    pub const CONSUMED: u8 = 0x14;
    pub const STDOUT: u8 = 0x20;
    pub const STDERR: u8 = 0x21;
    pub const STDIN_TAKEN: u8 = 0x22;
    pub const STDIN_CLOSED: u8 = 0x23;
    pub const ENDED: u8 = 0x24;
}

/// What an attached client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToJob {
    /// Never beyond the last `StdinTaken` + `STDIN_WINDOW_BYTES`. What was taken before is skipped.
    Stdin {
        offset: u64,
        data: Bytes,
    },
    /// No more stdin after `offset` bytes.
    StdinEnd {
        offset: u64,
    },
    Window(WindowSize),
    Signal {
        signal: i32,
    },
    /// All bytes below `offset` have arrived: the site may free them (`OutputMode::Flow`).
    Consumed {
        stream: OutputStream,
        offset: u64,
    },
}

/// What an attached client hears. `Ended` comes after all output, and is the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromJob {
    Output {
        stream: OutputStream,
        offset: u64,
        data: Bytes,
    },
    StdinTaken {
        offset: u64,
    },
    /// More stdin is useless.
    StdinClosed,
    Ended(Outcome),
}

/// Why a message could not be read. Whoever sent it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    #[error("a message of kind {kind:#04x} has {bytes} bytes, which is too few")]
    Short { kind: u8, bytes: usize },
    #[error("a message of kind {kind:#04x} has {bytes} bytes too many")]
    Long { kind: u8, bytes: usize },
    #[error("there is no output stream {number}: 1 is stdout, 2 is stderr")]
    Stream { number: u8 },
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl ToJob {
    pub fn encode(self) -> (u8, Bytes) {
        match self {
            ToJob::Stdin { offset, data } => (kind::STDIN, with_offset(offset, &data)),
            ToJob::StdinEnd { offset } => (kind::STDIN_END, with_offset(offset, &[])),
            ToJob::Window(size) => {
                let mut out = BytesMut::with_capacity(4);
                out.put_u16_le(size.rows);
                out.put_u16_le(size.columns);
                (kind::WINDOW, out.freeze())
            }
            ToJob::Signal { signal } => {
                (kind::SIGNAL, Bytes::copy_from_slice(&signal.to_le_bytes()))
            }
            ToJob::Consumed { stream, offset } => {
                let mut out = BytesMut::with_capacity(9);
                out.put_u8(number(stream));
                out.put_u64_le(offset);
                (kind::CONSUMED, out.freeze())
            }
        }
    }

    /// # Errors
    /// Unknown kind, wrong length.
    pub fn decode(kind: u8, mut data: Bytes) -> Result<ToJob, ExecError> {
        let message = match kind {
            kind::STDIN => {
                return Ok(ToJob::Stdin {
                    offset: u64_le(kind, &mut data)?,
                    data,
                });
            }
            kind::STDIN_END => ToJob::StdinEnd {
                offset: u64_le(kind, &mut data)?,
            },
            kind::WINDOW => {
                need(kind, &data, 4)?;
                ToJob::Window(WindowSize {
                    rows: data.get_u16_le(),
                    columns: data.get_u16_le(),
                })
            }
            kind::SIGNAL => {
                need(kind, &data, 4)?;
                ToJob::Signal {
                    signal: data.get_i32_le(),
                }
            }
            kind::CONSUMED => {
                need(kind, &data, 9)?;
                let stream = match data.get_u8() {
                    1 => OutputStream::Stdout,
                    2 => OutputStream::Stderr,
                    number => return Err(ExecError::Stream { number }),
                };
                ToJob::Consumed {
                    stream,
                    offset: data.get_u64_le(),
                }
            }
            kind => return Err(ApiError::Kind { kind }.into()),
        };
        no_more(kind, &data)?;
        Ok(message)
    }
}

impl FromJob {
    /// Kind and payload, in two pieces: bytes of output are not copied.
    pub fn encode(self) -> (u8, [Bytes; 2]) {
        let alone = |data| [Bytes::new(), data];
        match self {
            FromJob::Output {
                stream: OutputStream::Stdout,
                offset,
                data,
            } => (kind::STDOUT, [with_offset(offset, &[]), data]),
            FromJob::Output {
                stream: OutputStream::Stderr,
                offset,
                data,
            } => (kind::STDERR, [with_offset(offset, &[]), data]),
            FromJob::StdinTaken { offset } => (kind::STDIN_TAKEN, alone(with_offset(offset, &[]))),
            FromJob::StdinClosed => (kind::STDIN_CLOSED, alone(Bytes::new())),
            FromJob::Ended(outcome) => (kind::ENDED, alone(api::json(&outcome))),
        }
    }

    /// # Errors
    /// Unknown kind, wrong length, an outcome that is not one.
    pub fn decode(kind: u8, mut data: Bytes) -> Result<FromJob, ExecError> {
        let message = match kind {
            kind::STDOUT | kind::STDERR => {
                let stream = if kind == kind::STDOUT {
                    OutputStream::Stdout
                } else {
                    OutputStream::Stderr
                };
                return Ok(FromJob::Output {
                    stream,
                    offset: u64_le(kind, &mut data)?,
                    data,
                });
            }
            kind::ENDED => return Ok(FromJob::Ended(api::reply(&data)?)),
            kind::STDIN_TAKEN => FromJob::StdinTaken {
                offset: u64_le(kind, &mut data)?,
            },
            kind::STDIN_CLOSED => FromJob::StdinClosed,
            kind => return Err(ApiError::Kind { kind }.into()),
        };
        no_more(kind, &data)?;
        Ok(message)
    }
}

fn number(stream: OutputStream) -> u8 {
    match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}

fn with_offset(offset: u64, data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(8 + data.len());
    out.put_u64_le(offset);
    out.put_slice(data);
    out.freeze()
}

fn u64_le(kind: u8, data: &mut Bytes) -> Result<u64, ExecError> {
    need(kind, data, 8)?;
    Ok(data.get_u64_le())
}

fn need(kind: u8, data: &Bytes, bytes: usize) -> Result<(), ExecError> {
    if data.len() < bytes {
        Err(ExecError::Short {
            kind,
            bytes: data.len(),
        })
    } else {
        Ok(())
    }
}

fn no_more(kind: u8, data: &Bytes) -> Result<(), ExecError> {
    if data.is_empty() {
        Ok(())
    } else {
        Err(ExecError::Long {
            kind,
            bytes: data.len(),
        })
    }
}
