//! A routine as Python calls it. Not here: its documentation as text (bindings/python).

use crate::arguments::{Taken, take};
use crate::bind::{bind, parameter};
use crate::buffers;
use crate::call::{Call, Completions, Form, Outputs, finish, is_one};
use crate::errors;
use crate::runtime::{runtime, wait, wait_or};
use crate::site::Shared;
use kumiko_call::id::CallId;
use kumiko_idl::Signature;
use kumiko_rpc_client::{Note, Told, told};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

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
            .filter_map(|(index, formal)| {
                let one = parameter(formal)?;
                let sizes = one.dims.iter().map(|dim| dim.size.to_string());
                Some((
                    one.name.clone(),
                    one.mode.is_in(),
                    one.mode.is_out(),
                    buffers::name(one.element),
                    sizes.collect(),
                    self.told.iter().any(|told| told.scalar == index),
                    is_one(one),
                ))
            })
            .collect()
    }

    /// Waits for the result. Arrays are sent from where they lie.
    #[pyo3(signature = (given, named=None))]
    fn call(
        &self,
        py: Python<'_>,
        given: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Outputs> {
        self.shared.process.check()?;
        let values = bind(&self.signature, &self.told, given, named)?;
        let mut taken = take(py, &self.signature, &self.told, &values, false)?;
        let id = self.number(py, &taken)?;
        let form = self.form(&mut taken);
        let name = self.full_name();
        let calls = &self.shared.calls;
        // Known here, so that this is a word to its own conversation and waits for nothing.
        let runtime = runtime()?;
        let stop = || drop(runtime.block_on(calls.cancel(id)));
        let came = wait_or(py, calls.call(id, &name, &taken.arguments), stop);
        drop(taken);
        buffers::give_back(py);
        match came {
            Ok(came) => finish(py, &self.shared, id, &form, came),
            Err((raised, ended)) => {
                if let Some(came) = ended {
                    // Nobody is there for it, whatever it is.
                    let _ = finish(py, &self.shared, id, &form, came);
                }
                Err(raised)
            }
        }
    }

    /// Begins a call. What is given may change afterwards.
    #[pyo3(signature = (given, named, completions, key))]
    fn begin(
        &self,
        py: Python<'_>,
        given: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
        completions: &Completions,
        key: u64,
    ) -> PyResult<Call> {
        self.shared.process.check()?;
        let values = bind(&self.signature, &self.told, given, named)?;
        let mut taken = take(py, &self.signature, &self.told, &values, true)?;
        let id = self.number(py, &taken)?;
        let form = self.form(&mut taken);
        let (calls, name) = (self.shared.calls.clone(), self.full_name());
        let came = async move { calls.call(id, &name, &taken.arguments).await };
        let shared = Arc::clone(&self.shared);
        Call::begin(py, (shared, id, form), came, (completions, key))
    }
}
