//! What a site and a runner say to each other over the control socket of a spool (spec/jobs/runner.md, R20 to R29).
//!
//! Bytes only: sockets, credit and files are elsewhere. A frame is a little-endian `u32` (how many bytes follow), a
//! kind byte, and the body of that kind.

use bytes::Bytes;
use kumiko_job::attempt::{
    AttemptCommand, AttemptReport, Cost, EngineCause, Limited, Limits, Outcome, OutputStream,
};
use kumiko_job::description::WindowSize;

/// Most bytes after the length of a frame: the largest piece of stdin and its header, and nothing that needs more.
pub const FRAME_LIMIT_BYTES: usize = STDIN_PIECE_BYTES + 64;
/// Most stdin bytes in one frame: a runner holds a whole frame, and is to stay small.
pub const STDIN_PIECE_BYTES: usize = 16 * 1024;
/// Most stdin bytes that a sender has under way, that is, at or above the last `StdinTaken`.
pub const STDIN_WINDOW_BYTES: usize = kumiko_job::attempt::STDIN_WINDOW_BYTES as usize;
/// A text is cut to this many bytes: it is read by a person.
pub const TEXT_LIMIT_BYTES: usize = 1024;
/// Most texts of what is not enforced in a `Started`, or not followed in a `Followed`: with those of why and their limit they fit a frame.
pub const NOT_ENFORCED_LIMIT: usize = 9;
/// Most texts of why in a `Started`.
pub const WHY_LIMIT: usize = 5;

const LENGTH_BYTES: usize = 4;

