//! Calls at one site: numbers, streams, and the conversation until there is a result (spec/rpc P40 to P57). Not here: what follows
//! from what is heard (kumiko-call's client).

use crate::arguments::Arguments;
use crate::error::RpcError;
use bytes::Bytes;
use kumiko_call::client::{ClientAction, ClientCall, NoResult, Phase};
use kumiko_call::event::Invocation;
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Status, ToClient};
use kumiko_client::Client;
use kumiko_idl::Signature;
use kumiko_job::contract::Refusal;
use kumiko_session::{Draft, Receiver, Sender, SessionError};
use kumiko_wire::rpc::{Durability, FromSite, ToSite};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

/// Some blocks are on their way at once; one is held in memory at either end.
const BLOCK_BYTES: u64 = 256 << 10;
/// A result is kept for whoever does not fetch it at once: a day.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// How long a site may refuse for what passes, or be away, before a call is given up here.
const GIVE_UP: Duration = Duration::from_secs(90);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Streams that are kept for the next calls.
const IDLE_STREAMS: usize = 64;
/// Conversations at once; further calls wait here. With the idle ones it leaves a session's streams (256) room for other things.
const BUSY_STREAMS: usize = 128;
/// How long a program that ends waits for a site that does not read.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Refusals that pass.
const PASSING: [&str; 2] = ["rpc_log_unwritable", "rpc_too_many_calls"];

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub durability: Durability,
    /// How long a result is kept that nobody fetches.
    pub keep: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: Durability::Full,
            keep: KEEP,
        }
    }
}

/// What is called at one site. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Calls {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    settings: Settings,
    numbers: tokio::sync::Mutex<Option<u64>>,
    count: Mutex<Count>,
    idle: Mutex<Vec<(Sender, Receiver)>>,
    busy: Semaphore,
}

/// A stream while somebody speaks on it.
struct Busy<'a> {
    sender: Sender,
    receiver: Receiver,
    _place: SemaphorePermit<'a>,
}

#[derive(Debug, Default)]
struct Count {
    last: u64,
    open: BTreeSet<u64>,
    /// Of calls that are begun or attached to here: whether the caller wants them no more.
    unwanted: HashMap<CallId, watch::Sender<bool>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call is open as long as somebody waits for it, however the waiting ends.
struct Open<'a> {
    inner: &'a Inner,
    id: CallId,
    unwanted: watch::Receiver<bool>,
}

impl Open<'_> {
    fn new(inner: &Inner, id: CallId) -> Open<'_> {
        let mut count = lock(&inner.count);
        let sender = count.unwanted.entry(id).or_default();
        Open {
            inner,
            id,
            unwanted: sender.subscribe(),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut count = lock(&self.inner.count);
        count.open.remove(&self.id.sequence);
        count.unwanted.remove(&self.id);
    }
}

/// How a conversation on one stream ended.
enum Left {
    Done(Bytes),
    /// The stream is gone: another one goes on.
    Lost(SessionError),
    /// The site forgot the client: it ended, and with it calls that were not to outlive it.
    Forgotten,
    /// Try again after a while.
    Passing(Refusal),
    Failed(RpcError),
}

impl Calls {
    pub fn new(client: Client, settings: Settings) -> Calls {
        Calls {
            inner: Arc::new(Inner {
                client,
                settings,
                numbers: tokio::sync::Mutex::new(None),
                count: Mutex::default(),
                idle: Mutex::default(),
                busy: Semaphore::new(BUSY_STREAMS),
            }),
        }
    }

    /// All routines of the site, by name.
    ///
    /// # Errors
    /// The site's refusal, or the link is lost.
    pub async fn routines(&self) -> Result<Vec<Signature>, RpcError> {
        self.signatures("").await
    }

    /// # Errors
    /// There is none of this name, or the link is lost.
    pub async fn signature(&self, routine: &str) -> Result<Signature, RpcError> {
        self.signatures(routine)
            .await?
            .pop()
            .ok_or(RpcError::Unexpected)
    }

    async fn signatures(&self, routine: &str) -> Result<Vec<Signature>, RpcError> {
        let mut stream = self.stream().await?;
        let routine = routine.to_owned();
        say(&mut stream.sender, ToSite::Signature { routine }).await?;
        let mut signatures = Vec::new();
        loop {
            match hear(&mut stream.receiver).await? {
                FromSite::Routine { signature } if signature.is_empty() => break,
                FromSite::Routine { signature } => {
                    signatures.push(Signature::from_text(&signature)?);
                }
                FromSite::Refused { refusal, .. } => return Err(refusal.into()),
                // Of a call before on this stream.
                FromSite::Status { .. } => {}
                _ => return Err(RpcError::Unexpected),
            }
        }
        self.keep(stream);
        Ok(signatures)
    }

