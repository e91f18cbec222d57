//! A routine as Python calls it. Not here: its documentation as text (bindings/python).

use crate::arguments::{Taken, take};
use crate::bind::{bind, is_given, parameter};
use crate::buffers;
use crate::call::{Call, Completions, Form, Outputs, finish, is_one};
use crate::errors;
use crate::functions::Functions;
use crate::links::Best;
use crate::place::Place;
use crate::progress::Progress;
use crate::runtime::{carrier, wait, wait_asked};
use crate::site::Shared;
use bytes::Bytes;
use kumiko_find::{CallError, Turn};
use kumiko_idl::Signature;
use kumiko_rpc_client::{Arguments, Note, RpcError, Stages, Told, told};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::unbounded_channel;

#[pyclass(frozen)]
#[derive(Debug)]
pub struct Routine {
    at: At,
    signature: Arc<Signature>,
    told: Vec<Told>,
}

/// Of one parameter: name, IN, OUT, element type, dimensions, whether an array tells it, whether one number comes back.
type Described = (String, bool, bool, &'static str, Vec<String>, bool, bool);

/// Where its calls are.
#[derive(Clone, Debug)]
enum At {
    One(Arc<Shared>),
    Best(Best),
}

/// A call that has a place and is not begun.
struct Ready {
    place: Arc<Place>,
    note: Note,
    turn: Option<(Best, Box<Turn>)>,
}

impl Ready {
    async fn call(
        self,
        name: &str,
        arguments: &Arguments,
        stages: &Stages,
    ) -> Result<Bytes, CallError> {
        let Some((best, mut turn)) = self.turn else {
            let (shared, id) = self.place.now();
            let came = shared.calls.call_seen(id, name, arguments, stages).await;
            return Ok(came?);
        };
        let moves = |turn: &Turn| {
            let (shared, id) = (best.shared(turn), turn.id());
            let note = self.note.at(shared.address.clone());
            let notes = shared.notes.as_ref();
            let noted = notes.is_none_or(|notes| notes.write(&note, id).is_ok());
            self.place.moves(shared, id) && noted
        };
        turn.call(arguments, stages, moves).await
    }
}

impl Routine {
    /// At one site.
    pub fn at(shared: Arc<Shared>, signature: Signature) -> Routine {
        Routine::new(At::One(shared), Arc::new(signature))
    }

    /// At whichever site each call would have its result first.
    pub fn best(best: Best) -> Routine {
        let signature = Arc::clone(best.sites.signature());
        Routine::new(At::Best(best), signature)
    }

    fn new(at: At, signature: Arc<Signature>) -> Routine {
        Routine {
            at,
            told: told(&signature),
            signature,
        }
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.signature.module, self.signature.name)
    }

    fn check(&self) -> PyResult<()> {
        match &self.at {
            At::One(shared) => shared.process.check(),
            At::Best(best) => best.check(),
        }
    }

    /// A site, a number, and the note by which the result can be taken after this process has died.
    fn ready(&self, py: Python<'_>, taken: &Taken) -> PyResult<Ready> {
        let (shared, id, turn) = match &self.at {
            At::One(shared) => {
                let id =
                    wait(py, shared.calls.number())?.map_err(|error| errors::rpc(py, &error))?;
                (Arc::clone(shared), id, None)
            }
            At::Best(best) => {
                let turn = wait(py, Turn::of(&best.sites, &taken.heads))?;
                let turn = turn.map_err(|error| errors::call(py, &error))?;
                let (shared, id) = (best.shared(&turn), turn.id());
                (shared, id, Some((best.clone(), Box::new(turn))))
            }
        };
        let note = Note::new(shared.address.clone(), &self.signature, &taken.heads);
        let note = note.with_files(taken.arguments.targets());
        if let Some(notes) = &shared.notes {
            py.detach(|| notes.write(&note, id))
                .map_err(|error| errors::note(py, &error))?;
        }
        let place = Arc::new(Place::new(shared, id));
        Ok(Ready { place, note, turn })
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
        self.check()?;
        let values = bind(&self.signature, &self.told, given, named)?;
        let mut taken = take(py, &self.signature, &self.told, &values, copy)?;
        let ready = self.ready(py, &taken)?;
        let place = Arc::clone(&ready.place);
        let form = self.form(&mut taken);
        let name = self.full_name();
        // Known here, so that this is a word to its own conversation and waits for nothing.
        let carrier = carrier()?;
        let stop = || carrier.block_on(place.cancel());
        let (to, mut questions) = unbounded_channel();
        let arguments = match self.signature.has_callbacks() {
            true => taken.arguments.with_functions(to),
            false => taken.arguments,
        };
        let mut functions = Functions::new(&self.signature, &values);
        let stages = seen(progress);
        let call = ready.call(&name, &arguments, &stages);
        let came = wait_asked(py, call, stop, &mut questions, |py, question| {
            let begun = Instant::now();
            functions.answer(py, question);
            stages.answered(begun.elapsed());
        });
        drop(arguments);
        buffers::give_back(py);
        let asked_in_vain =
            |error: &CallError| matches!(error, CallError::Call(RpcError::Function { .. }));
        if let (Ok(Err(error)), Some(raised)) = (&came, functions.raised) {
            if asked_in_vain(error) {
                place.forget();
                return Err(raised);
            }
        }
        match came {
            Ok(came) => finish(py, &place, &form, came),
            Err((raised, ended)) => {
                // Nobody is there for it, whatever it is.
                match ended {
                    Some(came) => drop(finish(py, &place, &form, came)),
                    None => place.abandon()?,
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
        self.check()?;
        let values = bind(&self.signature, &self.told, given, named)?;
        let mut taken = take(py, &self.signature, &self.told, &values, true)?;
        let ready = self.ready(py, &taken)?;
        let place = Arc::clone(&ready.place);
        let form = self.form(&mut taken);
        let name = self.full_name();
        let stages = seen(progress);
        let came = async move { ready.call(&name, &taken.arguments, &stages).await };
        Call::begin(py, (place, form), came, (completions, key))
    }
}
