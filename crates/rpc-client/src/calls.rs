//! Calls at one site: numbers, streams, and the conversation until there is a result (spec/rpc P40 to P57). Not here: what follows
//! from what is heard (kumiko-call's client).

use crate::arguments::Arguments;
use crate::conversation::{BLOCK_BYTES, Given, Left, about, once, passes, say, say_all};
use crate::error::RpcError;
use crate::functions::Functions;
use crate::names::Names;
use crate::notes::Notes;
use crate::spare::Spare;
use crate::stages::Stages;
use crate::staging::{Place, Staging, Target, whole};
use crate::streams::{Busy, PAUSE, READ_WITHIN, Streams, again};
use crate::taken::Taken;
use bytes::Bytes;
use kumiko_call::client::{ClientCall, Phase};
use kumiko_call::event::{Invocation, Recorded};
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Status};
use kumiko_client::Client;
use kumiko_idl::{Plan, Signature};
use kumiko_wire::rpc::{Durability, FromSite, ToSite};
use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

/// A result is kept for whoever does not fetch it at once: a day.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// How long a site may refuse for what passes, or be away, before a call is given up here.
const GIVE_UP: Duration = Duration::from_secs(90);
/// Calls that are begun and not over, or behind one that is not: a quarter of what a site takes (P31), which hears a moment later that one is over.
const OPEN_MOST: usize = 4096;
/// So long nothing is over before others are begun all the same.
const STANDS_STILL: Duration = Duration::from_secs(1);
/// A site that is started anew is back within this.
const ANEW_WITHIN: Duration = Duration::from_secs(5);
/// For the next call to come, which says along with its own words that a result was taken.
const SOON: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub durability: Durability,
    /// How long a result is kept that nobody fetches.
    pub keep: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: Durability::default(),
            keep: KEEP,
        }
    }
}

/// A routine that a site has.
#[derive(Clone, Debug)]
pub struct Offered {
    pub signature: Signature,
    /// A call whose process dies may go on from a dump of it (spec/rpc P85).
    pub dumped: bool,
}

/// What is called at one site. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Calls {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    numbers: tokio::sync::Mutex<Option<u64>>,
    count: Mutex<Count>,
    streams: Streams,
    /// One more for each call before which all are over; others wait here.
    admission: Semaphore,
    taken: Taken,
    spare: Spare,
    names: Names,
}

#[derive(Debug, Default)]
struct Count {
    last: u64,
    /// What [`Count::first_open`] was.
    first: u64,
    /// Calls that have begun without admission.
    owed: u64,
    open: BTreeSet<u64>,
    /// Of calls that are begun or attached to here: whether the caller wants them no more.
    unwanted: HashMap<CallId, watch::Sender<bool>>,
}

impl Count {
    fn first_open(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.last + 1)
    }
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
        let first = count.first_open();
        let more = first.saturating_sub(count.first);
        count.first = first;
        let paid = more.min(count.owed);
        count.owed -= paid;
        let more = usize::try_from(more - paid).unwrap_or(0);
        self.inner.admission.add_permits(more);
    }
}

impl Calls {
    pub fn new(client: Client, settings: Settings) -> Calls {
        Calls {
            inner: Arc::new(Inner {
                settings,
                numbers: tokio::sync::Mutex::new(None),
                count: Mutex::default(),
                streams: Streams::of(client),
                admission: Semaphore::new(OPEN_MOST),
                taken: Taken::default(),
                spare: Spare::default(),
                names: Names::default(),
            }),
        }
    }

    /// Its calls are noted there, under this name of the site: the note of one that is begun anew goes with it.
    pub fn noted(&self, notes: Notes, site: String) {
        self.inner.names.note(notes, site);
    }

    /// What this call is named now: another name than before, if it was not to outlive a site that was started anew.
    pub fn name_now(&self, call: CallId) -> CallId {
        self.inner.names.now(call)
    }

