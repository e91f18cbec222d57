//! `bench globus`: a protocol-level client of GRAM against a site of ours, and against a gatekeeper of the Globus Toolkit
//! where one is up (testbeds/globus). One process, so that both sides are asked by the same hands; times are the client's.
//!
//! Not here: the toolkit's own commands (e2e), whose start-up is most of their time.

use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::site::Site;
use clap::Args;
use kumiko_client::SiteAddress;
use kumiko_client::gram::{GramClient, Listener};
use kumiko_identity::{Credential, TrustStore};
use kumiko_wire::gram::{GramCode, JobRequest, JobState, Status};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, oneshot};

/// A job that is not done by then is told as lost.
const DONE_WITHIN: Duration = Duration::from_secs(60);
const ALL_STATES: u32 = 0xF_FFFF;
const RSL: &str = "&(executable=/bin/true)";

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Pings and jobs for the distribution of times, one after another.
    #[arg(long, default_value_t = 1000)]
    pub rounds: usize,
    /// Clients at once, for the rates.
    #[arg(long, default_value_t = 8)]
    pub clients: usize,
    /// For each rate, seconds.
    #[arg(long, default_value_t = 10)]
    pub rate_s: u64,
    /// A gatekeeper of the toolkit, HOST:PORT/SERVICE; with the proxy and trust directory of --proxy and --trust.
    #[arg(long, value_name = "CONTACT", requires = "proxy", requires = "trust")]
    pub peer: Option<String>,
    #[arg(long, value_name = "FILE")]
    pub proxy: Option<PathBuf>,
    #[arg(long, value_name = "DIR")]
    pub trust: Option<PathBuf>,
}

/// What was measured of one side, milliseconds or per second.
#[derive(Debug, serde::Serialize)]
struct Side {
    name: String,
    ping_ms: Spread,
    job_ms: Spread,
    pings_a_second: f64,
    jobs_a_second: f64,
    lost: usize,
}

#[derive(Debug, serde::Serialize)]
struct Spread {
    least: f64,
    median: f64,
    p90: f64,
    p99: f64,
    most: f64,
    samples: usize,
}

impl Spread {
    fn of(mut ms: Vec<f64>) -> Spread {
        ms.sort_by(f64::total_cmp);
        let at = |part: f64| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let index = ((ms.len().saturating_sub(1)) as f64 * part).round() as usize;
            ms.get(index).copied().unwrap_or(f64::NAN)
        };
        Spread {
            least: at(0.0),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            most: at(1.0),
            samples: ms.len(),
        }
    }
}

/// A gatekeeper, and a client of it whose listener sorts what jobs tell.
struct Way {
    client: GramClient,
    site: SiteAddress,
    service: String,
    url: String,
    ends: Arc<Mutex<Ends>>,
}

/// Ends by contact: who waits for one, and those that came before somebody did.
#[derive(Default)]
struct Ends {
    waiting: HashMap<String, oneshot::Sender<JobState>>,
    early: HashMap<String, JobState>,
}

impl Way {
    async fn new(
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
        let (url, ends) = (listener.url().to_owned(), Arc::default());
        for _ in 0..4 {
            tokio::spawn(sort(listener.clone(), Arc::clone(&ends)));
        }
        Ok(Way {
            client,
            site,
            service: service.to_owned(),
            url,
            ends,
        })
    }

    async fn ping(&self) -> Result<f64, Failure> {
        let begun = Instant::now();
        let status = self.client.ping(&self.site, &self.service).await;
        match status.map_err(|e| Failure::said("a ping", &e))? {
            Status::Ok => Ok(begun.elapsed().as_secs_f64() * 1e3),
            other => Err(Failure::unexpected(format!(
                "a ping is answered with {other:?}"
            ))),
        }
    }

    /// From connecting to the word that it is done; None: it was not done in time.
    async fn job(&self) -> Result<Option<f64>, Failure> {
        let begun = Instant::now();
        let request = JobRequest {
            state_mask: ALL_STATES,
            callback: Some(self.url.clone()),
            rsl: RSL.to_owned(),
        };
        let submitted = self.client.submit(&self.site, &self.service, request).await;
        let reply = submitted.map_err(|e| Failure::said("a submission", &e))?;
        let (GramCode::SUCCESS, Some(contact)) = (reply.status, reply.contact) else {
            return Err(Failure::unexpected(format!(
                "a job is refused: {}",
                reply.status
            )));
        };
        let (tell, told) = oneshot::channel();
        {
            let mut ends = self.ends.lock().await;
            if ends.early.remove(&contact).is_some() {
                return Ok(Some(begun.elapsed().as_secs_f64() * 1e3));
            }
            ends.waiting.insert(contact, tell);
        }
        match tokio::time::timeout(DONE_WITHIN, told).await {
            Ok(Ok(JobState::Done)) => Ok(Some(begun.elapsed().as_secs_f64() * 1e3)),
            _ => Ok(None),
        }
    }
}

