//! The arguments of one call, and its result, as bytes that travel (spec/idl I40 to I44). Pure. Not here: the conversation.

use crate::RpcError;
use bytes::{Bytes, BytesMut};
use kumiko_idl::{
    Array, Formal, HEAD_BYTES, Head, Limits, Placed, Plan, Signature, Value, number_head, text_head,
};

/// One argument, in the order of the formals.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A scalar that is a number of one part.
    Number(Value),
    /// A scalar as its head.
    Head(Head),
    /// A text without its zero; None: NULL.
    Text(Option<Bytes>),
    /// The elements that travel, side by side (see [`pack`]); as C has them in memory.
    Array(Bytes),
    /// OUT and WORK: there is nothing to send.
    Nothing,
}

/// All arguments, ready to be sent in blocks.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub plan: Plan,
    /// Where they begin, in order, without overlaps; between them is nothing but zeros.
    pieces: Vec<(u64, Bytes)>,
}

impl Arguments {
    /// # Errors
    /// Which argument is not as the signature says.
    pub fn new(signature: &Signature, arguments: &[Argument]) -> Result<Arguments, RpcError> {
        let heads = heads(signature, arguments)?;
        let plan = signature.plan(&heads, Limits::WIDEST)?;
        let mut pieces = vec![(0, Bytes::from(heads.concat()))];
        for ((place, argument), formal) in plan.places.iter().zip(arguments).zip(&signature.formals)
        {
            match (place, argument) {
                (Placed::Text { at: Some(span) }, Argument::Text(Some(text))) => {
                    pieces.push((span.at, text.clone()));
                }
                (Placed::Array { given: None, .. }, _) => {}
                (
                    Placed::Array {
                        given: Some(span), ..
                    },
                    Argument::Array(bytes),
                ) => {
                    if bytes.len() as u64 != span.bytes {
                        let what = format!(
                            "{} bytes of elements are given, and by its sizes it has {}",
                            bytes.len(),
                            span.bytes
                        );
                        return Err(wrong(signature, formal, what));
                    }
                    pieces.push((span.at, bytes.clone()));
                }
                (
                    Placed::Array {
                        given: Some(span), ..
                    },
                    _,
                ) if span.bytes > 0 => {
                    return Err(wrong(signature, formal, "it takes an array".to_owned()));
                }
                _ => {}
            }
        }
        Ok(Arguments { plan, pieces })
    }

    /// One block of all that travels.
    pub(crate) fn block(&self, number: u64, block_bytes: u64) -> Bytes {
        let from = number.saturating_mul(block_bytes);
        let to = from.saturating_add(block_bytes).min(self.plan.in_bytes);
        let after = self
            .pieces
            .partition_point(|(at, bytes)| at + bytes.len() as u64 <= from);
        let pieces = self.pieces.get(after..).unwrap_or_default();
        if let Some((at, bytes)) = pieces.first() {
            // Most blocks lie in one piece, and need no copy.
            if *at <= from && to <= at + bytes.len() as u64 {
                return bytes.slice(index(from - at)..index(to - at));
            }
        }
        let mut block = BytesMut::zeroed(index(to.saturating_sub(from)));
        for (at, bytes) in pieces.iter().take_while(|(at, _)| *at < to) {
            let begin = from.max(*at);
            let end = to.min(at + bytes.len() as u64);
            let source = bytes.get(index(begin - at)..index(end - at));
            let target = block.get_mut(index(begin - from)..index(end - from));
            if let (Some(target), Some(source)) = (target, source) {
                target.copy_from_slice(source);
            }
        }
        block.freeze()
    }
}

/// All offsets are below what is in memory, or below a block.
fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Where everything stands by the scalars alone; arrays need not be there.
///
/// # Errors
/// Which argument is not as the signature says.
pub fn plan(signature: &Signature, arguments: &[Argument]) -> Result<Plan, RpcError> {
    Ok(signature.plan(&heads(signature, arguments)?, Limits::WIDEST)?)
}

/// The heads of all arguments, by which a result is understood later.
///
/// # Errors
/// Which argument is not as the signature says.
pub fn heads(signature: &Signature, arguments: &[Argument]) -> Result<Vec<Head>, RpcError> {
    signature.callable()?;
    if arguments.len() != signature.formals.len() {
        return Err(kumiko_idl::PlanError::Heads {
            routine: signature.name.clone(),
            takes: signature.formals.len(),
            given: arguments.len(),
        }
        .into());
    }
    let mut heads = Vec::new();
    for (formal, argument) in signature.formals.iter().zip(arguments) {
        let Formal::Parameter(parameter) = formal else {
            continue; // refused by `callable`
        };
        let is_text = parameter.element == kumiko_idl::ElementType::String;
        heads.push(match argument {
            Argument::Head(head) if parameter.is_scalar() && !is_text => *head,
            Argument::Number(value) if parameter.is_scalar() && !is_text => {
                number_head(parameter.element, *value).ok_or_else(|| {
                    let what = format!("{value:?} does not fit into its type");
                    wrong(signature, formal, what)
                })?
            }
            Argument::Text(text) if parameter.is_scalar() && is_text => {
                if text.as_ref().is_some_and(|text| text.contains(&0)) {
                    let what = "a text has no zero byte".to_owned();
                    return Err(wrong(signature, formal, what));
                }
                text_head(text.as_ref().map(|text| text.len() as u64))
            }
            _ if parameter.is_scalar() => {
                let what = match is_text {
                    true => "it takes a text",
                    false => "it takes a number",
                };
                return Err(wrong(signature, formal, what.to_owned()));
            }
            _ => [0; HEAD_BYTES],
        });
    }
    Ok(heads)
}

fn wrong(signature: &Signature, formal: &Formal, what: String) -> RpcError {
    RpcError::Argument {
        routine: signature.name.clone(),
        parameter: formal.name().to_owned(),
        what,
    }
}

/// The elements that travel out of a whole array; None: the array is shorter than its sizes say.
pub fn pack(array: &Array, whole: &[u8]) -> Option<Bytes> {
    let moved = array.moved_bytes()?;
    if array.memory_bytes()? > whole.len() as u64 {
        return None;
    }
    let mut packed = BytesMut::with_capacity(index(moved));
    for run in array.runs()? {
        let from = index(run.offset_bytes);
        packed.extend_from_slice(whole.get(from..from + index(run.bytes))?);
    }
    Some(packed.freeze())
}

/// Puts them where they belong, and touches nothing between them; None: lengths do not fit, and nothing was changed.
pub fn unpack(array: &Array, packed: &[u8], whole: &mut [u8]) -> Option<()> {
    if array.memory_bytes()? > whole.len() as u64 || array.moved_bytes()? != packed.len() as u64 {
        return None;
    }
    let mut rest = packed;
    for run in array.runs()? {
        let (piece, after) = rest.split_at_checked(index(run.bytes))?;
        let from = index(run.offset_bytes);
        whole
            .get_mut(from..from + piece.len())?
            .copy_from_slice(piece);
        rest = after;
    }
    Some(())
}
