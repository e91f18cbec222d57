//! Functions of Python's that a routine has do some of its work: called in the thread that waits for the call. Not here: numpy
//! (bindings/python, `_functions`).

use crate::bind::Values;
use crate::buffers::name;
use crate::pieces::{Memory, Piece};
use bytes::Bytes;
use kumiko_idl::{Formal, HEAD_BYTES, Placed, Signature, Span};
use kumiko_rpc_client::Question;
use pyo3::prelude::*;
use std::sync::Arc;

/// Those of one call, and what one of them raised.
pub struct Functions<'a, 'py> {
    signature: &'a Signature,
    values: &'a Values<'py>,
    pub raised: Option<PyErr>,
}

impl<'a, 'py> Functions<'a, 'py> {
    pub fn new(signature: &'a Signature, values: &'a Values<'py>) -> Functions<'a, 'py> {
        Functions {
            signature,
            values,
            raised: None,
        }
    }

    pub fn answer(&mut self, py: Python<'py>, question: Question) {
        let said = match self.call(py, &question) {
            Ok(Ok(data)) => Ok(data),
            Ok(Err(what)) => Err(what),
            Err(raised) => {
                let what = raised.to_string();
                self.raised = Some(raised);
                Err(what)
            }
        };
        // Nobody waits for it any more if the call was ended.
        let _ = question.reply.send(said);
    }

    fn call(&self, py: Python<'py>, question: &Question) -> PyResult<Result<Bytes, String>> {
        let (function, plan) = match question.plan(self.signature) {
            Ok(plan) => plan,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let Some(Some(callable)) = self.values.get(question.formal) else {
            return Ok(Err("it was not given".to_owned()));
        };
        let memory = Memory::new(question.data.to_vec());
        let (mut given, mut wanted) = (Vec::new(), Vec::new());
        let mut spans: Vec<Span> = Vec::new();
        let formals = function.formals.iter().enumerate();
        for ((number, formal), place) in formals.zip(&plan.places) {
            let Formal::Parameter(one) = formal else {
                continue;
            };
            let piece = |at: u64, sizes: &[u64]| {
                let at = usize::try_from(at).ok()?;
                Piece::new(Arc::clone(&memory), at, one.element, sizes)
            };
            match place {
                Placed::Scalar => {
                    let piece = piece((number * HEAD_BYTES) as u64, &[1]);
                    given.push(("one", piece.into_pyobject(py)?.into_any()));
                }
                Placed::Text { at } => {
                    let text = at.and_then(|span| question.text(span));
                    given.push(("text", text.into_pyobject(py)?.into_any()));
                }
                Placed::Array {
                    array,
                    given: from,
                    taken,
                    ..
                } => {
                    let sizes: Vec<u64> = array.sections.iter().map(|one| one.size).collect();
                    if let Some(from) = from {
                        let piece = piece(from.at, &sizes);
                        given.push(("array", piece.into_pyobject(py)?.into_any()));
                    }
                    if let Some(span) = taken {
                        wanted.push((one.name.clone(), name(one.element), sizes));
                        spans.push(*span);
                    }
                }
                _ => {}
            }
        }
        let call = py.import("kumiko._functions")?.getattr("call")?;
        let back: Vec<Vec<u8>> = call.call1((callable, given, wanted))?.extract()?;
        let mut result = vec![0; usize::try_from(plan.out_bytes).unwrap_or(0)];
        for (span, bytes) in spans.iter().zip(back) {
            let at = usize::try_from(span.at).unwrap_or(usize::MAX);
            let to = result.get_mut(at..at.saturating_add(bytes.len()));
            match to.filter(|_| bytes.len() as u64 == span.bytes) {
                Some(to) => to.copy_from_slice(&bytes),
                None => return Ok(Err("what comes back has another length".to_owned())),
            }
        }
        Ok(Ok(Bytes::from(result)))
    }
}
