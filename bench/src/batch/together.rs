//! The row of `bench batch` of jobs that start together (spec/jobs/together.md): 64 at four sites, and what one of them that
//! fails costs the others. Not here: sites that are far apart.

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::{job, or_missing, within};
use crate::site::Site;
use crate::stats::Unit;
use kumiko_client::{Client, Subjob, fresh_key, start_together};
use kumiko_job::barrier::Start;
use kumiko_job::contract::JobView;
use kumiko_job::description::JobDescription;
use kumiko_job::together::Together;
use std::future::pending;
use std::time::{Duration, Instant};

const ALL: &str = "64 subjobs at 4 sites, from submission until all have begun";
const FREED: &str = "one of 65 fails: from its end to that of the last";
const SITES: usize = 4;
const SUBJOBS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at jobs that are being ended.
const ASK: Duration = Duration::from_millis(20);

pub fn together(bench: &Bench) -> Row {
    let at_most = |ours| Goal {
        text: "≤ 1 s",
        ours,
        reach: Reach::AtMost { limit: 1.0 },
    };
    let goals = vec![at_most(ALL), at_most(FREED)];
    let row = Row::new("together", "Jobs that begin together, or not at all", goals);
    or_missing(row, |row| {
        let sites: Vec<Site> = (0..SITES)
            .map(|_| Site::start(bench))
            .collect::<Result<_, _>>()?;
        let clients: Vec<Client> = sites
            .iter()
            .map(|site| bench.runtime.block_on(site.connect()))
            .collect::<Result<_, _>>()?;
        let contenders = vec![
            Contender::new(ALL, Unit::Seconds, || {
                bench.runtime.block_on(all_begin(&clients))
            }),
            Contender::new(FREED, Unit::Seconds, || {
                bench.runtime.block_on(one_fails(&clients))
            }),
        ];
        rounds::take(row, bench.rounds(10), contenders);
        row.note("Sites of fork on one machine, with the client; each job is durable and its sandbox made before it is held.");
        Ok(())
    })
}

fn subjobs(clients: &[Client], last: Option<JobDescription>) -> Vec<Subjob> {
    let sleep = job("/bin/sleep", &["1000"]);
    let all: Vec<JobDescription> = std::iter::repeat_n(sleep, SUBJOBS).chain(last).collect();
    let at = |place: usize| &clients[place % clients.len()];
    let together = Together {
        request: fresh_key(),
        subjob: 0,
        sites: (0..all.len())
            .map(|place| at(place).address().to_string())
            .collect(),
        label: None,
        hold_s: Some(10),
    };
    let subjob = |(place, mut description): (usize, JobDescription)| {
        let together = Together {
            subjob: u32::try_from(place).unwrap_or(u32::MAX),
            ..together.clone()
        };
        description.together = Some(Box::new(together.clone()));
        Subjob {
            client: Ok(at(place).clone()),
            description,
            together,
            start: Start::Strict,
        }
    };
    all.into_iter().enumerate().map(subjob).collect()
}

async fn all_begin(clients: &[Client]) -> Result<f64, Failure> {
    let subjobs = subjobs(clients, None);
    let begun = Instant::now();
    let started = start_together(&subjobs, PATIENCE, pending()).await;
    let took = begun.elapsed().as_secs_f64();
    let placed = started.map_err(|e| Failure::said("starting jobs together", &e))?;
    for (placed, subjob) in placed.iter().zip(&subjobs) {
        if let (Some(job), Ok(client)) = (placed.job, &subjob.client) {
            let cancelled = client.cancel(job, Some(Duration::ZERO)).await;
            cancelled.map_err(|e| Failure::said("cancelling", &e))?;
        }
    }
    ended(clients, &subjobs).await?;
    Ok(took)
}

async fn one_fails(clients: &[Client]) -> Result<f64, Failure> {
    let subjobs = subjobs(clients, Some(job("/no/such/program", &[])));
    if start_together(&subjobs, PATIENCE, pending()).await.is_ok() {
        return Err(Failure::unexpected("jobs began without one of them"));
    }
    let views = ended(clients, &subjobs).await?;
    if views.iter().any(|view| view.started_ms.is_some()) {
        return Err(Failure::unexpected("a job began, and another could not"));
    }
    let end = |view: &JobView| view.ended_ms.unwrap_or_default();
    let failed = views.iter().filter(|view| view.executable != "/bin/sleep");
    let failed = failed.map(end).min().unwrap_or_default();
    let last = views.iter().map(end).max().unwrap_or_default();
    Ok(last.saturating_sub(failed) as f64 / 1e3)
}

/// Waits until all of a request have ended; forgets them.
async fn ended(clients: &[Client], subjobs: &[Subjob]) -> Result<Vec<JobView>, Failure> {
    let request = subjobs.first().map(|one| one.together.request.clone());
    let of_request = |view: &JobView| {
        let own = view.together.as_ref().map(|together| &together.request);
        own == request.as_ref()
    };
    let mut all = Vec::new();
    for client in clients {
        let looking = async {
            loop {
                let mut views = client.list().await?;
                views.retain(of_request);
                if views.iter().all(|view| view.outcome.is_some()) {
                    for view in &views {
                        client.remove(view.id).await?;
                    }
                    return Ok(views);
                }
                tokio::time::sleep(ASK).await;
            }
        };
        let views = within("the end of all jobs", looking).await?;
        all.extend(views.map_err(|e: kumiko_client::ClientError| Failure::said("listing", &e))?);
    }
    Ok(all)
}
