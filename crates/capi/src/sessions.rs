//! Handles and sessions (GFD-R.052: a session is one call), and the runtime that carries them. Not here: C's types.

use crate::attributes::Attributes;
use crate::codes::{
    ALREADY_INITIALIZED, CANCELED_NP, COMMUNICATION_FAILED, CONFIGFILE_ERROR, CONFIGFILE_NOT_FOUND,
    Code, FUNCTION_NOT_FOUND, Failed, INVALID_FUNCTION_HANDLE, INVALID_SESSION_ID, NO_ERROR,
    NOT_INITIALIZED, OTHER_ERROR_CODE, RPC_REFUSED, SERVER_NOT_FOUND, SESSION_FAILED, TIMEOUT_NP,
    warned,
};
use crate::limits::Limits;
use crate::loans::Loans;
use crate::outputs::{Given, Outputs};
use crate::signals;
use bytes::Bytes;
use kumiko_call::event::Failure;
use kumiko_call::id::CallId;
use kumiko_client::SiteAddress;
use kumiko_find::{CallError, FindError, Links, Sites, Turn, Wish};
use kumiko_idl::Signature;
use kumiko_rpc_client::{Arguments, Calls, Carrier, Contact, ContactError, RpcError, Stages};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Sessions whose stages are known after they were waited for: the newest.
const KNOWN_MOST: usize = 4096;
/// For goodbyes when the program ends.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

pub struct Library {
    carrier: &'static Carrier,
    config: Arc<Contact>,
    links: Arc<Links>,
    state: Mutex<State>,
    /// Told when a session ends.
    ended: Notify,
}

#[derive(Default)]
struct State {
    last_handle: u64,
    handles: BTreeMap<u64, Arc<Function>>,
    /// Those of functions that an index told of.
    sites: HashMap<String, Arc<Sites>>,
    attributes: BTreeMap<u64, Attributes>,
    /// Handles that one-line calls have made, by server and function.
    named: HashMap<String, u64>,
    last_session: i32,
    sessions: BTreeMap<i32, Session>,
    /// Of those that were waited for and had failed; for get_failed_sessionid.
    failed: VecDeque<i32>,
    /// Of those too: why. Of others that were waited for nothing is kept.
    errors: HashMap<i32, Code>,
    stages: BTreeMap<i32, Arc<Stages>>,
    /// Conversations: one goes on when its session is over, for the site hears last that the result is here.
    talks: JoinSet<()>,
}

pub struct Function {
    /// Where its signature is from; its calls are at others too, if an index told of this one.
    pub server: SiteAddress,
    pub name: String,
    pub signature: Arc<Signature>,
    at: At,
}

enum At {
    One(Calls),
    Best(Arc<Sites>),
}

/// Where one call is.
enum Place {
    One(Calls, CallId),
    Best(Box<Turn>),
}

/// What a session is begun with.
pub struct Asked<'a> {
    pub function: &'a Arc<Function>,
    /// The caller's handle, by its address.
    pub handle: usize,
    pub given: Given,
    pub limits: Limits,
}

/// A session's conversation with its site, to its end.
type Talk = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Session {
    /// The caller's handle, by its address.
    handle: usize,
    calls: Calls,
    id: CallId,
    /// Why it was ended here before it was over.
    stopped: Option<Code>,
    stages: Arc<Stages>,
    /// The caller's arrays that its result is written to: until it has an end.
    places: Loans,
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
    let carrier = carrier()?;
    let config = Arc::new(config);
    let links = Arc::new(Links::of(Arc::clone(&config)));
    *library = Some(Arc::new(Library {
        carrier,
        config,
        links,
        state: Mutex::default(),
        ended: Notify::new(),
    }));
    Ok(())
}

/// One for the process, however often the library is initialized: what it runs may outlive a finalize for a moment.
fn carrier() -> Result<&'static Carrier, Failed> {
    static CARRIER: OnceLock<&'static Carrier> = OnceLock::new();
    if let Some(carrier) = CARRIER.get() {
        return Ok(carrier);
    }
    let carrier =
        Carrier::start().map_err(|error| Failed::new(OTHER_ERROR_CODE, error.to_string()))?;
    Ok(CARRIER.get_or_init(|| carrier))
}

