//! One gatekeeper, ours or the toolkit's, and a protocol-level client of it: pings, delegations, and jobs from
//! connecting to the word that they are done, step by step. Not here: what is made of the times (`rows`).

use crate::fail::Failure;
use kumiko_client::SiteAddress;
use kumiko_client::gram::{GramClient, Listener, Step};
use kumiko_identity::{Credential, TrustStore};
use kumiko_wire::gram::{GramCode, JobRequest, JobState, Status};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A job that is not done by then is lost.
const DONE_WITHIN: Duration = Duration::from_secs(90);
const ALL_STATES: u32 = 0xF_FFFF;
/// Callbacks that are heard at once: more than there are clients, so that none waits for another's handshake.
const HEARERS: usize = 64;
pub const TRUE: &str = "&(executable=/bin/true)";
const DRY: &str = "&(executable=/bin/true)(dry_run=yes)";

/// Seconds from the connect() of a job to each of its steps, as its client sees them.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    pub greeted: f64,
    pub asked: f64,
    pub given: f64,
    pub answered: f64,
    /// None: it was over before anybody was told that it ran.
    pub active: Option<f64>,
    pub done: f64,
}

pub struct Way {
    client: GramClient,
    site: SiteAddress,
    service: String,
    url: String,
    heard: Arc<Mutex<HashMap<String, Heard>>>,
    hearers: JoinSet<()>,
}

/// What a job has told so far.
#[derive(Default)]
struct Heard {
    active: Option<Instant>,
    end: Option<(JobState, Instant)>,
    waits: Option<oneshot::Sender<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Way {
    pub async fn new(
        credential: &Credential,
        trust: &TrustStore,
        site: SiteAddress,
        service: &str,
    ) -> Result<Way, Failure> {
        let client =
            GramClient::new(credential, trust).map_err(|e| Failure::said("making a client", &e))?;
        let listener = client
            .listen(([127, 0, 0, 1], 0).into(), "localhost")
            .await
            .map_err(|e| Failure::said("listening for callbacks", &e))?;
        let heard = Arc::default();
        let mut hearers = JoinSet::new();
        for _ in 0..HEARERS {
            hearers.spawn(hear(listener.clone(), Arc::clone(&heard)));
        }
        Ok(Way {
            client,
            site,
            service: service.to_owned(),
            url: listener.url().to_owned(),
            heard,
            hearers,
        })
    }

    /// Seconds of one authenticated ping.
    pub async fn ping(&self) -> Result<f64, Failure> {
        let begun = Instant::now();
        pong(self.client.ping(&self.site, &self.service).await)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Delegates, and asks whether a job would be taken.
    pub async fn dry_run(&self) -> Result<(), Failure> {
        let reply = self
            .client
            .submit(&self.site, &self.service, request(DRY, None))
            .await;
        match reply.map_err(|e| Failure::said("a dry run", &e))?.status {
            GramCode::DRY_RUN => Ok(()),
            other => Err(Failure::unexpected(format!(
                "a dry run is answered with {other}"
            ))),
        }
    }

    /// One job, to its end.
    pub async fn job(&self, rsl: &str) -> Result<Steps, Failure> {
        let begun = Instant::now();
        let since = |at: Instant| at.duration_since(begun).as_secs_f64();
        let mut noted = [0.0; 3];
        let submitted = self
            .client
            .submit_noting(
                &self.site,
                &self.service,
                request(rsl, Some(self.url.clone())),
                |step| {
                    let at = match step {
                        Step::Greeted => 0,
                        Step::Asked => 1,
                        Step::Given => 2,
                    };
                    noted[at] = since(Instant::now());
                },
            )
            .await;
        let reply = submitted.map_err(|e| Failure::said("a submission", &e))?;
        let answered = since(Instant::now());
        let (GramCode::SUCCESS, Some(contact)) = (reply.status, reply.contact) else {
            return Err(Failure::unexpected(format!(
                "a job is refused: {}",
                reply.status
            )));
        };
        let (tell, told) = oneshot::channel();
        {
            let mut heard = lock(&self.heard);
            let one = heard.entry(contact.clone()).or_default();
            if one.end.is_none() {
                one.waits = Some(tell);
            } else {
                // Nobody waits for it then.
                let _ = tell.send(());
            }
        }
        // Whether it came is in the map.
        let _ = tokio::time::timeout(DONE_WITHIN, told).await;
        let one = lock(&self.heard).remove(&contact).unwrap_or_default();
        let [greeted, asked, given] = noted;
        match one.end {
            Some((JobState::Done, at)) => Ok(Steps {
                greeted,
                asked,
                given,
                answered,
                active: one.active.map(since),
                done: since(at),
            }),
            Some((state, _)) => Err(Failure::unexpected(format!("a job ended {state:?}"))),
            None => Err(Failure::Deadline {
                what: format!("the end of the job {contact}"),
                within: DONE_WITHIN,
            }),
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.hearers.abort_all();
    }
}

fn request(rsl: &str, callback: Option<String>) -> JobRequest {
    JobRequest {
        state_mask: ALL_STATES,
        callback,
        rsl: rsl.to_owned(),
    }
}

fn pong(status: Result<Status, kumiko_client::gram::GramError>) -> Result<(), Failure> {
    match status.map_err(|e| Failure::said("a ping", &e))? {
        Status::Ok => Ok(()),
        other => Err(Failure::unexpected(format!(
            "a ping is answered with {other:?}"
        ))),
    }
}

async fn hear(listener: Listener, heard: Arc<Mutex<HashMap<String, Heard>>>) {
    while let Ok(callback) = listener.next().await {
        let now = Instant::now();
        let mut heard = lock(&heard);
        let one = heard.entry(callback.contact).or_default();
        match callback.state {
            JobState::Active => one.active = Some(now),
            JobState::Done | JobState::Failed => {
                one.end = Some((callback.state, now));
                if let Some(waits) = one.waits.take() {
                    // Who waited too long is gone.
                    let _ = waits.send(());
                }
            }
            _ => {}
        }
    }
}

/// So many clients at once for so long, each one thing after another: things a second.
pub async fn rate<F>(
    clients: usize,
    lasting: Duration,
    one: impl Fn() -> F + Clone + Send + 'static,
) -> Result<f64, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send,
{
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..clients {
        let one = one.clone();
        all.spawn(async move {
            let mut done = 0_u32;
            while begun.elapsed() < lasting {
                one().await?;
                done += 1;
            }
            Ok::<_, Failure>(done)
        });
    }
    let mut done = 0;
    while let Some(client) = all.join_next().await {
        done += client.map_err(|e| Failure::said("a client's task", &e))??;
    }
    // What is under way when time is up is waited for, and counted with its time.
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}