async fn sort(listener: Listener, ends: Arc<Mutex<Ends>>) {
    while let Ok(callback) = listener.next().await {
        if !matches!(callback.state, JobState::Done | JobState::Failed) {
            continue;
        }
        let mut ends = ends.lock().await;
        match ends.waiting.remove(&callback.contact) {
            Some(waits) => {
                // Who waited too long is gone.
                let _ = waits.send(callback.state);
            }
            None => {
                ends.early.insert(callback.contact, callback.state);
            }
        }
    }
}

async fn side(name: &str, way: Way, options: &Options) -> Result<Side, Failure> {
    let way = Arc::new(way);
    let mut lost = 0;
    // What is made once is made.
    way.ping().await?;
    way.job().await?;
    let (mut pings, mut jobs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        pings.push(way.ping().await?);
        match way.job().await? {
            Some(ms) => jobs.push(ms),
            None => lost += 1,
        }
    }
    let pings_a_second = rate(&way, options, false).await?;
    let jobs_a_second = rate(&way, options, true).await?;
    Ok(Side {
        name: name.to_owned(),
        ping_ms: Spread::of(pings),
        job_ms: Spread::of(jobs),
        pings_a_second,
        jobs_a_second,
        lost,
    })
}

/// Of so many clients at once, each one thing after another.
async fn rate(way: &Arc<Way>, options: &Options, jobs: bool) -> Result<f64, Failure> {
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.rate_s);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..options.clients {
        let way = Arc::clone(way);
        clients.spawn(async move {
            let mut done = 0_u32;
            while Instant::now() < end {
                if jobs {
                    way.job().await?;
                } else {
                    way.ping().await?;
                }
                done += 1;
            }
            Ok::<_, Failure>(done)
        });
    }
    let mut done = 0;
    while let Some(client) = clients.join_next().await {
        done += client.map_err(|e| Failure::said("a client's task", &e))??;
    }
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

/// Measures, prints a table, and writes it as JSON.
pub fn run(options: &Options) -> Result<PathBuf, Failure> {
    let bench = Bench::programs()?;
    let site = Site::start(&bench)?;
    let (credential, trust, address) = site.gram()?;
    let mut sides = Vec::new();
    sides.push(bench.runtime.block_on(async {
        let way = Way::new(&credential, &trust, address, "jobmanager").await?;
        side("kumiko", way, options).await
    })?);
    if let (Some(peer), Some(proxy), Some(trust)) = (&options.peer, &options.proxy, &options.trust)
    {
        let (address, service) = peer.split_once('/').unwrap_or((peer, "jobmanager"));
        let address = address
            .parse()
            .map_err(|e| Failure::said("reading --peer", &e))?;
        let credential =
            Credential::load(proxy).map_err(|e| Failure::said("loading the proxy", &e))?;
        let trust = TrustStore::load(trust)
            .map_err(|e| Failure::said("loading the trust directory", &e))?;
        sides.push(bench.runtime.block_on(async {
            let way = Way::new(&credential, &trust, address, service).await?;
            side("GCT", way, options).await
        })?);
    }
    for side in &sides {
        eprintln!("{}", line(side));
    }
    let folder = PathBuf::from("target/bench/globus");
    std::fs::create_dir_all(&folder).doing(|| format!("making {}", folder.display()))?;
    let path = folder.join("globus.json");
    let text = serde_json::to_string_pretty(&sides)
        .map_err(|e| Failure::said("writing what was measured", &e))?;
    std::fs::write(&path, text).doing(|| format!("writing {}", path.display()))?;
    Ok(path)
}

fn line(side: &Side) -> String {
    let spread = |s: &Spread| {
        format!(
            "{:.1} {:.1} {:.1} {:.1} {:.1} of {}",
            s.least, s.median, s.p90, s.p99, s.most, s.samples
        )
    };
    format!(
        "{}: ping ms (least median p90 p99 most) {}; job to DONE ms {}; {:.0} pings/s, {:.1} jobs/s, {} lost",
        side.name,
        spread(&side.ping_ms),
        spread(&side.job_ms),
        side.pings_a_second,
        side.jobs_a_second,
        side.lost
    )
}
