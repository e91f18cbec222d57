//! The session with a site and the calls on it.

use crate::attach::{self, Attached};
use crate::dial::Dialer;
use crate::reading::{Broken, Output, Reading, Watch, is_lost};
use crate::{ClientError, SiteAddress};
use bytes::Bytes;
use kumiko_identity::tls::Connector;
use kumiko_identity::{Credential, TrustStore};
use kumiko_job::attempt::{Limits, OutputStream};
use kumiko_job::contract::JobView;
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_session::{Options, Session, SessionError, State, Stream};
use kumiko_wire::api::{self, Done, Narrowed, Request, SiteView, Submitted};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// What is asked by name when TLS begins; the gatekeeper's port serves other things beside.
const ALPN: &[u8] = b"kumiko/1";
/// How long a site may be away (a restart, an upgrade) before what follows it gives up.
const ANEW_WITHIN: Duration = Duration::from_secs(60);
/// Between two tries to reach a site that is away.
const ANEW_EVERY: Duration = Duration::from_millis(250);

/// One session with one site.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dialer: Dialer,
    credential: Credential,
    options: Options,
    current: Mutex<Current>,
}

/// The session in use; `generation` counts how often it was made anew.
#[derive(Debug)]
struct Current {
    generation: u64,
    session: Session,
}

impl Client {
    /// TCP, TLS with both certificates verified, and the session's greeting; the first request needs no further round
    /// trip.
    ///
    /// # Errors
    /// No such host, nobody listening, a certificate that one of the two sides refuses.
    pub async fn connect(
        address: &SiteAddress,
        credential: &Credential,
        trust: &TrustStore,
    ) -> Result<Client, ClientError> {
        Client::connect_with(address, credential, trust, Options::default()).await
    }