    /// It is a clone of this one.
    pub fn is(&self, other: &Calls) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// All routines of the site, by name.
    ///
    /// # Errors
    /// The site's refusal, or the link is lost.
    pub async fn routines(&self) -> Result<Vec<Offered>, RpcError> {
        self.offered("").await
    }

    /// # Errors
    /// There is none of this name, or the link is lost.
    pub async fn signature(&self, routine: &str) -> Result<Signature, RpcError> {
        let offered = self.offered(routine).await?.pop();
        let offered = offered.ok_or(RpcError::Unexpected)?;
        Ok(offered.signature)
    }

    /// Not for long: another site may be asked.
    async fn offered(&self, routine: &str) -> Result<Vec<Offered>, RpcError> {
        again(ANEW_WITHIN, || self.offered_once(routine)).await
    }

    async fn offered_once(&self, routine: &str) -> Result<Vec<Offered>, RpcError> {
        let mut stream = self.inner.streams.get().await?;
        let routine = routine.to_owned();
        say(&mut stream.sender, ToSite::Signature { routine }).await?;
        let mut offered = Vec::new();
        loop {
            match stream.hear(None).await? {
                FromSite::Routine { signature, .. } if signature.is_empty() => break,
                FromSite::Routine { dumped, signature } => {
                    let signature = Signature::from_text(&signature)?;
                    offered.push(Offered { signature, dumped });
                }
                FromSite::Refused { refusal, .. } => return Err(refusal.into()),
                _ => return Err(RpcError::Unexpected),
            }
        }
        self.inner.streams.keep(stream);
        Ok(offered)
    }

    /// What the site has recorded of a call, in order; nothing, if that was not to be.
    ///
    /// # Errors
    /// It is not known there, or is another's; or the link is lost.
    pub async fn record(&self, call: CallId) -> Result<Vec<Recorded>, RpcError> {
        let call = self.name_now(call);
        let mut stream = self.inner.streams.get().await?;
        say(&mut stream.sender, ToSite::Record { call }).await?;
        let mut all = Vec::new();
        loop {
            match stream.hear(Some(call)).await? {
                FromSite::Recorded { one: Some(one), .. } => all.push(one),
                FromSite::Recorded { one: None, .. } => break,
                FromSite::Refused { refusal, .. } => return Err(refusal.into()),
                _ => {} // of the same call, when it was spoken about on this stream
            }
        }
        self.inner.streams.keep(stream);
        Ok(all)
    }

