//! One call from its number to what comes back. Not here: what goes in (`arguments`), futures (bindings/python).

use crate::arguments::Whole;
use crate::bind::parameter;
use crate::errors;
use crate::nested::lists;
use crate::pieces::{Memory, Piece};
use crate::place::Place;
use bytes::Bytes;
use kumiko_find::CallError;
use kumiko_idl::{Array, Expr, Mode, Parameter, Placed, Plan, Signature};
use kumiko_rpc_client::{place_back, texts, unpack};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What comes back: of each array its name, whether it is one element, and the array: a piece of memory, or lists of texts as bytes.
pub type Outputs = Vec<(String, bool, Py<PyAny>)>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a result is understood.
#[derive(Debug)]
pub struct Form {
    pub signature: Arc<Signature>,
    pub plan: Plan,
    /// Of INOUT arrays of which only a part travels, what they were.
    pub wholes: Vec<Whole>,
}

#[derive(Debug)]
pub struct State {
    pub place: Arc<Place>,
    pub form: Form,
    came: Mutex<Option<Result<Bytes, CallError>>>,
}

/// A call that is waited for by somebody else.
#[pyclass(frozen)]
#[derive(Debug)]
pub struct Call {
    state: Arc<State>,
}

impl Call {
    /// `came` is computed by the runtime, and told to `completions` by its key.
    pub fn begin(
        py: Python<'_>,
        (place, form): (Arc<Place>, Form),
        came: impl Future<Output = Result<Bytes, CallError>> + Send + 'static,
        (completions, key): (&Completions, u64),
    ) -> PyResult<Call> {
        let state = Arc::new(State {
            place,
            form,
            came: Mutex::new(None),
        });
        let (ending, tell) = (Arc::clone(&state), completions.tell.clone());
        let carrier = crate::runtime::carrier()?;
        py.detach(|| {
            carrier.handle().spawn(async move {
                let came = came.await;
                *lock(&ending.came) = Some(came);
                // Nobody listens any more when the interpreter ends.
                let _ = tell.send((key, ending));
            });
            carrier.go_on();
        });
        Ok(Call { state })
    }
}

#[pymethods]
impl Call {
    /// As `kumiko rpc attach` takes it.
    #[getter]
    fn id(&self) -> String {
        let (_, id) = self.state.place.now();
        id.to_string()
    }

    /// What came back; once, and only after the completions have told of it.
    fn result(&self, py: Python<'_>) -> PyResult<Outputs> {
        let state = &self.state;
        let came = lock(&state.came).take();
        let came = came.ok_or_else(|| PyRuntimeError::new_err("it has not come, or was taken"))?;
        finish(py, &state.place, &state.form, came)
    }

    /// Asks the site to end it; does not wait for that.
    fn cancel(&self) -> PyResult<()> {
        let state = Arc::clone(&self.state);
        let carrier = crate::runtime::carrier()?;
        let cancel = async move { state.place.cancel().await };
        carrier.handle().spawn(cancel);
        carrier.go_on();
        Ok(())
    }
}

/// Calls that are over, by the key that each was begun with.
#[pyclass(frozen)]
#[derive(Debug)]
pub struct Completions {
    tell: Sender<(u64, Arc<State>)>,
    told: Mutex<Receiver<(u64, Arc<State>)>>,
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> Completions {
        let (tell, told) = channel();
        let told = Mutex::new(told);
        Completions { tell, told }
    }

    /// Waits for at least one. For one thread alone, that of bindings/python.
    fn next(&self, py: Python<'_>) -> Vec<(u64, Call)> {
        let wait = || {
            let told = lock(&self.told);
            // The other end lies beside this one: there is always a sender.
            let mut over: Vec<_> = told.recv().into_iter().collect();
            over.extend(told.try_iter());
            over
        };
        let over = py.detach(wait);
        over.into_iter()
            .map(|(key, state)| (key, Call { state }))
            .collect()
    }
}

