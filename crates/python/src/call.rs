//! One call from its number to what comes back. Not here: what goes in (`arguments`), futures (bindings/python).

use crate::bind::parameter;
use crate::errors;
use crate::pieces::{Memory, Piece};
use crate::place::Place;
use bytes::Bytes;
use kumiko_find::CallError;
use kumiko_idl::{Array, Expr, Mode, Parameter, Placed, Plan, Signature};
use kumiko_rpc_client::unpack;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What comes back: of each array its name, whether it is one number, and the array.
pub type Outputs = Vec<(String, bool, Piece)>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a result is understood.
#[derive(Debug)]
pub struct Form {
    pub signature: Arc<Signature>,
    pub plan: Plan,
    /// Of INOUT arrays of which only a part travels, what they were.
    pub wholes: Vec<Option<Bytes>>,
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

fn outputs(form: &Form, result: Bytes) -> Option<Outputs> {
    // Its only owner, so this copies nothing.
    let result = Vec::from(result);
    let mut parts = Vec::new();
    let formals = form.signature.formals.iter().map(parameter);
    for (index, (one, place)) in formals.zip(&form.plan.places).enumerate() {
        let (
            Some(one),
            Placed::Array {
                array,
                taken: Some(span),
                ..
            },
        ) = (one, place)
        else {
            continue;
        };
        let at = usize::try_from(span.at).ok()?;
        let whole = match array.moved == array.elements {
            true => None,
            false => {
                let end = at.checked_add(usize::try_from(span.bytes).ok()?)?;
                let before = form.wholes.get(index).and_then(Option::as_ref);
                Some(around(array, result.get(at..end)?, before)?)
            }
        };
        parts.push((one, array, at, whole));
    }
    let result = Memory::new(result);
    parts
        .into_iter()
        .map(|(one, array, at, whole)| {
            let sizes: Vec<u64> = array.sections.iter().map(|section| section.size).collect();
            let (memory, at) = match whole {
                Some(whole) => (Memory::new(whole), 0),
                None => (Arc::clone(&result), at),
            };
            let piece = Piece::new(memory, at, array.element, &sizes)?;
            Some((one.name.clone(), is_one(one), piece))
        })
        .collect()
}

/// A whole array around the elements that travelled: what it was before, or zeros.
fn around(array: &Array, moved: &[u8], before: Option<&Bytes>) -> Option<Vec<u8>> {
    let length = usize::try_from(array.memory_bytes()?).ok()?;
    let mut whole = match before {
        Some(bytes) => bytes.to_vec(),
        None => vec![0; length],
    };
    unpack(array, moved, &mut whole)?;
    Some(whole)
}

/// `OUT double *x`: IDL's way to give one number back.
pub fn is_one(parameter: &Parameter) -> bool {
    let one = |size: &Expr| matches!(size, Expr::Integer(1));
    parameter.mode == Mode::Out && matches!(parameter.dims.as_slice(), [dim] if one(&dim.size))
}