    async fn stream(&self) -> Result<Busy<'_>, RpcError> {
        let place = self.inner.busy.acquire().await;
        // It is never closed.
        let place = place.map_err(|_| SessionError::Closed)?;
        let idle = lock(&self.inner.idle).pop();
        let (sender, receiver) = match idle {
            Some(stream) => stream,
            None => self.inner.client.calls().await?.split(),
        };
        Ok(Busy {
            sender,
            receiver,
            _place: place,
        })
    }

    fn keep(&self, stream: Busy<'_>) {
        let mut idle = lock(&self.inner.idle);
        if idle.len() < IDLE_STREAMS {
            idle.push((stream.sender, stream.receiver));
        }
    }

    /// A number for a new call. It is the caller's to write down (P40) before it begins.
    ///
    /// # Errors
    /// The site's refusal, or the link is lost.
    pub async fn number(&self) -> Result<CallId, RpcError> {
        let mut number = self.inner.numbers.lock().await;
        let client = match *number {
            Some(client) => client,
            None => *number.insert(self.register().await?),
        };
        let mut count = lock(&self.inner.count);
        count.last += 1;
        let sequence = count.last;
        count.open.insert(sequence);
        let id = CallId { client, sequence };
        count.unwanted.insert(id, watch::Sender::default());
        Ok(id)
    }

    async fn register(&self) -> Result<u64, RpcError> {
        let give_up = Instant::now() + GIVE_UP;
        loop {
            let asked = async {
                let mut stream = self.stream().await?;
                let durability = self.inner.settings.durability;
                say(&mut stream.sender, ToSite::Register { durability }).await?;
                loop {
                    match hear(&mut stream.receiver).await? {
                        FromSite::Registered { client } => {
                            self.keep(stream);
                            return Ok(client);
                        }
                        FromSite::Refused { refusal, .. } => return Err(refusal.into()),
                        FromSite::Status { .. } => {}
                        _ => return Err(RpcError::Unexpected),
                    }
                }
            };
            match asked.await {
                Err(RpcError::Stream(error)) if Instant::now() < give_up => {
                    tracing::debug!(%error, "registering again");
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Computes one call, until there is its result: the bytes that come back, as the plan of `arguments` says. What they are
    /// to be put into is not touched before all of them are here.
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn call(
        &self,
        id: CallId,
        routine: &str,
        arguments: &Arguments,
    ) -> Result<Bytes, RpcError> {
        let keep = self.inner.settings.keep.as_millis();
        let invocation = Invocation {
            routine: routine.to_owned(),
            in_bytes: arguments.plan.in_bytes,
            block_bytes: BLOCK_BYTES,
            keep_ms: u64::try_from(keep).unwrap_or(u64::MAX),
        };
        let first_open = lock(&self.inner.count).open.first().copied().unwrap_or(1);
        let call = ClientCall::invoke(id, first_open, invocation);
        let mut open = Open::new(&self.inner, id);
        let unwanted = &mut open.unwanted;
        let bytes = self.converse(call, Some(arguments), unwanted).await?;
        let (got, expected) = (bytes.len() as u64, arguments.plan.out_bytes);
        match got == expected {
            true => Ok(bytes),
            false => Err(RpcError::Result {
                call: id,
                got,
                expected,
            }),
        }
    }

    /// The result of a call that another client, or this one before it died, has begun.
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn attach(&self, id: CallId) -> Result<Bytes, RpcError> {
        let mut open = Open::new(&self.inner, id);
        let call = ClientCall::attach(id);
        self.converse(call, None, &mut open.unwanted).await
    }

    /// Says that the result is where it belongs (P42), or that nobody wants it. Best effort: it expires otherwise.
    pub async fn acknowledge(&self, call: CallId) {
        let message = FromClient::Acknowledge { call };
        if let Ok(mut stream) = self.stream().await {
            let said = ToSite::Call {
                message,
                data: Bytes::new(),
            };
            if say(&mut stream.sender, said).await.is_ok() {
                self.keep(stream);
            }
        }
    }

    /// Who waits for it here is told when it has ended.
    ///
    /// # Errors
    /// The link is lost.
    pub async fn cancel(&self, call: CallId) -> Result<(), RpcError> {
        // On its own stream, where the word cannot come before the call itself.
        if let Some(unwanted) = lock(&self.inner.count).unwanted.get(&call) {
            unwanted.send_replace(true);
            return Ok(());
        }
        let mut stream = self.stream().await?;
        let said = ToSite::Call {
            message: FromClient::Cancel { call },
            data: Bytes::new(),
        };
        say(&mut stream.sender, said).await?;
        self.keep(stream);
        Ok(())
    }

    /// Waits until the site has read what was said, though not for long, and says goodbye.
    pub async fn close(self) {
        let idle = std::mem::take(&mut *lock(&self.inner.idle));
        let read = async {
            for (sender, mut receiver) in idle {
                // Its end answers ours, after all that came before: a session that is closed first takes that with it.
                if sender.finish().await.is_ok() {
                    while let Ok(Some(_)) = receiver.recv().await {}
                }
            }
        };
        let _ = tokio::time::timeout(READ_WITHIN, read).await;
        self.inner.client.clone().close().await;
    }

    /// Waits until the site says that the call is over, after [`Calls::acknowledge`] by a program that ends now.
    ///
    /// # Errors
    /// The link is lost.
    pub async fn until_over(&self, call: CallId) -> Result<(), RpcError> {
        let mut stream = self.stream().await?;
        let said = ToSite::Call {
            message: FromClient::Acknowledge { call },
            data: Bytes::new(),
        };
        say(&mut stream.sender, said).await?;
        loop {
            match hear(&mut stream.receiver).await? {
                FromSite::Status {
                    call: about,
                    status: Status::Over { .. },
                } if about == call => break,
                FromSite::Refused {
                    call: Some(about), ..
                } if about == call => break,
                _ => {}
            }
        }
        self.keep(stream);
        Ok(())
    }

    async fn converse(
        &self,
        mut call: ClientCall,
        arguments: Option<&Arguments>,
        unwanted: &mut watch::Receiver<bool>,
    ) -> Result<Bytes, RpcError> {
        let mut give_up = Instant::now() + GIVE_UP;
        // As long as what was asked for says; what a site says by itself reserves nothing.
        let expected = arguments.map_or(0, |arguments| arguments.plan.out_bytes);
        let mut staging = Vec::new();
        let _ = staging.try_reserve_exact(usize::try_from(expected).unwrap_or(0));
        let mut first = true;
        loop {
            let mut stream = self.stream().await?;
            let begun = Instant::now();
            // The first time nothing of it can be there: blocks follow at once.
            let ahead = std::mem::take(&mut first) && call.invocation.is_some();
            let sending = Sending {
                arguments,
                ahead,
                unwanted,
            };
            let left = once(&mut stream, &mut call, sending, &mut staging).await;
            match left {
                Left::Done(bytes) => {
                    call.committed();
                    self.keep(stream);
                    return Ok(bytes);
                }
                Left::Failed(error) => {
                    // What of it is on its way on this stream is nobody's; of a failure the site needs no longer know.
                    if matches!(error, RpcError::Failed { .. }) {
                        self.keep(stream);
                        self.acknowledge(call.id).await;
                    }
                    return Err(error);
                }
                Left::Lost(cause) => {
                    if begun.elapsed() > PAUSE {
                        give_up = Instant::now() + GIVE_UP; // it had been there
                    }
                    lock(&self.inner.idle).clear();
                    if Instant::now() >= give_up {
                        return Err(cause.into());
                    }
                    tracing::debug!(call = %call.id, %cause, "the stream is lost; the call goes on");
                }
                Left::Passing(refusal) => {
                    if Instant::now() >= give_up {
                        return Err(refusal.into());
                    }
                    self.keep(stream);
                }
                Left::Forgotten => {
                    let Some(invocation) = call.invocation.clone() else {
                        let what = "the site was started anew, and it was not to outlive that";
                        return Err(RpcError::Over {
                            call: call.id,
                            what,
                        });
                    };
                    self.keep(stream);
                    let old = call.id.client;
                    {
                        let mut number = self.inner.numbers.lock().await;
                        if *number == Some(old) {
                            *number = None;
                        }
                    }
                    let id = self.number().await?;
                    drop(Open::new(&self.inner, id)); // who waits knows the number before
                    call = ClientCall::invoke(id, 1, invocation);
                    staging.clear();
                    continue;
                }
            }
            tokio::time::sleep(PAUSE).await;
            // After a break the site is asked first how it stands.
            call.phase = match call.phase {
                fetching @ Phase::Fetching { .. } => fetching,
                _ => Phase::Inviting,
            };
        }
    }
}

/// What goes out of one conversation.
struct Sending<'a> {
    arguments: Option<&'a Arguments>,
    /// Blocks follow the call at once.
    ahead: bool,
    unwanted: &'a mut watch::Receiver<bool>,
}

/// Comes when the caller wants the call no more.
async fn no_more(unwanted: &mut watch::Receiver<bool>) {
    if unwanted.wait_for(|unwanted| *unwanted).await.is_err() {
        std::future::pending().await
    }
}

/// The conversation on one stream.
async fn once(
    stream: &mut Busy<'_>,
    call: &mut ClientCall,
    given: Sending<'_>,
    staging: &mut Vec<u8>,
) -> Left {
    let Sending {
        arguments,
        ahead,
        unwanted,
    } = given;
    let (sender, receiver) = (&mut stream.sender, &mut stream.receiver);
    let id = call.id;
    let Some(message) = call.next() else {
        return Left::Failed(RpcError::Unexpected);
    };
    let data = Bytes::new();
    if let Err(error) = say(sender, ToSite::Call { message, data }).await {
        return Left::Lost(error);
    }
    let (wanted, wants) = watch::channel(ahead.then_some(0));
    let blocks = call.invocation.as_ref().map_or(0, Invocation::blocks);
    let fetching = call.phase.clone();
    let sending = async {
        // What the site does not send by itself any more is asked for.
        if let Phase::Fetching { next, blocks, .. } = fetching {
            for number in next + 1..blocks {
                let message = FromClient::Fetch { call: id, number };
                let data = Bytes::new();
                if let Err(error) = say(sender, ToSite::Call { message, data }).await {
                    return error;
                }
            }
        }
        let mut wants = wants;
        let from = async {
            let first = wants.wait_for(Option::is_some).await.map(|first| *first);
            match (arguments, first) {
                (Some(arguments), Ok(first)) => (arguments, first.unwrap_or(0)),
                _ => std::future::pending().await,
            }
        };
        let wanted = tokio::select! {
            biased;
            () = no_more(unwanted) => None,
            from = from => Some(from),
        };
        if let Some((arguments, from)) = wanted {
            for number in from..blocks {
                if *unwanted.borrow() {
                    break;
                }
                let message = FromClient::Block { call: id, number };
                let data = arguments.block(number, BLOCK_BYTES);
                if let Err(error) = say(sender, ToSite::Call { message, data }).await {
                    return error;
                }
            }
            no_more(unwanted).await;
        }
        let message = FromClient::Cancel { call: id };
        let data = Bytes::new();
        match say(sender, ToSite::Call { message, data }).await {
            Err(error) => error,
            Ok(()) => std::future::pending().await,
        }
    };
    let hearing = async {
        loop {
            let message = match hear(receiver).await {
                Ok(message) => message,
                Err(RpcError::Stream(error)) => return Left::Lost(error),
                Err(RpcError::Refused(refusal)) => return Left::Passing(refusal),
                Err(error) => return Left::Failed(error),
            };
            let (heard, data) = match message {
                FromSite::Refused { call, refusal } if call == Some(id) || call.is_none() => {
                    return match refusal.code.as_str() {
                        "rpc_no_client" => Left::Forgotten,
                        code if PASSING.contains(&code) => Left::Passing(refusal),
                        _ => Left::Failed(refusal.into()),
                    };
                }
                FromSite::Status { call, status } => {
                    if let (true, Status::Wants { block }) = (call == id, &status) {
                        wanted.send_if_modified(|wanted| match wanted {
                            None => {
                                *wanted = Some(*block);
                                true
                            }
                            Some(_) => false,
                        });
                    }
                    (ToClient::Status { call, status }, Bytes::new())
                }
                FromSite::Part { call, number, data } => (ToClient::Part { call, number }, data),
                _ => continue, // of a call before on this stream
            };
            let mut action = call.heard(&heard);
            if let Some(ClientAction::Store { number }) = action {
                staging.extend_from_slice(&data);
                action = call.stored(number);
            }
            match action {
                Some(ClientAction::Commit { .. }) => {
                    return Left::Done(Bytes::from(std::mem::take(staging)));
                }
                Some(ClientAction::Fail(why)) => return Left::Failed(no_result(id, why)),
                Some(ClientAction::Store { .. }) | None => {}
            }
        }
    };
    tokio::select! {
        left = hearing => left,
        error = sending => Left::Lost(error),
    }
}

fn no_result(call: CallId, why: NoResult) -> RpcError {
    let over = |what| RpcError::Over { call, what };
    match why {
        NoResult::Failed(failure) => RpcError::Failed { call, failure },
        NoResult::Expired => over("it was not fetched in time"),
        NoResult::Taken => over("its result was taken by another client"),
        NoResult::NoArguments => over("its arguments never arrived, and this client has none"),
        NoResult::Refused(refusal) => {
            RpcError::Refused(Refusal::new("rpc_no_call", refusal.to_string()))
        }
    }
}

async fn say(sender: &mut Sender, message: ToSite) -> Result<(), SessionError> {
    let (kind, [first, data]) = message.encode();
    let mut drafts = VecDeque::from([Draft { kind, first, data }]);
    sender.send_all(&mut drafts).await
}

async fn hear(receiver: &mut Receiver) -> Result<FromSite, RpcError> {
    match receiver.recv().await? {
        Some(message) if message.kind == kumiko_wire::api::kind::REFUSED => {
            Err(kumiko_wire::api::refusal(&message.data).into())
        }
        Some(message) => Ok(FromSite::decode(message.kind, message.data)?),
        None => Err(SessionError::Closed.into()),
    }
}
