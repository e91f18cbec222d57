//! Handles and sessions (GFD-R.052: a session is one call), and the runtime that carries them. Not here: C's types.

use crate::codes::{
    ALREADY_INITIALIZED, CANCELED_NP, COMMUNICATION_FAILED, CONFIGFILE_ERROR, CONFIGFILE_NOT_FOUND,
    Code, FUNCTION_NOT_FOUND, Failed, INVALID_FUNCTION_HANDLE, INVALID_SESSION_ID, NO_ERROR,
    NOT_INITIALIZED, OTHER_ERROR_CODE, RPC_REFUSED, SERVER_NOT_FOUND, SESSION_FAILED,
};
use crate::functions::Functions;
use crate::outputs::Outputs;
use kumiko_call::event::Failure;
use kumiko_call::id::CallId;
use kumiko_client::{Client, SiteAddress};
use kumiko_idl::Signature;
use kumiko_rpc_client::{Arguments, Calls, Contact, ContactError, RpcError, Settings};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Threads of the runtime: one writes while another reads.
const THREADS: usize = 2;
/// For goodbyes when the program ends.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

pub struct Library {
    runtime: &'static Runtime,
    config: Contact,
    state: Mutex<State>,
    /// Told when a session ends.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// By address.
    sites: HashMap<SiteAddress, Calls>,
    last_handle: u64,
    handles: BTreeMap<u64, Arc<Function>>,
    last_session: i32,
    sessions: BTreeMap<i32, Session>,
    /// Of those that were waited for and had failed; for get_failed_sessionid.
    failed: VecDeque<i32>,
    /// What became of sessions that were waited for.
    errors: HashMap<i32, Code>,
    /// Conversations: one goes on when its session is over, for the site hears last that the result is here.
    talks: JoinSet<()>,
}

pub struct Function {
    pub name: String,
    pub signature: Arc<Signature>,
    calls: Calls,
}

struct Session {
    /// The caller's handle, by its address.
    handle: usize,
    calls: Calls,
    id: CallId,
    cancelled: bool,
    /// None: it is not over.
    end: Option<Result<(), Failed>>,
}

static LIBRARY: Mutex<Option<Arc<Library>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library, between initialize and finalize.
pub fn library() -> Result<Arc<Library>, Failed> {
    lock(&LIBRARY)
        .clone()
        .ok_or_else(|| Failed::bare(NOT_INITIALIZED))
}

pub fn initialize(file: Option<&Path>) -> Result<(), Failed> {
    let mut library = lock(&LIBRARY);
    if library.is_some() {
        return Err(Failed::bare(ALREADY_INITIALIZED));
    }
    let config = Contact::load(file).map_err(|error| {
        let code = match error {
            ContactError::NoHome | ContactError::Absent { .. } => CONFIGFILE_NOT_FOUND,
            ContactError::Unusable { .. } => CONFIGFILE_ERROR,
        };
        Failed::new(code, error.to_string())
    })?;
    let runtime = runtime()?;
    *library = Some(Arc::new(Library {
        runtime,
        config,
        state: Mutex::default(),
        ended: Condvar::new(),
    }));
    Ok(())
}

/// One for the process, however often the library is initialized: what it runs may outlive a finalize for a moment.
fn runtime() -> Result<&'static Runtime, Failed> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failed::new(OTHER_ERROR_CODE, error.to_string()))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// What runs is cancelled.
pub fn finalize() -> Result<(), Failed> {
    let library = lock(&LIBRARY)
        .take()
        .ok_or_else(|| Failed::bare(NOT_INITIALIZED))?;
    let open: Vec<i32> = lock(&library.state).sessions.keys().copied().collect();
    for session in open {
        let _ = library.cancel(session);
    }
    let (sites, mut talks) = {
        let mut state = lock(&library.state);
        let sites = std::mem::take(&mut state.sites).into_values();
        (sites, std::mem::take(&mut state.talks))
    };
    library.runtime.block_on(async {
        let said = async { while talks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOODBYE_WITHIN, said).await;
        for calls in sites {
            // What is said last goes out; a site that is away is not waited for.
            let _ = tokio::time::timeout(GOODBYE_WITHIN, calls.close()).await;
        }
    });
    Ok(())
}