/// What runs is cancelled, and signals are whose they were.
pub fn finalize() -> Result<(), Failed> {
    let library = lock(&LIBRARY)
        .take()
        .ok_or_else(|| Failed::bare(NOT_INITIALIZED))?;
    signals::set_back();
    let open: Vec<i32> = lock(&library.state).sessions.keys().copied().collect();
    for session in open {
        let _ = library.cancel(session);
    }
    let (sites, mut talks) = {
        let mut state = lock(&library.state);
        let sites = std::mem::take(&mut state.sites);
        (sites, std::mem::take(&mut state.talks))
    };
    library.carrier.block_on(async {
        let said = async { while talks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOODBYE_WITHIN, said).await;
        for sites in sites.values() {
            sites.close();
        }
        for link in library.links.take() {
            link.goodbye().await;
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
        | RpcError::Unread { .. }
        | RpcError::Over { .. } => SESSION_FAILED,
        _ => COMMUNICATION_FAILED,
    };
    Failed::new(code, error.to_string())
}

fn no_turn(error: &CallError) -> Failed {
    match error {
        CallError::Call(error) => failed(error),
        CallError::Find(error) => Failed::new(COMMUNICATION_FAILED, error.to_string()),
    }
}

impl Place {
    fn now(&self) -> (Calls, CallId) {
        match self {
            Place::One(calls, id) => (calls.clone(), *id),
            Place::Best(turn) => (turn.calls().clone(), turn.id()),
        }
    }

    async fn call(
        &mut self,
        name: &str,
        arguments: &Arguments,
        stages: &Stages,
        moves: impl FnMut(&Turn) -> bool,
    ) -> Result<Bytes, Failed> {
        match self {
            Place::One(calls, id) => {
                let came = calls.call_seen(*id, name, arguments, stages).await;
                came.map_err(|error| failed(&error))
            }
            Place::Best(turn) => {
                let came = turn.call(arguments, stages, moves).await;
                came.map_err(|error| no_turn(&error))
            }
        }
    }
}

impl Library {
    /// The configured site's.
    pub fn host(&self) -> String {
        self.config.address.host.clone()
    }

    /// Where a function is called: of the sites that the configured index tells of, or else at the configured one.
    fn at(
        &self,
        server: Option<&str>,
        name: &str,
    ) -> Result<(SiteAddress, At, Arc<Signature>), Failed> {
        if let (None, Some(index)) = (server, &self.config.index) {
            if let Some(found) = self.found(index, name)? {
                return Ok(found);
            }
        }
        let unknown =
            |error: &dyn std::fmt::Display| Failed::new(SERVER_NOT_FOUND, error.to_string());
        let server = match server {
            None => self.config.address.clone(),
            Some(text) => text.parse().map_err(|error| unknown(&error))?,
        };
        let link = self.carrier.block_on(self.links.to(&server));
        let calls = link.map_err(|error| unknown(&error))?.calls;
        let signature = self.carrier.block_on(calls.signature(name));
        let signature = signature.map_err(|error| match failed(&error) {
            failed if failed.code == COMMUNICATION_FAILED => {
                Failed::new(SERVER_NOT_FOUND, failed.message)
            }
            failed => failed,
        })?;
        Ok((server, At::One(calls), Arc::new(signature)))
    }

    /// None: the index cannot be asked.
    fn found(
        &self,
        index: &str,
        name: &str,
    ) -> Result<Option<(SiteAddress, At, Arc<Signature>)>, Failed> {
        let of = |sites: Arc<Sites>| {
            let (server, signature) = (sites.first().clone(), Arc::clone(sites.signature()));
            Ok(Some((server, At::Best(sites), signature)))
        };
        if let Some(sites) = lock(&self.state).sites.get(name).cloned() {
            return of(sites);
        }
        let Some(home) = kumiko_rpc_client::home() else {
            return Ok(None);
        };
        let links = Arc::clone(&self.links);
        let found = Sites::find(index.to_owned(), name, Wish::default(), home, links);
        match self.carrier.block_on(found) {
            Ok(sites) => {
                let mut state = lock(&self.state);
                state.sites.insert(name.to_owned(), Arc::clone(&sites));
                of(sites)
            }
            Err(error @ FindError::Index { .. }) => {
                warned(&format!("{error}: the configured site is taken"));
                Ok(None)
            }
            Err(error) => Err(Failed::new(FUNCTION_NOT_FOUND, error.to_string())),
        }
    }

    /// Numbers of so many handles for this function.
    pub fn handles(
        &self,
        server: Option<&str>,
        name: &str,
        count: usize,
    ) -> Result<Vec<u64>, Failed> {
        let (server, at, signature) = self.at(server, name)?;
        signature
            .callable()
            .map_err(|error| Failed::new(RPC_REFUSED, error.to_string()))?;
        let function = Arc::new(Function {
            server,
            name: name.to_owned(),
            signature,
            at,
        });
        let mut state = lock(&self.state);
        let made = (0..count).map(|_| {
            state.last_handle += 1;
            let number = state.last_handle;
            state.handles.insert(number, Arc::clone(&function));
            number
        });
        Ok(made.collect())
    }

    /// The handle for one-line calls of this function, made at the first.
    pub fn named(&self, server: Option<&str>, name: &str) -> Result<u64, Failed> {
        let key = format!("{} {name}", server.unwrap_or_default());
        let known = lock(&self.state).named.get(&key).copied();
        match known {
            Some(number) => Ok(number),
            None => {
                let made = self.handles(server, name, 1)?;
                let number = made.first().copied().unwrap_or_default();
                lock(&self.state).named.insert(key, number);
                Ok(number)
            }
        }
    }

    pub fn keep_attributes(&self, attributes: Attributes) -> u64 {
        let mut state = lock(&self.state);
        state.last_handle += 1;
        let number = state.last_handle;
        state.attributes.insert(number, attributes);
        number
    }

    pub fn attributes(&self, number: u64) -> Option<Attributes> {
        lock(&self.state).attributes.get(&number).cloned()
    }

    pub fn set_attributes(&self, number: u64, attributes: Attributes) {
        lock(&self.state).attributes.insert(number, attributes);
    }

    pub fn forget_attributes(&self, number: u64) {
        lock(&self.state).attributes.remove(&number);
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

    /// What was begun is not waited for now.
    pub fn go_on(&self) {
        self.carrier.go_on();
    }

    /// Begins a session, within these limits; its arguments are copied or lent already. It goes on while somebody waits, or after [`Library::go_on`].
    pub fn begin(self: &Arc<Self>, asked: Asked<'_>) -> Result<i32, Failed> {
        let (session, talk) = self.open(asked)?;
        self.go_on_with(talk);
        Ok(session)
    }

    /// A session, until it is over: in the calling thread.
    pub fn call(self: &Arc<Self>, asked: Asked<'_>) -> Result<(), Failed> {
        let (session, mut talk) = self.open(asked)?;
        let is_over = self.carrier.wait(async {
            tokio::select! {
                biased;
                () = &mut talk => true,
                () = self.until_ended(session) => false,
            }
        });
        if !is_over {
            self.go_on_with(talk);
        }
        self.wait_or(&[session])?.1
    }

    fn go_on_with(&self, talk: Talk) {
        let mut state = lock(&self.state);
        while state.talks.try_join_next().is_some() {}
        state.talks.spawn_on(talk, self.carrier.handle());
    }

    /// Also by another thread, which cancels it.
    async fn until_ended(&self, session: i32) {
        loop {
            let ended = self.ended.notified();
            if self.is_over(session).unwrap_or(true) {
                return;
            }
            ended.await;
        }
    }

    fn open(self: &Arc<Self>, asked: Asked<'_>) -> Result<(i32, Talk), Failed> {
        let Asked {
            function,
            handle,
            given,
            limits,
        } = asked;
        let Given {
            arguments,
            mut outputs,
            places,
            functions,
        } = given;
        let place = match &function.at {
            At::One(calls) => {
                let id = self.carrier.block_on(calls.number());
                Place::One(calls.clone(), id.map_err(|error| failed(&error))?)
            }
            At::Best(sites) => {
                let turn = self.carrier.block_on(Turn::of(sites, &arguments.heads()));
                Place::Best(Box::new(turn.map_err(|error| no_turn(&error))?))
            }
        };
        let (calls, id) = place.now();
        let stages = Arc::new(Stages::default());
        let session = {
            let mut state = lock(&self.state);
            state.last_session = state.last_session.checked_add(1).unwrap_or(0);
            let session = state.last_session;
            state.sessions.insert(
                session,
                Session {
                    handle,
                    calls,
                    id,
                    stopped: None,
                    stages: Arc::clone(&stages),
                    places,
                    end: None,
                },
            );
            session
        };
        if let Some(functions) = functions {
            self.carrier
                .handle()
                .spawn(functions.answer(Arc::clone(&stages)));
        }
        let (library, function) = (Arc::downgrade(self), Arc::clone(function));
        let talk = Box::pin(async move {
            let mut place = place;
            let moves = |turn: &Turn| match library.upgrade() {
                Some(library) => library.moved(session, turn),
                None => false,
            };
            let came = {
                let mut call = pin!(place.call(&function.name, &arguments, &stages, moves));
                tokio::select! {
                    came = &mut call => came,
                    () = limits.pass(&stages) => {
                        if let Some(library) = library.upgrade() {
                            let _ = library.stop(session, TIMEOUT_NP);
                        }
                        call.await
                    }
                }
            };
            let came = match came {
                Ok(result) => match outputs.commit().await {
                    Ok(()) => Ok(result),
                    Err(error) => Err(failed(&error)),
                },
                Err(failed) => Err(failed),
            };
            let result_is_here = came.is_ok();
            if let Some(library) = library.upgrade() {
                library.end(session, came, &outputs);
            }
            // Also one that nobody waits for any more: its site would keep it.
            if result_is_here {
                let (calls, id) = place.now();
                calls.acknowledge(id);
            }
        });
        Ok((session, talk))
    }

    /// A session's call is at another site now; false: it is to be nowhere.
    fn moved(&self, session: i32, turn: &Turn) -> bool {
        let mut state = lock(&self.state);
        let session = state.sessions.get_mut(&session);
        let Some(session) = session.filter(|one| one.stopped.is_none()) else {
            return false;
        };
        (session.calls, session.id) = (turn.calls().clone(), turn.id());
        true
    }

    /// What came is a session's end, if nothing was before.
    fn end(&self, session: i32, came: Result<Bytes, Failed>, outputs: &Outputs) {
        let mut state = lock(&self.state);
        let Some(session) = state.sessions.get_mut(&session) else {
            return;
        };
        session.end = Some(match (came, session.stopped) {
            (_, Some(code)) => Err(Failed::bare(code)),
            // Under the lock: nobody sees the end before its results are there.
            (Ok(result), None) if outputs.put(&result) => Ok(()),
            (Ok(_), None) => Err(Failed::bare(COMMUNICATION_FAILED)),
            (Err(failed), None) => Err(failed),
        });
        session.places = Loans::default();
        self.ended.notify_waiters();
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
        loop {
            let ended = self.ended.notified();
            let mut state = lock(&self.state);
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
                if let Some(session) = &session {
                    state.stages.insert(over, Arc::clone(&session.stages));
                    if state.stages.len() > KNOWN_MOST {
                        state.stages.pop_first();
                    }
                }
                let end = session.and_then(|one| one.end).unwrap_or(Ok(()));
                let code = end
                    .as_ref()
                    .map_or_else(|failed| failed.code, |()| NO_ERROR);
                if code != NO_ERROR {
                    state.errors.insert(over, code);
                    state.failed.push_back(over);
                }
                // A wait tells that it failed; why, get_error does.
                let end = end.map_err(|failed| Failed::new(SESSION_FAILED, failed.message));
                return Ok((over, end));
            }
            drop(state);
            self.carrier.block_on(ended);
        }
    }

    pub fn sessions(&self) -> Vec<i32> {
        lock(&self.state).sessions.keys().copied().collect()
    }

    /// Does not wait for it.
    pub fn cancel(&self, session: i32) -> Result<(), Failed> {
        self.stop(session, CANCELED_NP)
    }

    fn stop(&self, session: i32, why: Code) -> Result<(), Failed> {
        let (calls, id) = {
            let mut state = lock(&self.state);
            let one = state
                .sessions
                .get_mut(&session)
                .ok_or_else(|| Failed::bare(INVALID_SESSION_ID))?;
            if one.end.is_none() {
                one.stopped = Some(why);
                one.places = Loans::default();
                one.end = Some(Err(Failed::bare(why)));
                self.ended.notify_waiters();
            }
            (one.calls.clone(), one.id)
        };
        let cancel = async move { calls.cancel(id).await };
        self.carrier.handle().spawn(cancel);
        self.carrier.go_on();
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
            (None, None) if (1..=state.last_session).contains(&session) => Ok(NO_ERROR),
            (None, None) => Err(Failed::bare(INVALID_SESSION_ID)),
        }
    }

    /// How far a session is; and whether it has a result, once it is over. None: it is not known (any more).
    pub fn stages_of(&self, session: i32) -> Option<(Arc<Stages>, Option<bool>)> {
        let state = lock(&self.state);
        match state.sessions.get(&session) {
            Some(one) => {
                let end = one.end.as_ref().map(Result::is_ok);
                Some((Arc::clone(&one.stages), end))
            }
            None => {
                let stages = Arc::clone(state.stages.get(&session)?);
                Some((stages, Some(!state.errors.contains_key(&session))))
            }
        }
    }

    /// Each failed session once.
    pub fn next_failed(&self) -> Option<i32> {
        lock(&self.state).failed.pop_front()
    }
}