/// Why a frame was refused. The peer is at fault, and the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerFrameError {
    #[error("a runner frame of {length} bytes is over the limit of {FRAME_LIMIT_BYTES}")]
    TooLong { length: u32 },
    #[error("a runner frame is empty: it has no kind byte")]
    Empty,
    #[error("runner frame kind {kind} is unknown here")]
    Kind { kind: u8 },
    #[error("runner frame kind {kind} ends before its {field}")]
    Short { kind: u8, field: &'static str },
    #[error("runner frame kind {kind} has {extra} bytes after its last field")]
    Extra { kind: u8, extra: usize },
    #[error("the {field} of runner frame kind {kind} is out of range")]
    Value { kind: u8, field: &'static str },
}

const STARTED: u8 = 1;
const OUTPUT: u8 = 2;
const STDIN_TAKEN: u8 = 3;
const STDIN_CLOSED: u8 = 4;
const SUSPENDED: u8 = 5;
const RESUMED: u8 = 6;
const ENDED: u8 = 7;
const COST: u8 = 8;
const HELD: u8 = 9;
const FOLLOWED: u8 = 10;
const BEAT: u8 = 11;
const VACATES: u8 = 12;

const SIGNAL: u8 = 65;
const CANCEL: u8 = 66;
const STDIN: u8 = 67;
const STDIN_END: u8 = 68;
const WINDOW: u8 = 69;
const CONSUMED: u8 = 70;
const SETTLED: u8 = 71;
const LIMITS: u8 = 72;
const RELEASE: u8 = 73;
const VACATE: u8 = 74;

/// Appends the frame of a report. Texts over their limit are cut, and a list of too many says how many it leaves out.
pub fn encode_report(report: &AttemptReport, out: &mut Vec<u8>) {
    match report {
        AttemptReport::Started {
            pid,
            mechanism,
            not_enforced,
            why,
        } => frame(out, STARTED, |out| {
            out.extend_from_slice(&pid.to_le_bytes());
            text(out, mechanism);
            texts(out, not_enforced, NOT_ENFORCED_LIMIT);
            texts(out, why, WHY_LIMIT);
        }),
        AttemptReport::Output { stream, length } => frame(out, OUTPUT, |out| {
            out.push(stream_byte(*stream));
            out.extend_from_slice(&length.to_le_bytes());
        }),
        AttemptReport::StdinTaken { offset } => frame(out, STDIN_TAKEN, |out| {
            out.extend_from_slice(&offset.to_le_bytes());
        }),
        AttemptReport::StdinClosed => frame(out, STDIN_CLOSED, |_| ()),
        AttemptReport::Held => frame(out, HELD, |_| ()),
        AttemptReport::Beat => frame(out, BEAT, |_| ()),
        AttemptReport::Vacates => frame(out, VACATES, |_| ()),
        AttemptReport::Followed { not } => frame(out, FOLLOWED, |out| {
            texts(out, not, NOT_ENFORCED_LIMIT);
        }),
        AttemptReport::Suspended => frame(out, SUSPENDED, |_| ()),
        AttemptReport::Resumed => frame(out, RESUMED, |_| ()),
        AttemptReport::Cost(cost) => frame(out, COST, |out| {
            for value in [cost.start_us, cost.answering_us, cost.answered] {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }),
        AttemptReport::Ended(outcome) => frame(out, ENDED, |out| encode_outcome(outcome, out)),
    }
}

/// A count and as many texts; of more than `most`, the last says how many it leaves out.
fn texts(out: &mut Vec<u8>, all: &[String], most: usize) {
    if all.len() <= most {
        out.push(all.len() as u8);
        all.iter().for_each(|words| text(out, words));
    } else {
        let told = most - 1;
        out.push(most as u8);
        all.iter().take(told).for_each(|words| text(out, words));
        text(out, &format!("and {} more", all.len() - told));
    }
}

fn encode_outcome(outcome: &Outcome, out: &mut Vec<u8>) {
    match outcome {
        Outcome::Exited { status } => {
            out.push(0);
            out.extend_from_slice(&status.to_le_bytes());
        }
        Outcome::Signalled { signal } => {
            out.push(1);
            out.extend_from_slice(&signal.to_le_bytes());
        }
        Outcome::Cancelled => out.push(2),
        Outcome::TimeLimit => out.push(3),
        Outcome::OutputQuota { stream } => out.extend_from_slice(&[4, stream_byte(*stream)]),
        // Files are not a runner's business: none has the second to say.
        Outcome::NeverStarted { code, message } | Outcome::StagingFailed { code, message, .. } => {
            out.push(5);
            text(out, code);
            text(out, message);
        }
        Outcome::SpoolFailed { message } => {
            out.push(6);
            text(out, message);
        }
        // What an engine did is not for a runner to say either.
        Outcome::EngineEnded {
            cause: EngineCause::Limit,
            message,
        } => {
            out.push(8);
            text(out, message);
        }
        Outcome::Lost { message } | Outcome::EngineEnded { message, .. } => {
            out.push(7);
            text(out, message);
        }
    }
}

/// Appends the frame of a command. Stdin of more than a piece becomes several frames at consecutive offsets.
pub fn encode_command(command: &AttemptCommand, out: &mut Vec<u8>) {
    match command {
        AttemptCommand::Signal { signal } => frame(out, SIGNAL, |out| {
            out.extend_from_slice(&signal.to_le_bytes());
        }),
        AttemptCommand::Cancel { grace_ms } => frame(out, CANCEL, |out| {
            out.extend_from_slice(&grace_ms.to_le_bytes());
        }),
        AttemptCommand::Vacate { grace_ms } => frame(out, VACATE, |out| {
            out.extend_from_slice(&grace_ms.to_le_bytes());
        }),
        AttemptCommand::Stdin { offset, data } => {
            let mut at = *offset;
            for piece in data.chunks(STDIN_PIECE_BYTES) {
                frame(out, STDIN, |out| {
                    out.extend_from_slice(&at.to_le_bytes());
                    out.extend_from_slice(piece);
                });
                at = at.saturating_add(piece.len() as u64);
            }
        }
        AttemptCommand::StdinEnd { offset } => frame(out, STDIN_END, |out| {
            out.extend_from_slice(&offset.to_le_bytes());
        }),
        AttemptCommand::Window(size) => frame(out, WINDOW, |out| {
            out.extend_from_slice(&size.rows.to_le_bytes());
            out.extend_from_slice(&size.columns.to_le_bytes());
        }),
        AttemptCommand::Consumed { stream, offset } => frame(out, CONSUMED, |out| {
            out.push(stream_byte(*stream));
            out.extend_from_slice(&offset.to_le_bytes());
        }),
        AttemptCommand::Settled => frame(out, SETTLED, |_| ()),
        AttemptCommand::Release => frame(out, RELEASE, |_| ()),
        AttemptCommand::Limits(limits) => frame(out, LIMITS, |out| {
            for (number, limited) in (0_u8..).zip(Limited::ALL) {
                if let Some(value) = limits.get(limited) {
                    out.push(number);
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }
        }),
    }
}

/// The report at the beginning of `bytes` and how many bytes it took; None: it is not all there yet.
pub fn decode_report(bytes: &[u8]) -> Result<Option<(AttemptReport, usize)>, RunnerFrameError> {
    let Some((mut body, taken)) = split(bytes)? else {
        return Ok(None);
    };
    let report = match body.kind {
        STARTED => {
            let pid = u32::from_le_bytes(body.array("pid")?);
            let mechanism = body.text("mechanism")?;
            let not_enforced = body.texts("what is not enforced", NOT_ENFORCED_LIMIT)?;
            let why = body.texts("why", WHY_LIMIT)?;
            AttemptReport::Started {
                pid,
                mechanism,
                not_enforced,
                why,
            }
        }
        OUTPUT => AttemptReport::Output {
            stream: body.stream()?,
            length: u64::from_le_bytes(body.array("length")?),
        },
        STDIN_TAKEN => AttemptReport::StdinTaken {
            offset: u64::from_le_bytes(body.array("offset")?),
        },
        STDIN_CLOSED => AttemptReport::StdinClosed,
        HELD => AttemptReport::Held,
        BEAT => AttemptReport::Beat,
        VACATES => AttemptReport::Vacates,
        FOLLOWED => AttemptReport::Followed {
            not: body.texts("what is not followed", NOT_ENFORCED_LIMIT)?,
        },
        SUSPENDED => AttemptReport::Suspended,
        RESUMED => AttemptReport::Resumed,
        COST => AttemptReport::Cost(Cost {
            start_us: u64::from_le_bytes(body.array("start")?),
            answering_us: u64::from_le_bytes(body.array("answering")?),
            answered: u64::from_le_bytes(body.array("answered")?),
        }),
        ENDED => AttemptReport::Ended(decode_outcome(&mut body)?),
        kind => return Err(RunnerFrameError::Kind { kind }),
    };
    body.end()?;
    Ok(Some((report, taken)))
}

fn decode_outcome(body: &mut Body<'_>) -> Result<Outcome, RunnerFrameError> {
    Ok(match body.byte("outcome")? {
        0 => Outcome::Exited {
            status: i32::from_le_bytes(body.array("status")?),
        },
        1 => Outcome::Signalled {
            signal: i32::from_le_bytes(body.array("signal")?),
        },
        2 => Outcome::Cancelled,
        3 => Outcome::TimeLimit,
        4 => Outcome::OutputQuota {
            stream: body.stream()?,
        },
        5 => Outcome::NeverStarted {
            code: body.text("code")?,
            message: body.text("message")?,
        },
        6 => Outcome::SpoolFailed {
            message: body.text("message")?,
        },
        7 => Outcome::Lost {
            message: body.text("message")?,
        },
        8 => Outcome::EngineEnded {
            cause: EngineCause::Limit,
            message: body.text("message")?,
        },
        _ => return Err(body.value("outcome")),
    })
}

/// Each limit at most once, in their order.
fn decode_limits(body: &mut Body<'_>) -> Result<Limits, RunnerFrameError> {
    let mut limits = Limits::default();
    let mut least = 0;
    while !body.rest.is_empty() {
        let number = body.byte("limit")?;
        let limited = Limited::ALL.get(usize::from(number)).copied();
        let limited = limited.filter(|_| number >= least);
        let limited = limited.ok_or_else(|| body.value("limit"))?;
        let value = u64::from_le_bytes(body.array("limit")?);
        if !(1..=limited.most()).contains(&value) {
            return Err(body.value("limit"));
        }
        limits.set(limited, Some(value));
        least = number + 1;
    }
    Ok(limits)
}

/// The command at the beginning of `bytes` and how many bytes it took; None: it is not all there yet.
pub fn decode_command(bytes: &[u8]) -> Result<Option<(AttemptCommand, usize)>, RunnerFrameError> {
    let Some((mut body, taken)) = split(bytes)? else {
        return Ok(None);
    };
    let command = match body.kind {
        SIGNAL => AttemptCommand::Signal {
            signal: i32::from_le_bytes(body.array("signal")?),
        },
        CANCEL => AttemptCommand::Cancel {
            grace_ms: u64::from_le_bytes(body.array("grace")?),
        },
        VACATE => AttemptCommand::Vacate {
            grace_ms: u64::from_le_bytes(body.array("grace")?),
        },
        STDIN => {
            let offset = u64::from_le_bytes(body.array("offset")?);
            let data = std::mem::take(&mut body.rest);
            if data.is_empty() || data.len() > STDIN_PIECE_BYTES {
                return Err(body.value("data"));
            }
            if offset.checked_add(data.len() as u64).is_none() {
                return Err(body.value("offset"));
            }
            AttemptCommand::Stdin {
                offset,
                data: Bytes::copy_from_slice(data),
            }
        }
        STDIN_END => AttemptCommand::StdinEnd {
            offset: u64::from_le_bytes(body.array("offset")?),
        },
        WINDOW => AttemptCommand::Window(WindowSize {
            rows: u16::from_le_bytes(body.array("rows")?),
            columns: u16::from_le_bytes(body.array("columns")?),
        }),
        CONSUMED => AttemptCommand::Consumed {
            stream: body.stream()?,
            offset: u64::from_le_bytes(body.array("offset")?),
        },
        SETTLED => AttemptCommand::Settled,
        RELEASE => AttemptCommand::Release,
        LIMITS => AttemptCommand::Limits(decode_limits(&mut body)?),
        kind => return Err(RunnerFrameError::Kind { kind }),
    };
    body.end()?;
    Ok(Some((command, taken)))
}

fn frame(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.push(kind);
    body(out);
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

fn text(out: &mut Vec<u8>, words: &str) {
    let mut end = words.len().min(TEXT_LIMIT_BYTES);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&words.as_bytes()[..end]);
}

fn stream_byte(stream: OutputStream) -> u8 {
    match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}

fn split(bytes: &[u8]) -> Result<Option<(Body<'_>, usize)>, RunnerFrameError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length);
    if length as usize > FRAME_LIMIT_BYTES {
        return Err(RunnerFrameError::TooLong { length });
    }
    let Some(frame) = rest.get(..length as usize) else {
        return Ok(None);
    };
    let Some((&kind, rest)) = frame.split_first() else {
        return Err(RunnerFrameError::Empty);
    };
    Ok(Some((Body { kind, rest }, LENGTH_BYTES + frame.len())))
}

/// What is left to read of one frame.
struct Body<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl Body<'_> {
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RunnerFrameError> {
        let kind = self.kind;
        let (value, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(RunnerFrameError::Short { kind, field })?;
        self.rest = rest;
        Ok(*value)
    }

    fn byte(&mut self, field: &'static str) -> Result<u8, RunnerFrameError> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    fn stream(&mut self) -> Result<OutputStream, RunnerFrameError> {
        match self.byte("stream")? {
            1 => Ok(OutputStream::Stdout),
            2 => Ok(OutputStream::Stderr),
            _ => Err(self.value("stream")),
        }
    }

    fn texts(&mut self, field: &'static str, most: usize) -> Result<Vec<String>, RunnerFrameError> {
        let count = self.byte(field)?;
        match usize::from(count) > most {
            true => Err(self.value(field)),
            false => (0..count).map(|_| self.text(field)).collect(),
        }
    }

    fn text(&mut self, field: &'static str) -> Result<String, RunnerFrameError> {
        let length = usize::from(u16::from_le_bytes(self.array(field)?));
        if length > TEXT_LIMIT_BYTES {
            return Err(self.value(field));
        }
        let kind = self.kind;
        let (words, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(RunnerFrameError::Short { kind, field })?;
        self.rest = rest;
        match std::str::from_utf8(words) {
            Ok(words) => Ok(words.to_owned()),
            Err(_) => Err(self.value(field)),
        }
    }

    fn end(&self) -> Result<(), RunnerFrameError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(RunnerFrameError::Extra {
                kind: self.kind,
                extra,
            }),
        }
    }

    fn value(&self, field: &'static str) -> RunnerFrameError {
        RunnerFrameError::Value {
            kind: self.kind,
            field,
        }
    }
}