fn failed(error: &RpcError) -> Failed {
    let code = match error {
        RpcError::Refused(refusal) if refusal.code == "no_routine" => FUNCTION_NOT_FOUND,
        RpcError::Failed {
            failure: Failure::Cancelled,
            ..
        } => CANCELED_NP,
        RpcError::Refused(_)
        | RpcError::Arguments(_)
        | RpcError::Argument { .. }
        | RpcError::Failed {
            failure: Failure::Refused { .. },
            ..
        } => RPC_REFUSED,
        RpcError::Failed { .. }
        | RpcError::Function { .. }
        | RpcError::NoFunction { .. }
        | RpcError::File { .. }
        | RpcError::Over { .. } => SESSION_FAILED,
        _ => COMMUNICATION_FAILED,
    };
    Failed::new(code, error.to_string())
}

impl Library {
    fn site(&self, server: Option<&str>) -> Result<Calls, Failed> {
        let unknown =
            |error: &dyn std::fmt::Display| Failed::new(SERVER_NOT_FOUND, error.to_string());
        let address = match server {
            None => self.config.address.clone(),
            Some(text) => text.parse().map_err(|error| unknown(&error))?,
        };
        if let Some(calls) = lock(&self.state).sites.get(&address) {
            return Ok(calls.clone());
        }
        let config = &self.config;
        let connect = Client::connect(&address, &config.credential, &config.trust);
        let client = self
            .runtime
            .block_on(connect)
            .map_err(|error| unknown(&error))?;
        let durability = config.durability;
        let calls = Calls::new(
            client,
            Settings {
                durability,
                ..Settings::default()
            },
        );
        lock(&self.state).sites.insert(address, calls.clone());
        Ok(calls)
    }

    /// The number of a handle for this function.
    pub fn handle(&self, server: Option<&str>, name: &str) -> Result<u64, Failed> {
        let calls = self.site(server)?;
        let signature =
            self.runtime
                .block_on(calls.signature(name))
                .map_err(|error| match failed(&error) {
                    failed if failed.code == COMMUNICATION_FAILED => {
                        Failed::new(SERVER_NOT_FOUND, failed.message)
                    }
                    failed => failed,
                })?;
        signature
            .callable()
            .map_err(|error| Failed::new(RPC_REFUSED, error.to_string()))?;
        let mut state = lock(&self.state);
        state.last_handle += 1;
        let number = state.last_handle;
        let function = Function {
            name: name.to_owned(),
            signature: Arc::new(signature),
            calls,
        };
        state.handles.insert(number, Arc::new(function));
        Ok(number)
    }

    pub fn function(&self, number: u64) -> Result<Arc<Function>, Failed> {
        let state = lock(&self.state);
        let found = state.handles.get(&number).cloned();
        found.ok_or_else(|| Failed::bare(INVALID_FUNCTION_HANDLE))
    }

    pub fn forget(&self, number: u64) -> Result<(), Failed> {
        let found = lock(&self.state).handles.remove(&number);
        found
            .map(|_| ())
            .ok_or_else(|| Failed::bare(INVALID_FUNCTION_HANDLE))
    }

