//! What a routine's program is told, and what it says (spec/rpc P60 to P69). What it answers was written by a guest. Not here:
//! pipes and files.

use kumiko_call::id::AttemptId;
use kumiko_idl::{ElementType, Limits, Placed, Plan, Span};

/// Arguments, or a result, of at most so many bytes stand beside the words: less than two files cost.
pub const SMALL_BYTES: u64 = 32 << 10;
/// Bytes of an answer, without a small result.
pub const ANSWER_BYTES: usize = 40;

/// Bytes of the words before what goes to a callback.
pub const ASK_BYTES: usize = 56;
/// Most bytes that go to a callback, or come back: they stand in pipes, and in memory at both ends.
pub const CALLBACK_BYTES: u64 = 1 << 20;

/// Most bytes of an error that a routine tells: a name and the end of a traceback, which stands in the log.
pub const ERROR_BYTES: u64 = 4096;

const CALL: u64 = u64::from_le_bytes(*b"kkmcall1");
const DONE: u64 = u64::from_le_bytes(*b"kkmdone1");
const BACK: u64 = u64::from_le_bytes(*b"kkmback1");
const SAID: u64 = u64::from_le_bytes(*b"kkmsaid1");
const FAIL: u64 = u64::from_le_bytes(*b"kkmfail1");
const ARGUMENTS_SMALL: u64 = 1;
const RESULT_SMALL: u64 = 2;
/// It does not travel so.
const NONE: u64 = u64::MAX;

/// The words of a call, without small arguments.
pub fn call(attempt: AttemptId, plan: &Plan) -> Vec<u8> {
    let small = |bytes, flag| if bytes <= SMALL_BYTES { flag } else { 0 };
    let result = match plan.has_tail() {
        true => 0,
        false => small(plan.out_bytes, RESULT_SMALL),
    };
    let flags = small(plan.in_bytes, ARGUMENTS_SMALL) | result;
    let mut words = vec![
        CALL,
        attempt.call.client,
        attempt.call.sequence,
        u64::from(attempt.epoch),
        flags,
        plan.in_bytes,
        plan.out_bytes,
        plan.places.len() as u64,
    ];
    let at = |span: &Option<Span>| span.map_or(NONE, |span| span.at);
    for place in &plan.places {
        match place {
            Placed::Scalar => words.extend([0, NONE, NONE, 0, 0, 0, 0]),
            Placed::Text { at: span } => words.extend([1, at(span), NONE, 0, 0, 0, 0]),
            Placed::File { given, taken } => {
                let bytes = given.map_or(0, |span| span.bytes);
                words.extend([3, at(given), taken.unwrap_or(NONE), 0, bytes, 0, 0]);
            }
            Placed::Many {
                array,
                memory_bytes,
                given,
                taken,
            } => {
                let kind = match array.element {
                    ElementType::Filename => 6,
                    _ => 5,
                };
                let bytes = given.map_or(0, |span| span.bytes);
                let (given, taken) = (at(given), taken.unwrap_or(NONE));
                let dimensions = array.sections.len() as u64;
                words.extend([kind, given, taken, *memory_bytes, bytes, 8, dimensions]);
                for one in &array.sections {
                    words.extend([one.size, one.start, one.step, one.count]);
                }
            }
            Placed::Callback => words.extend([4, NONE, NONE, 0, 0, 0, 0]),
            Placed::Array {
                array,
                memory_bytes,
                given,
                taken,
            } => {
                let moved = array.moved_bytes().unwrap_or(0);
                let element = array.element.bytes().unwrap_or(0);
                let dimensions = array.sections.len() as u64;
                let (given, taken) = (at(given), at(taken));
                words.extend([2, given, taken, *memory_bytes, moved, element, dimensions]);
                for one in &array.sections {
                    words.extend([one.size, one.start, one.step, one.count]);
                }
            }
        }
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What the routine's program is told of a callback that was answered.
pub fn said(attempt: AttemptId, number: u64, data: &[u8]) -> Vec<u8> {
    let words = [
        SAID,
        attempt.call.client,
        attempt.call.sequence,
        u64::from(attempt.epoch),
        number,
        data.len() as u64,
    ];
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    words.chain(data.iter().copied()).collect()
}

/// Do these words begin as [`said`] does?
pub fn is_said(words: &[u8]) -> bool {
    words.starts_with(&SAID.to_le_bytes())
}

/// Is this one question to a caller's function, whole, and nothing else?
pub fn is_question(words: &[u8]) -> bool {
    let Some((head, data)) = words.split_at_checked(ASK_BYTES) else {
        return false;
    };
    let length = head.last_chunk().map(|length| u64::from_le_bytes(*length));
    let is_whole = length == Some(data.len() as u64) && data.len() as u64 <= CALLBACK_BYTES;
    is_whole && head.starts_with(&BACK.to_le_bytes())
}

/// The first bytes of the answer to this call.
pub fn answer_to(attempt: AttemptId) -> [u8; 32] {
    begin(DONE, attempt)
}

/// The first bytes of the error that this call may end by instead.
pub fn error_of(attempt: AttemptId) -> [u8; 32] {
    begin(FAIL, attempt)
}

fn begin(magic: u64, attempt: AttemptId) -> [u8; 32] {
    let mut bytes = [0; 32];
    let words = [
        magic,
        attempt.call.client,
        attempt.call.sequence,
        u64::from(attempt.epoch),
    ];
    let all = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
    bytes
}

/// What a routine's program wrote is not what it was to write: the routine spoils its own program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the routine's program answers what it was not asked")]
pub struct BadAnswer;

/// What it says; `whole`: bytes of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// It has computed. A result that is not beside it lies in a file.
    Answer {
        out_bytes: u64,
        small: &'a [u8],
        whole: usize,
    },
    /// It wants its caller's function to do its work.
    Asks {
        number: u64,
        formal: u64,
        data: &'a [u8],
        whole: usize,
    },
    /// It cannot compute what it was given, and says why: the name of its error, and what is told of it, maybe on several lines.
    Fails {
        error: &'a str,
        told: &'a str,
        whole: usize,
    },
}

/// What stands at the beginning of `bytes`; None: it is not complete.
///
/// # Errors
/// It is nothing that belongs to this call.
pub fn hear<'a>(
    bytes: &'a [u8],
    attempt: AttemptId,
    plan: &Plan,
) -> Result<Option<Said<'a>>, BadAnswer> {
    let asks = begin(BACK, attempt);
    let there = bytes.len().min(asks.len());
    if there > 0 && bytes.get(..there) == asks.get(..there) {
        return ask(bytes, plan);
    }
    let fails = begin(FAIL, attempt);
    if there > 0 && bytes.get(..there) == fails.get(..there) {
        return error(bytes);
    }
    answer(bytes, attempt, plan)
}

