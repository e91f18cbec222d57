//! What a routine's program is told, and what it answers (spec/rpc P60 to P63). What it answers was written by a guest. Not here:
//! pipes and files.

use kumiko_call::id::AttemptId;
use kumiko_idl::{Placed, Plan, Span};

/// Arguments, or a result, of at most so many bytes stand beside the words: less than two files cost.
pub const SMALL_BYTES: u64 = 32 << 10;
/// Bytes of an answer, without a small result.
pub const ANSWER_BYTES: usize = 40;

const CALL: u64 = u64::from_le_bytes(*b"kkmcall1");
const DONE: u64 = u64::from_le_bytes(*b"kkmdone1");
const ARGUMENTS_SMALL: u64 = 1;
const RESULT_SMALL: u64 = 2;
/// It does not travel so.
const NONE: u64 = u64::MAX;

/// The words of a call, without small arguments.
pub fn call(attempt: AttemptId, plan: &Plan) -> Vec<u8> {
    let small = |bytes, flag| if bytes <= SMALL_BYTES { flag } else { 0 };
    let flags = small(plan.in_bytes, ARGUMENTS_SMALL) | small(plan.out_bytes, RESULT_SMALL);
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

/// The first bytes of the answer to this call.
pub fn answer_to(attempt: AttemptId) -> [u8; 32] {
    let mut bytes = [0; 32];
    let words = [
        DONE,
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

/// Bytes of the result beside the answer that stands at the beginning of `bytes`; None: it is not complete.
///
/// # Errors
/// It is no answer to this call.
pub fn answer(
    bytes: &[u8],
    attempt: AttemptId,
    out_bytes: u64,
) -> Result<Option<&[u8]>, BadAnswer> {
    let begins = answer_to(attempt);
    let there = bytes.len().min(begins.len());
    if bytes.get(..there) != begins.get(..there) {
        return Err(BadAnswer);
    }
    let Some(said) = bytes.get(begins.len()..ANSWER_BYTES) else {
        return Ok(None);
    };
    if said != out_bytes.to_le_bytes() {
        return Err(BadAnswer);
    }
    let small = if out_bytes <= SMALL_BYTES {
        out_bytes
    } else {
        0
    };
    let small = usize::try_from(small).map_err(|_| BadAnswer)?;
    Ok(bytes.get(ANSWER_BYTES..ANSWER_BYTES + small))
}
