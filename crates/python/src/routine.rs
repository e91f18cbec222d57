//! A routine as Python calls it. Not here: its documentation as text (bindings/python).

use crate::arguments::{Taken, take};
use crate::bind::{bind, is_given, parameter};
use crate::buffers;
use crate::call::{Call, Completions, Form, Outputs, finish, is_one};
use crate::errors;
use crate::functions::Functions;
use crate::progress::Progress;
use crate::runtime::{carrier, wait, wait_asked};
use crate::site::Shared;
use kumiko_call::id::CallId;
use kumiko_idl::Signature;
use kumiko_rpc_client::{Note, RpcError, Stages, Told, told};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::unbounded_channel;

#[pyclass(frozen)]
#[derive(Debug)]
pub struct Routine {
    shared: Arc<Shared>,
    signature: Arc<Signature>,
    told: Vec<Told>,
}

/// Of one parameter: name, IN, OUT, element type, dimensions, whether an array tells it, whether one number comes back.
type Described = (String, bool, bool, &'static str, Vec<String>, bool, bool);

impl Routine {
    pub fn new(shared: Arc<Shared>, signature: Signature) -> Routine {
        Routine {
            shared,
            told: told(&signature),
            signature: Arc::new(signature),
        }
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.signature.module, self.signature.name)
    }

    /// A number, and the note by which the result can be taken after this process has died.
    fn number(&self, py: Python<'_>, taken: &Taken) -> PyResult<CallId> {
        let shared = &self.shared;
        let id = wait(py, shared.calls.number())?.map_err(|error| errors::rpc(py, &error))?;
        if let Some(notes) = &shared.notes {
            let note = Note::new(shared.address.clone(), &self.signature, &taken.heads);
            let note = note.with_files(taken.arguments.targets());
            py.detach(|| notes.write(&note, id))
                .map_err(|error| errors::note(py, &error))?;
        }
        Ok(id)
    }

    fn form(&self, taken: &mut Taken) -> Form {
        Form {
            signature: Arc::clone(&self.signature),
            plan: taken.arguments.plan.clone(),
            wholes: std::mem::take(&mut taken.wholes),
        }
    }
}

/// What marks how far the call is, for whoever may look.
fn seen(progress: Option<&Progress>) -> Arc<Stages> {
    progress.map_or_else(Arc::default, |progress| Arc::clone(&progress.stages))
}

#[pymethods]
impl Routine {
    #[getter]
    fn name(&self) -> String {
        self.full_name()
    }

    /// In IDL.
    #[getter]
    fn signature(&self) -> String {
        self.signature.to_text()
    }

    #[getter]
    fn documentation(&self) -> Option<String> {
        self.signature.doc.clone()
    }

    #[getter]
    fn parameters(&self) -> Vec<Described> {
        let formals = self.signature.formals.iter().enumerate();
        formals
            .map(|(index, formal)| {
                let Some(one) = parameter(formal) else {
                    let name = formal.name().to_owned();
                    return (name, true, false, "function", Vec::new(), false, false);
                };
                let sizes = one.dims.iter().map(|dim| dim.size.to_string());
                (
                    one.name.clone(),
                    is_given(formal),
                    one.mode.is_out(),
                    buffers::name(one.element),
                    sizes.collect(),
                    self.told.iter().any(|told| told.scalar == index),
                    is_one(one),
                )
            })
            .collect()
    }

    /// It has functions of its caller's do some of its work: `begin` does not call them.
    #[getter]
    fn has_functions(&self) -> bool {
        self.signature.has_callbacks()
    }

    /// Waits for the result. Arrays are sent from where they lie, unless they are to be copied. Functions are called in this thread.
    #[pyo3(signature = (given, named=None, copy=false, progress=None))]
    fn call(
        &self,
        py: Python<'_>,
        given: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
        copy: bool,
        progress: Option<&Progress>,
    ) -> PyResult<Outputs> {
        self.shared.process.check()?;
        let values = bind(&self.signature, &self.told, given, named)?;
        let mut taken = take(py, &self.signature, &self.told, &values, copy)?;
        let id = self.number(py, &taken)?;
        let form = self.form(&mut taken);
        let name = self.full_name();
        let calls = &self.shared.calls;
        // Known here, so that this is a word to its own conversation and waits for nothing.
        let carrier = carrier()?;
        let stop = || drop(carrier.block_on(calls.cancel(id)));
        let (to, mut questions) = unbounded_channel();
        let arguments = match self.signature.has_callbacks() {
            true => taken.arguments.with_functions(to),
            false => taken.arguments,
        };
        let mut functions = Functions::new(&self.signature, &values);
        let stages = seen(progress);
        let call = calls.call_seen(id, &name, &arguments, &stages);
        let came = wait_asked(py, call, stop, &mut questions, |py, question| {
            let begun = Instant::now();
            functions.answer(py, question);
            stages.answered(begun.elapsed());
        });
        drop(arguments);
        buffers::give_back(py);
        if let (Ok(Err(RpcError::Function { .. })), Some(raised)) = (&came, functions.raised) {
            self.shared.forget(id);
            return Err(raised);
        }
        match came {
            Ok(came) => finish(py, &self.shared, id, &form, came),
            Err((raised, ended)) => {
                // Nobody is there for it, whatever it is.
                match ended {
                    Some(came) => drop(finish(py, &self.shared, id, &form, came)),
                    None => self.shared.abandon(id)?,
                }
                Err(raised)
            }
        }
    }

    /// Begins a call. What is given may change afterwards.
    #[pyo3(signature = (given, named, completions, key, progress=None))]
    fn begin(
        &self,
        py: Python<'_>,
        given: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
        completions: &Completions,
        key: u64,
        progress: Option<&Progress>,
    ) -> PyResult<Call> {
        self.shared.process.check()?;
        let values = bind(&self.signature, &self.told, given, named)?;
        let mut taken = take(py, &self.signature, &self.told, &values, true)?;
        let id = self.number(py, &taken)?;
        let form = self.form(&mut taken);
        let (calls, name) = (self.shared.calls.clone(), self.full_name());
        let stages = seen(progress);
        let came = async move {
            let arguments = &taken.arguments;
            calls.call_seen(id, &name, arguments, &stages).await
        };
        let shared = Arc::clone(&self.shared);
        Call::begin(py, (shared, id, form), came, (completions, key))
    }
}