fn ask<'a>(bytes: &'a [u8], plan: &Plan) -> Result<Option<Said<'a>>, BadAnswer> {
    let Some(head) = bytes.get(..ASK_BYTES) else {
        return Ok(None);
    };
    let word = |at: usize| {
        let word = head.get(at..).and_then(|rest| rest.first_chunk::<8>());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let (number, formal, length) = (word(32), word(40), word(48));
    let place = usize::try_from(formal)
        .ok()
        .and_then(|at| plan.places.get(at));
    if place != Some(&Placed::Callback) || length > CALLBACK_BYTES || number == 0 {
        return Err(BadAnswer);
    }
    let whole = ASK_BYTES + usize::try_from(length).map_err(|_| BadAnswer)?;
    let data = bytes.get(ASK_BYTES..whole);
    Ok(data.map(|data| Said::Asks {
        number,
        formal,
        data,
        whole,
    }))
}

fn error(bytes: &[u8]) -> Result<Option<Said<'_>>, BadAnswer> {
    let Some(length) = bytes.get(32..).and_then(|rest| rest.first_chunk()) else {
        return Ok(None);
    };
    let length = u64::from_le_bytes(*length);
    if length > ERROR_BYTES {
        return Err(BadAnswer);
    }
    let whole = ANSWER_BYTES + usize::try_from(length).map_err(|_| BadAnswer)?;
    let Some(text) = bytes.get(ANSWER_BYTES..whole) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(text).map_err(|_| BadAnswer)?;
    let (error, told) = text.split_once('\n').unwrap_or((text, ""));
    match error.is_empty() {
        true => Err(BadAnswer),
        false => Ok(Some(Said::Fails { error, told, whole })),
    }
}

fn answer<'a>(
    bytes: &'a [u8],
    attempt: AttemptId,
    plan: &Plan,
) -> Result<Option<Said<'a>>, BadAnswer> {
    let begins = answer_to(attempt);
    let there = bytes.len().min(begins.len());
    if bytes.get(..there) != begins.get(..there) {
        return Err(BadAnswer);
    }
    let said = bytes
        .get(begins.len()..)
        .and_then(|rest| rest.first_chunk());
    let Some(out_bytes) = said.map(|said| u64::from_le_bytes(*said)) else {
        return Ok(None);
    };
    let fits = match plan.has_tail() {
        true => (plan.out_bytes..=Limits::WIDEST.call_bytes).contains(&out_bytes),
        false => out_bytes == plan.out_bytes,
    };
    if !fits {
        return Err(BadAnswer);
    }
    let small = match plan.has_tail() || out_bytes > SMALL_BYTES {
        true => 0,
        false => usize::try_from(out_bytes).map_err(|_| BadAnswer)?,
    };
    let whole = ANSWER_BYTES + small;
    let small = bytes.get(ANSWER_BYTES..whole);
    Ok(small.map(|small| Said::Answer {
        out_bytes,
        small,
        whole,
    }))
}