    /// As [`Client::connect`], with other limits of the session.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_with(
        address: &SiteAddress,
        credential: &Credential,
        trust: &TrustStore,
        options: Options,
    ) -> Result<Client, ClientError> {
        let connector = Connector::new(Some(credential), trust, &[ALPN]).map_err(|e| {
            ClientError::Credential {
                site: address.clone(),
                cause: e.to_string(),
            }
        })?;
        let dialer = Dialer {
            address: address.clone(),
            connector: Arc::new(connector),
        };
        let session = Session::connect(dialer.clone(), options.clone())
            .await
            .map_err(|cause| ClientError::Connect {
                site: address.clone(),
                cause,
            })?;
        let current = Mutex::new(Current {
            generation: 0,
            session,
        });
        Ok(Client {
            inner: Arc::new(Inner {
                dialer,
                credential: credential.clone(),
                options,
                current,
            }),
        })
    }

    pub fn address(&self) -> &SiteAddress {
        &self.inner.dialer.address
    }

    /// Whether the site answers, as far as is known; if not, it may be back in a moment.
    pub fn is_up(&self) -> bool {
        // Who holds it makes the session anew.
        let Ok(current) = self.inner.current.try_lock() else {
            return false;
        };
        let state = *current.session.state().borrow();
        matches!(state, State::Connecting | State::Connected)
    }

    pub(crate) fn credential(&self) -> &Credential {
        &self.inner.credential
    }

    /// Sends what is queued and says goodbye. Without it the site keeps the session for its resume window.
    pub async fn close(self) {
        let session = self.inner.current.lock().await.session.clone();
        session.close().await;
    }

    /// With a `key`, asking again after an error submits no second job.
    ///
    /// # Errors
    /// Refused by the site, or the link is lost.
    pub async fn submit(
        &self,
        description: JobDescription,
        key: Option<String>,
    ) -> Result<JobId, ClientError> {
        let key = key.unwrap_or_else(fresh_key);
        let request = Request::Submit {
            description,
            key: Some(key),
        };
        let Submitted { job } = self.one(&request, Retry::Yes).await?;
        Ok(job)
    }

    /// All jobs of this subject, oldest first.
    ///
    /// # Errors
    /// Refused by the site, or the link is lost.
    pub async fn list(&self) -> Result<Vec<JobView>, ClientError> {
        let mut reading = self.read(&Request::List).await?;
        let mut views = Vec::new();
        while let Some(message) = reading.next(self).await? {
            views.push(api::reply(&message.data)?);
        }
        Ok(views)
    }

    /// # Errors
    /// No such job, or the link is lost.
    pub async fn show(&self, job: JobId) -> Result<JobView, ClientError> {
        self.one(&Request::Show { job }, Retry::Yes).await
    }

    /// Why a job waits or failed, in sentences.
    ///
    /// # Errors
    /// No such job, or the link is lost.
    pub async fn explain(&self, job: JobId) -> Result<Vec<String>, ClientError> {
        self.one(&Request::Explain { job }, Retry::Yes).await
    }

    /// # Errors
    /// No such job, or the link is lost.
    pub async fn cancel(&self, job: JobId, grace: Option<Duration>) -> Result<(), ClientError> {
        let grace_ms = grace.map(|g| u64::try_from(g.as_millis()).unwrap_or(u64::MAX));
        let Done {} = self
            .one(&Request::Cancel { job, grace_ms }, Retry::Yes)
            .await?;
        Ok(())
    }

    /// A signal by number to the job's process group.
    ///
    /// # Errors
    /// No such job, no such signal, or the link is lost (it may or may not have arrived).
    pub async fn signal(&self, job: JobId, signal: i32) -> Result<(), ClientError> {
        let Done {} = self
            .one(&Request::Signal { job, signal }, Retry::No)
            .await?;
        Ok(())
    }

    /// Other limits of a running job: those that are named.
    ///
    /// # Errors
    /// No such job, more than its policies give, or the link is lost (it may or may not have arrived).
    pub async fn limit(&self, job: JobId, limits: Limits) -> Result<(), ClientError> {
        let Done {} = self
            .one(&Request::Limit { job, limits }, Retry::Yes)
            .await?;
        Ok(())
    }

    /// Narrows what a job may see and reach while it runs, by a text of a policy (spec/policy P89). What of it the job does
    /// not follow, in words.
    ///
    /// # Errors
    /// No such job, more than its policies give, what its mechanism cannot follow, or the link is lost (it may or may not
    /// have arrived).
    pub async fn narrow(&self, job: JobId, policy: &str) -> Result<Vec<String>, ClientError> {
        let policy = policy.to_owned();
        let Narrowed { not_followed } = self
            .one(&Request::Narrow { job, policy }, Retry::Yes)
            .await?;
        Ok(not_followed)
    }

    /// Lets a job begin that was submitted to be held (spec/jobs/together.md).
    ///
    /// # Errors
    /// No such job, one that is not held or has ended, or the link is lost (it may or may not be released).
    pub async fn release(&self, job: JobId) -> Result<(), ClientError> {
        let Done {} = self.one(&Request::Release { job }, Retry::Yes).await?;
        Ok(())
    }

    /// Says that a job that waits for its release is to be held on.
    ///
    /// # Errors
    /// No such job, or the link is lost.
    pub async fn hold(&self, job: JobId) -> Result<(), ClientError> {
        let Done {} = self.one(&Request::Hold { job }, Retry::Yes).await?;
        Ok(())
    }

    /// Ends what runs of a job that may run again, which it does then (spec/jobs J38); on this host, if one is named.
    ///
    /// # Errors
    /// No such job, one that may not run again, or does not run, or cannot run there; or the link is lost (it may or may not have arrived).
    pub async fn migrate(&self, job: JobId, to: Option<&str>) -> Result<(), ClientError> {
        let to = to.map(str::to_owned);
        let request = Request::Migrate { job, to };
        let Done {} = self.one(&request, Retry::No).await?;
        Ok(())
    }

    /// Forgets an ended job, with its output and files.
    ///
    /// # Errors
    /// No such job, not ended yet, or the link is lost (it may or may not be removed).
    pub async fn remove(&self, job: JobId) -> Result<(), ClientError> {
        let Done {} = self.one(&Request::Remove { job }, Retry::No).await?;
        Ok(())
    }

    /// # Errors
    /// The link is lost.
    pub async fn site(&self) -> Result<SiteView, ClientError> {
        self.one(&Request::Site, Retry::Yes).await
    }

    /// The job's events after number `after` (0: all), then as they happen.
    ///
    /// # Errors
    /// No such job (told by the first `next`), or the link is lost.
    pub async fn watch(&self, job: JobId, after: u64) -> Result<Watch, ClientError> {
        let reading = self.read(&Request::Watch { job, after }).await?;
        Ok(Watch {
            client: self.clone(),
            job,
            after,
            reading,
        })
    }

    /// One output stream from byte `from`, followed until the job has ended.
    ///
    /// # Errors
    /// No such job (told by the first `next`), or the link is lost.
    pub async fn output(
        &self,
        job: JobId,
        stream: OutputStream,
        from: u64,
    ) -> Result<Output, ClientError> {
        let reading = self.read(&Request::Output { job, stream, from }).await?;
        Ok(Output {
            client: self.clone(),
            job,
            stream,
            at: from,
            reading,
        })
    }

    /// Submits a job and attaches to it in one round trip. Give it `Stdin::Live` for input, and `OutputMode::Flow` if
    /// nobody reads its output again later.
    ///
    /// # Errors
    /// The link is lost. What the site refuses is told by [`Attached::next`].
    pub async fn exec(&self, description: JobDescription) -> Result<Attached, ClientError> {
        attach::start(
            self,
            attach::Subject::New {
                description: Box::new(description),
                key: fresh_key(),
            },
            true,
            [0, 0],
        )
        .await
    }

    /// Attaches to a job: its output from these offsets, and its stdin, if `stdin` (only one client should).
    ///
    /// # Errors
    /// The link is lost. What the site refuses is told by [`Attached::next`].
    pub async fn attach(
        &self,
        job: JobId,
        stdin: bool,
        stdout_from: u64,
        stderr_from: u64,
    ) -> Result<Attached, ClientError> {
        attach::start(
            self,
            attach::Subject::Job(job),
            stdin,
            [stdout_from, stderr_from],
        )
        .await
    }

    /// A stream of calls of routines (spec/rpc); the session is made anew if it was lost.
    ///
    /// # Errors
    /// The site does not come back.
    pub async fn calls(&self) -> Result<Stream, ClientError> {
        let (_, stream) = self.open(Request::Rpc.encode()).await?;
        Ok(stream)
    }

    /// Opens a stream; makes the session anew first if it is lost.
    pub(crate) async fn open(&self, request: Bytes) -> Result<(u64, Stream), ClientError> {
        let (generation, session) = self.current().await;
        match session.open(request.clone()).await {
            Ok(stream) => Ok((generation, stream)),
            Err(e) if is_lost(&e) => self.open_anew(generation, request).await,
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Opens a stream in a session younger than `generation`, which was lost.
    pub(crate) async fn open_anew(
        &self,
        generation: u64,
        request: Bytes,
    ) -> Result<(u64, Stream), ClientError> {
        let mut current = self.inner.current.lock().await;
        if current.generation == generation {
            current.session = self.dial_anew().await?;
            current.generation += 1;
        }
        let (generation, session) = (current.generation, current.session.clone());
        drop(current);
        let stream = session.open(request).await.map_err(|e| self.failed(e))?;
        Ok((generation, stream))
    }

    async fn current(&self) -> (u64, Session) {
        let current = self.inner.current.lock().await;
        (current.generation, current.session.clone())
    }

    /// Dials until the site is back.
    async fn dial_anew(&self) -> Result<Session, ClientError> {
        let give_up = tokio::time::Instant::now() + ANEW_WITHIN;
        loop {
            match self.answered().await {
                Ok(session) => return Ok(session),
                Err(cause @ SessionError::Refused { .. }) => return Err(self.failed(cause)),
                Err(cause) if tokio::time::Instant::now() >= give_up => {
                    return Err(self.failed(cause));
                }
                Err(cause) => {
                    tracing::debug!(site = %self.address(), %cause, "the site is not back yet")
                }
            }
            tokio::time::sleep(ANEW_EVERY).await;
        }
    }

    /// A session that the site has welcomed: one that is just ending or beginning may take a connection and break it.
    async fn answered(&self) -> Result<Session, SessionError> {
        let inner = &self.inner;
        let session = Session::connect(inner.dialer.clone(), inner.options.clone()).await?;
        let mut state = session.state();
        // An error says that the session is over; then so does what follows.
        let _ = state.wait_for(|state| *state != State::Connecting).await;
        match session.error() {
            Some(cause) => Err(cause),
            None => Ok(session),
        }
    }

    /// A session's error in a user's words.
    pub(crate) fn failed(&self, cause: SessionError) -> ClientError {
        let site = self.address().clone();
        match cause {
            SessionError::Connect(_)
            | SessionError::Refused { .. }
            | SessionError::NoGreeting(_) => ClientError::Connect { site, cause },
            cause if is_lost(&cause) => ClientError::Lost { site, cause },
            cause => ClientError::Stream { site, cause },
        }
    }

    /// Asks for one reply.
    pub(crate) async fn one<T: DeserializeOwned>(
        &self,
        request: &Request,
        retry: Retry,
    ) -> Result<T, ClientError> {
        let mut reading = self.read(request).await?;
        let mut retry = retry;
        loop {
            match reading.message().await {
                Ok(Some(message)) => return Ok(api::reply(&message.data)?),
                Ok(None) => return Err(ClientError::Short { asked: "one reply" }),
                Err(Broken::Session(e)) if retry == Retry::Yes && is_lost(&e) => {
                    retry = Retry::No;
                    reading = reading.anew(self, request).await?;
                }
                Err(broken) => return Err(broken.told(self)),
            }
        }
    }

    /// Opens a stream on which only the site has more to say.
    async fn read(&self, request: &Request) -> Result<Reading, ClientError> {
        let (generation, stream) = self.open(request.encode()).await?;
        Ok(Reading::of(generation, stream))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    Yes,
    No,
}

/// A key that nobody else uses: 128 bits of the randomness that std seeds its hash maps with. It is not a secret.
pub fn fresh_key() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!(
        "{:016x}{:016x}",
        RandomState::new().hash_one(1),
        RandomState::new().hash_one(2)
    )
}
