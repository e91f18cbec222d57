//! Jobs at several sites that start together, or not at all (spec/jobs/together.md, T10 to T16): what each site says is
//! told to the barrier, and what it orders is done at once. Not here: the barrier (kumiko-job), what a site does (manager).

use crate::surely::NotTaken;
use crate::{Client, ClientError};
use kumiko_job::barrier::{Barrier, Order, Phase, Seen, Start};
use kumiko_job::description::JobDescription;
use kumiko_job::event::{HELD, PLANNED, STARTED};
use kumiko_job::explain;
use kumiko_job::id::JobId;
use kumiko_job::together::Together;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often one says that a job is to be held on, in the time that one word of it holds: some may be lost on the way.
const WORDS: u32 = 4;
/// How long sites may take to free what they are told to; then they free it by themselves, once nobody holds it on.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// One job, and the site that is to have it.
#[derive(Debug)]
pub struct Subjob {
    /// Or why there is no session with its site.
    pub client: Result<Client, String>,
    /// Its `together` says which of them it is.
    pub description: JobDescription,
    pub together: Together,
    pub start: Start,
}

/// Where a subjob is when all have started.
#[derive(Clone, Debug)]
pub struct Placed {
    /// None: no site has it.
    pub job: Option<JobId>,
    /// It was not waited for, or not any longer.
    pub left_out: Option<String>,
}

/// Why they have not started.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct NotTogether {
    pub why: String,
    /// Places of those of which it is not known that they are free; their sites free them soon.
    pub left: Vec<usize>,
}

/// Starts all of them, or none: waits as long as `patience` for all to be ready, and again for all to have begun. `stop`
/// ends it. Where some may begin without the others they are told in the answer.
///
/// # Errors
/// Nothing runs, but for what `left` names.
pub async fn start_together(
    subjobs: &[Subjob],
    patience: Duration,
    stop: impl Future<Output = ()>,
) -> Result<Vec<Placed>, NotTogether> {
    let starts: Vec<Start> = subjobs.iter().map(|subjob| subjob.start).collect();
    let (said, mut heard) = unbounded_channel();
    let mut tasks = JoinSet::new();
    for (place, subjob) in subjobs.iter().enumerate() {
        let teller = Teller {
            place,
            said: said.clone(),
        };
        match &subjob.client {
            Ok(client) => drop(tasks.spawn(teller.follow(
                client.clone(),
                subjob.description.clone(),
                subjob.together.key(subjob.together.subjob),
                patience,
            ))),
            Err(why) => teller.say(Said::Seen(Seen::Refused(why.clone()))),
        }
    }
    let hold_s = subjobs.iter().filter_map(|one| one.together.hold_s).min();
    let mut words = interval(Duration::from_secs(hold_s.unwrap_or(1)) / WORDS);
    words.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = pin!(stop);
    let mut stopped = false;
    let mut until = Instant::now() + patience;
    let mut barrier = Barrier::new(&starts);
    let nobody = Placed {
        job: None,
        left_out: None,
    };
    let mut placed = vec![nobody; subjobs.len()];
    let mut unsure = BTreeSet::new();
    while !barrier.is_over() {
        let before = barrier.phase().clone();
        let orders = tokio::select! {
            said = heard.recv() => match said {
                Some((place, Said::Taken(job))) => {
                    placed[place].job = Some(job);
                    barrier.see(place, Seen::Taken)
                }
                Some((place, Said::Seen(seen))) => {
                    if let Seen::Refused(why) | Seen::Unsure(why) | Seen::Over(why) = &seen {
                        placed[place].left_out = Some(why.clone());
                    }
                    if let Seen::Unsure(_) = &seen {
                        unsure.insert(place);
                    }
                    barrier.see(place, seen)
                }
                None => break, // `said` is here: it is never closed
            },
            () = sleep_until(until) => match before {
                Phase::Freed(_) => break,
                _ => barrier.time_up(),
            },
            () = &mut stop, if !stopped => {
                stopped = true;
                barrier.cancel("it was interrupted")
            }
            _ = words.tick() => {
                hold_on(&mut tasks, subjobs, &placed, &barrier);
                Vec::new()
            }
        };
        if *barrier.phase() != before {
            until = Instant::now()
                + match barrier.phase() {
                    Phase::Freed(_) => FREE_WITHIN,
                    _ => patience,
                };
        }
        for order in orders {
            let (Order::Release(place) | Order::Cancel(place)) = order;
            let (Some(job), Ok(client)) = (placed[place].job, &subjobs[place].client) else {
                continue; // nothing is ordered of one that no site has
            };
            let client = client.clone();
            let teller = Teller {
                place,
                said: said.clone(),
            };
            tasks.spawn(async move {
                // A release that does not arrive is noticed by the time, a cancel by what its site says then.
                let done = match order {
                    Order::Release(_) => client.release(job).await,
                    Order::Cancel(_) => client.cancel(job, Some(Duration::ZERO)).await,
                };
                if let Err(error) = done {
                    tracing::debug!(place = teller.place, %job, %error, "{order:?} is not carried out");
                }
            });
        }
    }
    tasks.abort_all();
    match barrier.phase() {
        Phase::Freed(why) => Err(NotTogether {
            why: why.clone(),
            left: barrier.left().chain(unsure).collect(),
        }),
        _ => Ok(placed),
    }
}

