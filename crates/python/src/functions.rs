//! Functions of Python's that a routine has do some of its work: called in the thread that waits for the call. Not here: numpy
//! (bindings/python, `_functions`).

use crate::bind::Values;
use crate::buffers::name;
use crate::nested::lists;
use crate::pieces::{Memory, Piece};
use bytes::Bytes;
use kumiko_idl::{
    Array, ElementType, Formal, HEAD_BYTES, Mode, Placed, Signature, Span, pack_texts,
};
use kumiko_rpc_client::{Answer, Question, Scratch, pack, pick, place_back, unpack};
use pyo3::prelude::*;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
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
        let scratch = match Scratch::of(&plan) {
            Ok(scratch) => scratch,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let memory = Memory::new(question.data.to_vec());
        let (mut given, mut wanted) = (Vec::new(), Vec::new());
        let mut back = Vec::new();
        let formals = function.formals.iter().enumerate();
        for ((number, formal), place) in formals.zip(&plan.places) {
            let Formal::Parameter(one) = formal else {
                continue;
            };
            let piece = |memory: &Arc<Memory>, at: u64, sizes: &[u64]| {
                let at = usize::try_from(at).ok()?;
                Piece::new(Arc::clone(memory), at, one.element, sizes)
            };
            let sizes =
                |array: &Array| -> Vec<u64> { array.sections.iter().map(|one| one.size).collect() };
            match place {
                Placed::Scalar => {
                    let piece = piece(&memory, (number * HEAD_BYTES) as u64, &[1]);
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
                    let sizes = sizes(array);
                    if let Some(from) = from {
                        let piece = match array.moved == array.elements {
                            true => piece(&memory, from.at, &sizes),
                            false => {
                                let whole = whole(array, question.part(*from).unwrap_or_default());
                                piece(&Memory::new(whole), 0, &sizes)
                            }
                        };
                        given.push(("array", piece.into_pyobject(py)?.into_any()));
                    }
                    if let Some(span) = taken {
                        wanted.push((one.name.clone(), name(one.element), sizes));
                        back.push(Back::Array(array, *span));
                    }
                }
                Placed::File { .. } | Placed::Many { .. }
                    if one.element == ElementType::Filename =>
                {
                    let names = match &scratch {
                        Some(scratch) => scratch.give(question, number, place),
                        None => Ok(Vec::new()),
                    };
                    let names = match names {
                        Ok(names) => names,
                        Err(error) => return Ok(Err(error.to_string())),
                    };
                    let texts = names.iter();
                    let texts = texts.map(|name| Some(name.as_os_str().as_bytes().to_vec()));
                    let (texts, sizes) = match place {
                        Placed::Many { array, .. } => {
                            (whole_of(array, texts.collect()), sizes(array))
                        }
                        _ => (texts.collect(), Vec::new()),
                    };
                    if one.mode == Mode::Work {
                        continue;
                    }
                    given.push(("paths", lists(py, &texts, &sizes)?));
                    if let Placed::File {
                        taken: Some(head), ..
                    }
                    | Placed::Many {
                        taken: Some(head), ..
                    } = place
                    {
                        back.push(Back::Files(place, names, *head));
                    }
                }
                Placed::Many {
                    array,
                    given: from,
                    taken,
                    ..
                } => {
                    if let Some(from) = from {
                        let packed = question.part(*from).unwrap_or_default();
                        let texts = place.texts(packed).unwrap_or_default();
                        let texts = texts.into_iter().map(|text| text.map(<[u8]>::to_vec));
                        let all = whole_of(array, texts.collect());
                        given.push(("texts", lists(py, &all, &sizes(array))?));
                    }
                    if let Some(head) = taken {
                        wanted.push((one.name.clone(), "str", sizes(array)));
                        back.push(Back::Texts(array, *head));
                    }
                }
                Placed::File { .. } | Placed::Callback => {}
            }
        }
        let call = py.import("kumiko._functions")?.getattr("call")?;
        let returned: Vec<Bound<'py, PyAny>> = call.call1((callable, given, wanted))?.extract()?;
        let mut returned = returned.into_iter();
        let mut answer = Answer::new(&plan);
        for one in back {
            let put = match one {
                Back::Array(array, span) => {
                    let all: Vec<u8> = returned
                        .next()
                        .map_or(Ok(Vec::new()), |one| one.extract())?;
                    pack(array, &all).and_then(|moved| answer.array(span, &moved))
                }
                Back::Texts(array, head) => {
                    let all: Vec<Option<Vec<u8>>> = returned
                        .next()
                        .map_or(Ok(Vec::new()), |one| one.extract())?;
                    let moved = pick(array, &all).and_then(|moved| pack_texts(&moved));
                    moved.and_then(|packed| answer.add(head, &packed))
                }
                Back::Files(place, names, head) => match Scratch::take(place, &names) {
                    Ok(packed) => answer.add(head, &packed),
                    Err(error) => return Ok(Err(error.to_string())),
                },
            };
            if put.is_none() {
                return Ok(Err(
                    "what comes back has another length, or a text has a zero byte".to_owned(),
                ));
            }
        }
        Ok(answer.done())
    }
}

/// What comes back of one formal.
enum Back<'a> {
    Array(&'a Array, Span),
    Texts(&'a Array, u64),
    Files(&'a Placed, Vec<PathBuf>, u64),
}

/// An array with what travelled of it, among zeros.
fn whole(array: &Array, moved: &[u8]) -> Vec<u8> {
    let bytes = usize::try_from(array.memory_bytes().unwrap_or(0));
    let mut whole = vec![0; bytes.unwrap_or(0)];
    // What does not travel stays as it is; lengths were looked at (`Question::plan`).
    unpack(array, moved, &mut whole);
    whole
}

/// An array of texts or of files with those that travelled.
fn whole_of(array: &Array, moved: Vec<Option<Vec<u8>>>) -> Vec<Option<Vec<u8>>> {
    let mut all = vec![None; usize::try_from(array.elements).unwrap_or(0)];
    place_back(array, moved, &mut all);
    all
}
