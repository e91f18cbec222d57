//! A site as Python has it. Not here: its routines (`routine`).

use crate::call::{Call, Completions, Form};
use crate::errors;
use crate::routine::Routine;
use crate::runtime::{self, Process, wait};
use kumiko_call::id::CallId;
use kumiko_client::{Client, ClientError, SiteAddress};
use kumiko_find::{Found, Wish};
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
            notes.forget(&self.address, id);
        }
    }
}

#[pyclass(frozen)]
#[derive(Debug)]
pub struct Site {
    shared: Arc<Shared>,
}

fn durability_of(name: &str) -> PyResult<Durability> {
    kumiko_rpc_client::durability(name).ok_or_else(|| {
        PyValueError::new_err(format!("durability is none, record or full, not {name}"))
    })
}

impl Site {
    fn of(client: Client, address: &SiteAddress, durability: Durability) -> Site {
        let settings = Settings {
            durability,
            ..Settings::default()
        };
        let kept = durability != Durability::None;
        let notes = kept
            .then(kumiko_rpc_client::home)
            .flatten()
            .map(|home| Notes::of(&home));
        Site {
            shared: Arc::new(Shared {
                calls: Calls::new(client, settings),
                address: address.to_string(),
                notes,
                process: Process::this(),
                said: Mutex::default(),
            }),
        }
    }

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
        Ok(Site::of(client, &found.address, found.durability))
    }

    /// Of the sites that an index tells of the first that has the routine and answers; None: no index is named, by this, the file, or
    /// KUMIKO_INFO.
    #[staticmethod]
    #[pyo3(signature = (name, requirement, rank=None, index=None, contact=None, durability=None))]
    fn find(
        py: Python<'_>,
        name: &str,
        requirement: String,
        rank: Option<String>,
        index: Option<String>,
        contact: Option<PathBuf>,
        durability: Option<&str>,
    ) -> PyResult<Option<Site>> {
        let mut own =
            Contact::load(contact.as_deref()).map_err(|error| errors::contact(py, &error))?;
        if let Some(name) = durability {
            own.durability = durability_of(name)?;
        }
        let index = index.or_else(|| own.index.clone());
        let (Some(index), Some(home)) = (index, kumiko_rpc_client::home()) else {
            return Ok(None);
        };
        let settings = Settings {
            durability: own.durability,
            ..Settings::default()
        };
        let wish = Wish {
            requirement,
            rank,
            work: None,
        };
        let identity = (&own.credential, &own.trust);
        let connect = |address: SiteAddress| async move {
            let client = Client::connect(&address, identity.0, identity.1).await;
            client.map_err(|error| error.to_string())
        };
        let open = wait(py, async {
            let found = Found::of(&index, name, &wish, settings, &home, identity).await;
            found?.next(connect).await
        })?;
        match open {
            Ok(open) => Ok(Some(Site::of(open.client, &open.address, own.durability))),
            Err(error) => Err(errors::found(py, &error)),
        }
    }

    #[getter]
    fn address(&self) -> String {
        self.shared.address.clone()
    }

    /// All routines: name and signature.
    fn routines(&self, py: Python<'_>) -> PyResult<Vec<Routine>> {
        let shared = self.shared()?;
        let all = wait(py, shared.calls.routines())?.map_err(|error| errors::rpc(py, &error))?;
        let routine = |one: Offered| Routine::new(Arc::clone(shared), one.signature);
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
        Ok(Routine::new(Arc::clone(shared), signature))
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
            wholes: vec![None; plan.places.len()],
            signature: Arc::new(signature),
            plan,
        };
        let (calls, targets) = (shared.calls.clone(), note.files().to_vec());
        let whole = form.plan.clone();
        let came = async move { calls.attach_to(id, &whole, &targets, &[]).await };
        Call::begin(py, (shared, id, form), came, (completions, key))
    }

    /// Says what is left to say, and goodbye.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared()?;
        let mut said =
            std::mem::take(&mut *shared.said.lock().unwrap_or_else(PoisonError::into_inner));
        let calls = shared.calls.clone();
        wait(py, async {
            let goodbye = async {
                while said.join_next().await.is_some() {}
                calls.close().await;
            };
            let _ = tokio::time::timeout(GOODBYE_WITHIN, goodbye).await;
        })
    }
}