/// Says of all that wait that they are to be held on.
fn hold_on(tasks: &mut JoinSet<()>, subjobs: &[Subjob], placed: &[Placed], barrier: &Barrier) {
    while tasks.try_join_next().is_some() {}
    for (place, subjob) in subjobs.iter().enumerate() {
        if let (Some(job), Ok(client), true) =
            (placed[place].job, &subjob.client, barrier.holds(place))
        {
            let client = client.clone();
            tasks.spawn(async move {
                if let Err(error) = client.hold(job).await {
                    tracing::debug!(place, %job, %error, "it is not held on");
                }
            });
        }
    }
}

enum Said {
    Taken(JobId),
    Seen(Seen),
}

/// Tells what is heard of one subjob.
struct Teller {
    place: usize,
    said: UnboundedSender<(usize, Said)>,
}

impl Teller {
    fn say(&self, said: Said) {
        let _ = self.said.send((self.place, said)); // nobody waits for it any more
    }

    async fn follow(
        self,
        client: Client,
        description: JobDescription,
        key: String,
        patience: Duration,
    ) {
        let job = match client.submit_surely(description, &key, patience).await {
            Ok(job) => job,
            Err(NotTaken::Refused(refusal)) => {
                return self.say(Said::Seen(Seen::Refused(refusal.to_string())));
            }
            Err(NotTaken::Unsure { why }) => return self.say(Said::Seen(Seen::Unsure(why))),
        };
        self.say(Said::Taken(job));
        if let Err(error) = self.watch(&client, job).await {
            self.say(Said::Seen(Seen::Unsure(error.to_string())));
        }
    }

    async fn watch(&self, client: &Client, job: JobId) -> Result<(), ClientError> {
        let mut events = client.watch(job, 0).await?;
        while let Some(event) = events.next().await? {
            let seen = match event.kind.as_str() {
                // Nothing of the first.
                PLANNED => Seen::Again,
                HELD => Seen::Held,
                STARTED => Seen::Begun,
                _ if event.state.has_ended() => {
                    let how = event.outcome.as_ref().map(explain::outcome);
                    Seen::Over(how.unwrap_or(event.text))
                }
                _ => continue,
            };
            let over = matches!(seen, Seen::Over(_));
            self.say(Said::Seen(seen));
            if over {
                return Ok(());
            }
        }
        self.say(Said::Seen(Seen::Over("it was removed".to_owned())));
        Ok(())
    }
}
