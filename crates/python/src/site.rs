//! A site as Python has it. Not here: its routines (`routine`).

use crate::arguments::Whole;
use crate::call::{Call, Completions, Form};
use crate::errors;
use crate::place::Place;
use crate::routine::Routine;
use crate::runtime::{self, Process, wait};
use kumiko_call::id::CallId;
use kumiko_client::{Client, ClientError, SiteAddress};
use kumiko_rpc_client::{Calls, Contact, Notes, Offered, RpcError, Settings, call_id};
use kumiko_wire::rpc::Durability;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// For what is said last when the program ends; a site that is away is not waited for.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// What calls at one site share.
#[derive(Debug)]
pub struct Shared {
    pub calls: Calls,
    pub address: String,
    /// None: its calls do not outlive this process.
    pub notes: Option<Notes>,
    pub process: Process,
    /// Words to the site that nobody waits for.
    said: Mutex<JoinSet<()>>,
}

impl Shared {
    pub fn new(calls: Calls, address: &SiteAddress, durability: Durability) -> Arc<Shared> {
        let kept = durability != Durability::None;
        let home = kept.then(kumiko_rpc_client::home).flatten();
        let notes = home.map(|home| Notes::of(&home));
        if let Some(notes) = &notes {
            calls.noted(notes.clone(), address.to_string());
        }
        Arc::new(Shared {
            calls,
            address: address.to_string(),
            notes,
            process: Process::this(),
            said: Mutex::default(),
        })
    }

    /// Says what is left to say, and goodbye.
    pub async fn close(&self) {
        let mut said =
            std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        let goodbye = async {
            while said.join_next().await.is_some() {}
            self.calls.clone().close().await;
        };
        let _ = tokio::time::timeout(GOODBYE_WITHIN, goodbye).await;
    }

    /// The result is Python's.
    pub fn acknowledge(self: &Arc<Self>, id: CallId) -> PyResult<()> {
        let shared = Arc::clone(self);
        self.say(async move {
            shared.calls.acknowledge(id);
            shared.forget(id);
        })
    }

    /// Nobody waits for it: it is told to end, and its outcome is not kept when it has.
    pub fn abandon(self: &Arc<Self>, id: CallId) -> PyResult<()> {
        let shared = Arc::clone(self);
        self.say(async move {
            // It may not have been said while the call was waited for.
            let _ = shared.calls.cancel(id).await;
            match shared.calls.attach(id).await {
                Ok(_) => shared.calls.acknowledge(id),
                Err(error) if error.is_final() => {}
                Err(_) => return, // it expires
            }
            shared.forget(id);
        })
    }

    fn say(&self, words: impl Future<Output = ()> + Send + 'static) -> PyResult<()> {
        let carrier = runtime::carrier()?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        while said.try_join_next().is_some() {}
        // They hurry nobody: they go out with what is waited for next, or in a moment.
        said.spawn_on(words, carrier.handle());
        Ok(())
    }

    pub fn forget(&self, id: CallId) {
        if let Some(notes) = &self.notes {
            notes.forget(&self.address, self.calls.name_now(id));
        }
    }
}

#[pyclass(frozen)]
#[derive(Debug)]
pub struct Site {
    shared: Arc<Shared>,
}

pub fn durability_of(name: &str) -> PyResult<Durability> {
    kumiko_rpc_client::durability(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "durability is none, record, full or auto, not {name}"
        ))
    })
}

impl Site {
    fn shared(&self) -> PyResult<&Arc<Shared>> {
        self.shared.process.check()?;
        Ok(&self.shared)
    }
}

#[pymethods]
impl Site {
    /// Connects; `contact`: a file, else the personal site's; `server`: HOST:PORT in the place of the file's.
    #[new]
    #[pyo3(signature = (contact=None, server=None, durability=None))]
    fn new(
        py: Python<'_>,
        contact: Option<PathBuf>,
        server: Option<&str>,
        durability: Option<&str>,
    ) -> PyResult<Site> {
        let client_error = |error: ClientError| errors::rpc(py, &RpcError::Client(error));
        let mut found =
            Contact::load(contact.as_deref()).map_err(|error| errors::contact(py, &error))?;
        if let Some(server) = server {
            found.address = server.parse::<SiteAddress>().map_err(client_error)?;
        }
        if let Some(name) = durability {
            found.durability = durability_of(name)?;
        }
        let connect = Client::connect(&found.address, &found.credential, &found.trust);
        let client = wait(py, connect)?.map_err(client_error)?;
        let settings = Settings {
            durability: found.durability,
            ..Settings::default()
        };
        let calls = Calls::new(client, settings);
        Ok(Site {
            shared: Shared::new(calls, &found.address, found.durability),
        })
    }

    #[getter]
    fn address(&self) -> String {
        self.shared.address.clone()
    }

    /// All routines: name and signature.
    fn routines(&self, py: Python<'_>) -> PyResult<Vec<Routine>> {
        let shared = self.shared()?;
        let all = wait(py, shared.calls.routines())?.map_err(|error| errors::rpc(py, &error))?;
        let routine = |one: Offered| Routine::at(Arc::clone(shared), one.signature);
        Ok(all.into_iter().map(routine).collect())
    }

    fn routine(&self, py: Python<'_>, name: &str) -> PyResult<Routine> {
        let shared = self.shared()?;
        let signature = wait(py, shared.calls.signature(name))?
            .and_then(|one| match one.callable() {
                Ok(()) => Ok(one),
                Err(error) => Err(error.into()),
            })
            .map_err(|error| errors::rpc(py, &error))?;
        Ok(Routine::at(Arc::clone(shared), signature))
    }

    /// Calls that were begun from here, by whatever program, and whose results nobody has taken.
    fn open_calls(&self) -> Vec<String> {
        let notes = self.shared.notes.as_ref();
        let open = notes.map(|notes| notes.open(&self.shared.address));
        let open = open.unwrap_or_default().into_iter();
        open.map(|id| id.to_string()).collect()
    }

    /// Takes the result of a call that another process has begun.
    fn attach(
        &self,
        py: Python<'_>,
        call: &str,
        completions: &Completions,
        key: u64,
    ) -> PyResult<Call> {
        let shared = Arc::clone(self.shared()?);
        let id = call_id(call).ok_or_else(|| {
            PyValueError::new_err(format!("{call} names no call: they are like 7-3"))
        })?;
        // Also of a site whose own calls are not kept.
        let home = kumiko_rpc_client::home().unwrap_or_default();
        let notes = shared.notes.clone().unwrap_or_else(|| Notes::of(&home));
        let note = notes
            .read(&shared.address, id)
            .map_err(|error| errors::note(py, &error))?;
        let (signature, plan) = note.plan().map_err(|error| errors::rpc(py, &error))?;
        let form = Form {
            wholes: vec![Whole::Unknown; plan.places.len()],
            signature: Arc::new(signature),
            plan,
        };
        let (calls, targets) = (shared.calls.clone(), note.files().to_vec());
        let whole = form.plan.clone();
        let came = async move { Ok(calls.attach_to(id, &whole, &targets, &[]).await?) };
        let place = Arc::new(Place::new(shared, id));
        Call::begin(py, (place, form), came, (completions, key))
    }

    /// Says what is left to say, and goodbye.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared()?;
        wait(py, shared.close())
    }
}