    /// Begins a session; its arguments are copied already.
    pub fn begin(
        self: &Arc<Self>,
        function: &Arc<Function>,
        handle: usize,
        (arguments, outputs, functions): (Arguments, Outputs, Option<Functions>),
    ) -> Result<i32, Failed> {
        let id = self
            .runtime
            .block_on(function.calls.number())
            .map_err(|error| failed(&error))?;
        let session = {
            let mut state = lock(&self.state);
            state.last_session = state.last_session.checked_add(1).unwrap_or(0);
            let session = state.last_session;
            state.sessions.insert(
                session,
                Session {
                    handle,
                    calls: function.calls.clone(),
                    id,
                    cancelled: false,
                    end: None,
                },
            );
            session
        };
        if let Some(functions) = functions {
            self.runtime.spawn(functions.answer());
        }
        let (library, function) = (Arc::downgrade(self), Arc::clone(function));
        let talk = async move {
            let came = function.calls.call(id, &function.name, &arguments).await;
            let Some(library) = library.upgrade() else {
                return;
            };
            let mut acknowledge = false;
            {
                let mut state = lock(&library.state);
                let Some(session) = state.sessions.get_mut(&session) else {
                    return;
                };
                session.end = Some(match came {
                    // Under the lock: nobody sees the end before its results are there.
                    Ok(result) if !session.cancelled => {
                        acknowledge = true;
                        match outputs.put(&result) {
                            true => Ok(()),
                            false => Err(Failed::bare(COMMUNICATION_FAILED)),
                        }
                    }
                    Ok(_) => {
                        acknowledge = true;
                        Err(Failed::bare(CANCELED_NP))
                    }
                    Err(_) if session.cancelled => Err(Failed::bare(CANCELED_NP)),
                    Err(error) => Err(failed(&error)),
                });
                library.ended.notify_all();
            }
            if acknowledge {
                function.calls.acknowledge(id).await;
            }
        };
        let mut state = lock(&self.state);
        while state.talks.try_join_next().is_some() {}
        state.talks.spawn_on(talk, self.runtime.handle());
        Ok(session)
    }

    pub fn handle_of(&self, session: i32) -> Result<usize, Failed> {
        let state = lock(&self.state);
        let found = state.sessions.get(&session).map(|one| one.handle);
        found.ok_or_else(|| Failed::bare(INVALID_SESSION_ID))
    }

    pub fn is_over(&self, session: i32) -> Result<bool, Failed> {
        let state = lock(&self.state);
        let found = state.sessions.get(&session).map(|one| one.end.is_some());
        found.ok_or_else(|| Failed::bare(INVALID_SESSION_ID))
    }

    /// Waits until one of these is over, and gives its number and end; it is then no session any more.
    pub fn wait_or(&self, sessions: &[i32]) -> Result<(i32, Result<(), Failed>), Failed> {
        let mut state = lock(&self.state);
        loop {
            if let Some(unknown) = sessions
                .iter()
                .find(|one| !state.sessions.contains_key(one))
            {
                let message = format!("there is no session {unknown}");
                return Err(Failed::new(INVALID_SESSION_ID, message));
            }
            let over = |one: &&i32| state.sessions.get(one).is_some_and(|one| one.end.is_some());
            if let Some(over) = sessions.iter().find(over).copied() {
                let session = state.sessions.remove(&over);
                let end = session.and_then(|one| one.end).unwrap_or(Ok(()));
                let code = end
                    .as_ref()
                    .map_or_else(|failed| failed.code, |()| NO_ERROR);
                state.errors.insert(over, code);
                if code != NO_ERROR {
                    state.failed.push_back(over);
                }
                // A wait tells that it failed; why, get_error does.
                let end = end.map_err(|failed| Failed::new(SESSION_FAILED, failed.message));
                return Ok((over, end));
            }
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn sessions(&self) -> Vec<i32> {
        lock(&self.state).sessions.keys().copied().collect()
    }

    /// Does not wait for it.
    pub fn cancel(&self, session: i32) -> Result<(), Failed> {
        let (calls, id) = {
            let mut state = lock(&self.state);
            let one = state
                .sessions
                .get_mut(&session)
                .ok_or_else(|| Failed::bare(INVALID_SESSION_ID))?;
            if one.end.is_none() {
                one.cancelled = true;
                one.end = Some(Err(Failed::bare(CANCELED_NP)));
                self.ended.notify_all();
            }
            (one.calls.clone(), one.id)
        };
        self.runtime.spawn(async move { calls.cancel(id).await });
        Ok(())
    }

    pub fn error_of(&self, session: i32) -> Result<Code, Failed> {
        let state = lock(&self.state);
        match (state.sessions.get(&session), state.errors.get(&session)) {
            (Some(one), _) => Ok(match &one.end {
                Some(Err(failed)) => failed.code,
                _ => NO_ERROR,
            }),
            (None, Some(code)) => Ok(*code),
            (None, None) => Err(Failed::bare(INVALID_SESSION_ID)),
        }
    }

    /// Each failed session once.
    pub fn next_failed(&self) -> Option<i32> {
        lock(&self.state).failed.pop_front()
    }
}