    /// Has a call that computes go on elsewhere, or on a host that its site has a pilot on. The epoch of the attempt that ends for that;
    /// None: it does not compute, or ended just now.
    ///
    /// # Errors
    /// It is not known there, is another's, its routine makes no checkpoints, or there is no such host; or the link is lost.
    pub async fn migrate(&self, call: CallId, to: Option<&str>) -> Result<Option<u32>, RpcError> {
        let call = self.name_now(call);
        let mut stream = self.inner.streams.get().await?;
        let mut message = FromClient::Ask { call };
        let mut asked = None;
        let epoch = loop {
            say(&mut stream.sender, about(message)).await?;
            let status = loop {
                match stream.hear(Some(call)).await? {
                    FromSite::Status { status, .. } => break status,
                    FromSite::Refused { refusal, .. } => return Err(refusal.into()),
                    FromSite::Part { .. } | FromSite::Asks { .. } => {}
                    _ => return Err(RpcError::Unexpected),
                }
            };
            match status {
                Status::Computing { epoch, .. } if asked.is_none() => {
                    asked = Some(epoch);
                    let to = to.map(str::to_owned);
                    message = FromClient::Migrate { call, epoch, to };
                }
                Status::Computing { epoch, .. } if asked == Some(epoch) => break asked,
                _ => break None,
            }
        };
        // What the site still says of the call on it is nobody else's to hear: it is not kept.
        Ok(epoch)
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
            match again(GIVE_UP, || self.register_once()).await {
                Err(RpcError::Refused(refusal)) if passes(&refusal) && Instant::now() < give_up => {
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    async fn register_once(&self) -> Result<u64, RpcError> {
        let mut stream = self.inner.streams.get().await?;
        let durability = self.inner.settings.durability;
        say(&mut stream.sender, ToSite::Register { durability }).await?;
        match stream.hear(None).await? {
            FromSite::Registered { client } => {
                self.inner.streams.keep(stream);
                Ok(client)
            }
            FromSite::Refused { refusal, .. } => Err(refusal.into()),
            _ => Err(RpcError::Unexpected),
        }
    }

    /// Computes one call, until there is its result: the bytes that come back, as the plan of `arguments` says, but for arrays that have a
    /// place. What else they are to be put into is not touched before all of them are here.
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn call(
        &self,
        id: CallId,
        routine: &str,
        arguments: &Arguments,
    ) -> Result<Bytes, RpcError> {
        let stages = Stages::default();
        self.call_seen(id, routine, arguments, &stages).await
    }

    /// All before it are over here.
    fn first_open(&self) -> u64 {
        lock(&self.inner.count).first_open()
    }

    /// A call is begun when not too many are that the site may not forget, for one before them is not over.
    async fn admit(&self) {
        let mut permit = pin!(self.inner.admission.acquire());
        let mut first = self.first_open();
        loop {
            // It is never closed.
            if let Ok(permit) = tokio::time::timeout(STANDS_STILL, &mut permit).await {
                return permit.map_or((), SemaphorePermit::forget);
            }
            // Long ones, or the oldest is behind this one: the site counts too, and takes more.
            let mut count = lock(&self.inner.count);
            if count.first_open() == first {
                count.owed += 1;
                return;
            }
            first = count.first_open();
        }
    }

    /// As [`Calls::call`], with how far it is to be seen by others.
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn call_seen(
        &self,
        id: CallId,
        routine: &str,
        arguments: &Arguments,
        stages: &Stages,
    ) -> Result<Bytes, RpcError> {
        self.call_among((id, routine, arguments), stages, false)
            .await
    }

    /// `others`: there are other sites, so that it is not waited for until this one takes it.
    pub(crate) async fn call_among(
        &self,
        (id, routine, arguments): (CallId, &str, &Arguments),
        stages: &Stages,
        others: bool,
    ) -> Result<Bytes, RpcError> {
        let keep = self.inner.settings.keep.as_millis();
        let invocation = Invocation {
            routine: routine.to_owned(),
            in_bytes: arguments.plan.in_bytes,
            block_bytes: BLOCK_BYTES,
            keep_ms: u64::try_from(keep).unwrap_or(u64::MAX),
        };
        let call = ClientCall::invoke(id, self.first_open(), invocation);
        let form = Form {
            arguments: Some(arguments),
            plan: Some(&arguments.plan),
            targets: arguments.targets(),
            places: arguments.places(),
            others,
        };
        let came = self.converse(call, form, stages).await;
        stages.over();
        if let Err(RpcError::Unread { .. }) = came {
            // The site need not keep what it has of it. Best effort: it expires otherwise.
            let _ = tokio::time::timeout(READ_WITHIN, self.abandon(id)).await;
        }
        whole(id, &arguments.plan, came?)
    }

    /// The result of a call that another client, or this one before it died, has begun.
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn attach(&self, id: CallId) -> Result<Bytes, RpcError> {
        let call = ClientCall::attach(self.name_now(id));
        let stages = Stages::default();
        let (bytes, _) = self.converse(call, Form::default(), &stages).await?;
        Ok(bytes)
    }

    /// As [`Calls::attach`], of a call of which it is known where everything stands: its files go to the targets, and arrays to their places
    /// (none, if it has files).
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn attach_to(
        &self,
        id: CallId,
        plan: &Plan,
        targets: &[Target],
        places: &[Place],
    ) -> Result<Bytes, RpcError> {
        let form = Form {
            plan: Some(plan),
            targets,
            places,
            ..Form::default()
        };
        let stages = Stages::default();
        let call = ClientCall::attach(self.name_now(id));
        let came = self.converse(call, form, &stages).await?;
        whole(id, plan, came)
    }

    /// Says soon that the result is where it belongs (P42), or that nobody wants it. Best effort: it expires otherwise. Needs a tokio
    /// runtime around it.
    pub fn acknowledge(&self, call: CallId) {
        let call = self.name_now(call);
        if self.inner.taken.add(call) {
            let calls = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(SOON).await;
                if let Err(error) = calls.say_taken().await {
                    tracing::debug!(%error, "that results were taken is said with the next call");
                }
            });
        }
    }

    async fn abandon(&self, call: CallId) -> Result<(), RpcError> {
        self.cancel(call).await?;
        self.until_over(call).await
    }

    async fn say_taken(&self) -> Result<(), RpcError> {
        // Nothing is held back while this waits behind thousands of calls, which would say it.
        let stream = self.inner.streams.get().await?;
        let saying = self.inner.taken.soon();
        let Some(last) = saying.calls().last().copied() else {
            return Ok(());
        };
        self.until_all_over(stream, saying.calls(), last).await?;
        saying.was_heard();
        Ok(())
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
        let call = self.name_now(call);
        let mut stream = self.inner.streams.get().await?;
        let said = about(FromClient::Cancel { call });
        say(&mut stream.sender, said).await?;
        self.inner.streams.keep(stream);
        Ok(())
    }

    /// The same of a call that nobody here waits for: how it has ended. It may have had its result before.
    ///
    /// # Errors
    /// It is not known there, or is another's; or the link is lost.
    pub async fn cancel_to_end(&self, call: CallId) -> Result<Status, RpcError> {
        let call = self.name_now(call);
        let mut stream = self.inner.streams.get().await?;
        let said = [FromClient::Cancel { call }, FromClient::Ask { call }];
        say_all(&mut stream.sender, said.into_iter().map(about)).await?;
        loop {
            match stream.hear(Some(call)).await? {
                FromSite::Status {
                    status:
                        status @ (Status::Failed(_) | Status::Result { .. } | Status::Over { .. }),
                    ..
                } => return Ok(status),
                FromSite::Refused { refusal, .. } => return Err(refusal.into()),
                _ => {} // it is being ended
            }
        }
    }

    /// Waits until the site has read what was said, though not for long, and says goodbye.
    pub async fn close(self) {
        // What it does not hear expires.
        let _ = tokio::time::timeout(READ_WITHIN, self.say_taken()).await;
        self.inner.streams.close().await;
    }

    /// Waits until the site says that the call is over, after [`Calls::acknowledge`] by a program that ends now.
    ///
    /// # Errors
    /// The link is lost.
    pub async fn until_over(&self, call: CallId) -> Result<(), RpcError> {
        let call = self.name_now(call);
        let stream = self.inner.streams.get().await?;
        self.until_all_over(stream, &[call], call).await
    }

    /// `last` is one of them.
    async fn until_all_over(
        &self,
        mut stream: Busy<'_>,
        calls: &[CallId],
        last: CallId,
    ) -> Result<(), RpcError> {
        let acknowledged = calls.iter().map(|&call| FromClient::Acknowledge { call });
        let asked = FromClient::Ask { call: last };
        say_all(&mut stream.sender, acknowledged.chain([asked]).map(about)).await?;
        loop {
            match stream.hear(Some(last)).await? {
                FromSite::Status {
                    status: Status::Over { .. },
                    ..
                } => break,
                FromSite::Refused {
                    call: Some(_),
                    refusal,
                } => {
                    self.inner.streams.keep(stream);
                    return match passes(&refusal) {
                        true => Err(refusal.into()),
                        false => Ok(()), // it is not known there any more
                    };
                }
                _ => {}
            }
        }
        self.inner.streams.keep(stream);
        Ok(())
    }

    async fn converse(
        &self,
        mut call: ClientCall,
        form: Form<'_>,
        stages: &Stages,
    ) -> Result<(Bytes, u64), RpcError> {
        let mut open = Open::new(&self.inner, call.id);
        let unwanted = &mut open.unwanted;
        let mut give_up = Instant::now() + GIVE_UP;
        // As long as what was asked for says; what a site says by itself reserves nothing.
        let out_bytes = form.plan.map_or(0, |plan| plan.out_bytes);
        let mut staging = Staging::new(out_bytes, form.targets, form.places);
        let mut functions = Functions::new(form.arguments.and_then(Arguments::functions));
        if call.invocation.is_some() {
            tokio::select! {
                () = self.admit() => {}
                // That is told to the site.
                _ = unwanted.wait_for(|unwanted| *unwanted) => lock(&self.inner.count).owed += 1,
            }
        }
        let mut first = true;
        loop {
            let mut stream = self.inner.streams.get().await?;
            if call.invocation.is_some() {
                // Of thousands that are begun at once most have waited for this stream, and many are over meanwhile.
                call.first_open = self.first_open();
            }
            let begun = Instant::now();
            // The first time nothing of it can be there: blocks follow at once.
            let ahead = std::mem::take(&mut first) && call.invocation.is_some();
            let saying = self.inner.taken.say();
            let given = Given {
                taken: saying.calls(),
                arguments: form.arguments,
                ahead,
                others: form.others,
                unwanted,
                functions: &mut functions,
                staging: &mut staging,
                stages,
                spare: &self.inner.spare,
            };
            stages.said();
            let both = (&mut stream.sender, &mut stream.receiver);
            let left = once(both, &mut call, given).await;
            match left {
                Left::Done => saying.was_heard(),
                _ => drop(saying),
            }
            match left {
                Left::Done => {
                    let done = staging.finish(form.plan)?;
                    call.committed();
                    self.inner.streams.keep(stream);
                    return Ok(done);
                }
                Left::Failed(error) => {
                    // What of it is on its way on this stream is nobody's; of a failure the site needs no longer know.
                    if matches!(error, RpcError::Failed { .. }) {
                        self.inner.streams.keep(stream);
                        self.acknowledge(call.id);
                    }
                    return Err(match functions.failed.take() {
                        Some(what) => RpcError::Function {
                            call: call.id,
                            what,
                        },
                        None => error,
                    });
                }
                Left::Lost(cause) => {
                    if begun.elapsed() > PAUSE {
                        give_up = Instant::now() + GIVE_UP; // it had been there
                    }
                    self.inner.streams.lost();
                    if Instant::now() >= give_up {
                        return Err(cause.into());
                    }
                    tracing::debug!(call = %call.id, %cause, "the stream is lost; the call goes on");
                }
                Left::Passing(refusal) => {
                    // What was said behind what is refused is refused as well, maybe later: not on the stream that goes on (P54).
                    drop(stream);
                    if Instant::now() >= give_up {
                        return Err(refusal.into());
                    }
                }
                Left::Forgotten => {
                    let Some(invocation) = call.invocation.clone() else {
                        let what = "the site was started anew, and it was not to outlive that";
                        return Err(RpcError::Over {
                            call: call.id,
                            what,
                        });
                    };
                    self.inner.streams.keep(stream);
                    let old = call.id.client;
                    {
                        let mut number = self.inner.numbers.lock().await;
                        if *number == Some(old) {
                            *number = None;
                        }
                    }
                    let id = self.number().await?;
                    drop(Open::new(&self.inner, id)); // who waits knows the number before
                    self.inner.names.rename(call.id, id);
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

/// What goes in, and how what comes back is understood.
#[derive(Default)]
struct Form<'a> {
    arguments: Option<&'a Arguments>,
    plan: Option<&'a Plan>,
    targets: &'a [Target],
    places: &'a [Place],
    /// There are other sites.
    others: bool,
}