/// Makes a result Python's, and only then says so to the site.
pub fn finish(
    py: Python<'_>,
    place: &Place,
    form: &Form,
    came: Result<Bytes, CallError>,
) -> PyResult<Outputs> {
    match came {
        Ok(result) => {
            let outputs = outputs(form, result);
            let outputs =
                outputs.ok_or_else(|| PyMemoryError::new_err("the result has no place"))?;
            let outputs = outputs.into_iter().map(|(name, is_one, output)| {
                let value = match output {
                    Output::Array(piece) => piece.into_pyobject(py)?.into_any(),
                    Output::Texts(all, shape) => lists(py, &all, &shape)?,
                };
                Ok((name, is_one, value.unbind()))
            });
            let outputs: Outputs = outputs.collect::<PyResult<_>>()?;
            place.acknowledge()?;
            Ok(outputs)
        }
        Err(error) => {
            if error.is_final() {
                place.forget();
            }
            Err(errors::call(py, &error))
        }
    }
}

enum Output {
    Array(Piece),
    /// All of an array, and its shape.
    Texts(Vec<Option<Bytes>>, Vec<u64>),
}

fn outputs(form: &Form, result: Bytes) -> Option<Vec<(String, bool, Output)>> {
    let all = texts(&form.plan, &result)?;
    let copies = |texts: &[Option<&[u8]>]| -> Vec<Option<Bytes>> {
        let copy = |text: &Option<&[u8]>| text.map(Bytes::copy_from_slice);
        texts.iter().map(copy).collect()
    };
    let mut came: BTreeMap<usize, Vec<Option<Bytes>>> = all
        .iter()
        .map(|(number, texts)| (*number, copies(texts)))
        .collect();
    drop(all);
    // Its only owner, so this copies nothing.
    let result = Vec::from(result);
    let mut around_it = BTreeMap::new();
    for (index, place) in form.plan.places.iter().enumerate() {
        if let Placed::Array {
            array,
            taken: Some(span),
            ..
        } = place
        {
            let at = usize::try_from(span.at).ok()?;
            let end = at.checked_add(usize::try_from(span.bytes).ok()?)?;
            if array.moved != array.elements {
                let whole = around(array, result.get(at..end)?, form.wholes.get(index))?;
                around_it.insert(index, Memory::new(whole));
            }
        }
    }
    let result = Memory::new(result);
    let mut outputs = Vec::new();
    let formals = form.signature.formals.iter().map(parameter);
    for (index, (one, place)) in formals.zip(&form.plan.places).enumerate() {
        let Some(one) = one else { continue };
        let sizes = |array: &Array| -> Vec<u64> {
            array.sections.iter().map(|section| section.size).collect()
        };
        let output = match place {
            Placed::Array {
                array,
                taken: Some(span),
                ..
            } => {
                let (memory, at) = match around_it.remove(&index) {
                    Some(whole) => (whole, 0),
                    None => (Arc::clone(&result), usize::try_from(span.at).ok()?),
                };
                Output::Array(Piece::new(memory, at, array.element, &sizes(array))?)
            }
            Placed::Many { array, .. } => {
                let Some(moved) = came.remove(&index) else {
                    continue;
                };
                let mut all = match form.wholes.get(index) {
                    Some(Whole::Texts(before)) => before.clone(),
                    _ => vec![None; usize::try_from(array.elements).ok()?],
                };
                place_back(array, moved, &mut all)?;
                Output::Texts(all, sizes(array))
            }
            _ => continue,
        };
        outputs.push((one.name.clone(), is_one(one), output));
    }
    Some(outputs)
}

/// A whole array around the elements that travelled: what it was before, or zeros.
fn around(array: &Array, moved: &[u8], before: Option<&Whole>) -> Option<Vec<u8>> {
    let length = usize::try_from(array.memory_bytes()?).ok()?;
    let mut whole = match before {
        Some(Whole::Array(bytes)) => bytes.to_vec(),
        _ => vec![0; length],
    };
    unpack(array, moved, &mut whole)?;
    Some(whole)
}

/// `OUT double *x`: IDL's way to give one element back.
pub fn is_one(parameter: &Parameter) -> bool {
    let one = |size: &Expr| matches!(size, Expr::Integer(1));
    parameter.mode == Mode::Out && matches!(parameter.dims.as_slice(), [dim] if one(&dim.size))
}
