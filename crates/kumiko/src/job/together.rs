//! `kumiko job submit --rsl '+(&...)(&...)'`: jobs at several sites, all of them or none (spec/jobs/together.md).
//! Not here: the start itself (`kumiko-client`), what RSL means (`kumiko-job`).

use super::{describe, run};
use crate::args::{Format, Submit};
use crate::attached::{self, Interrupt};
use crate::connect;
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::output::{self, Show};
use kumiko_client::{Client, NotTogether, Placed, Subjob, fresh_key, start_together};
use kumiko_job::barrier::Start;
use kumiko_job::description::Stdin;
use kumiko_job::id::JobId;
use kumiko_job::rsl;
use kumiko_job::together::Together;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// A client that says nothing for so long is gone: what it holds is freed.
const HOLD_S: u64 = 10;

/// One subjob where it is.
#[derive(Serialize)]
struct There<'p> {
    subjob: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'p str>,
    contact: &'p str,
    job: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<&'p str>,
}

impl Show for There<'_> {
    fn human(&self) -> String {
        match self.job {
            Some(job) => format!("{} {job}", self.contact),
            None => format!("{} -", self.contact),
        }
    }
}

/// The sessions and what is to start in them.
struct Request {
    clients: BTreeMap<String, Result<Client, String>>,
    subjobs: Vec<Subjob>,
}

impl Request {
    /// Reaches all sites, and sends what they need before.
    async fn of(submit: &Submit, parts: Vec<rsl::Subjob>, home: &Home) -> Result<Request, Failure> {
        let mut request = Request {
            clients: BTreeMap::new(),
            subjobs: Vec::new(),
        };
        let filled = request.fill(submit, parts, home).await;
        match filled {
            Ok(()) => Ok(request),
            Err(failure) => {
                request.close().await;
                Err(failure)
            }
        }
    }

    async fn fill(
        &mut self,
        submit: &Submit,
        parts: Vec<rsl::Subjob>,
        home: &Home,
    ) -> Result<(), Failure> {
        let name = submit.key.clone().unwrap_or_else(fresh_key);
        let mut clients = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            let named = part.contact.as_deref().or(submit.target.site.as_deref());
            let client = self.reach(named, home).await;
            match (&client, part.start) {
                (Err(why), Start::Strict) => {
                    let failure = format!("nothing was started: subjob {place}: {why}");
                    return Err(Failure::from_text(failure));
                }
                _ => clients.push((client, named)),
            }
        }
        let contact = |(client, named): &(Result<Client, String>, Option<&str>)| match client {
            Ok(client) => client.address().to_string(),
            Err(_) => named.unwrap_or("local").to_owned(),
        };
        let contacts: Vec<String> = clients.iter().map(contact).collect();
        let clients: Vec<_> = clients.into_iter().map(|(client, _)| client).collect();
        for (place, (part, client)) in parts.iter().zip(clients).enumerate() {
            let of = |failure| format!("subjob {place}: {failure}");
            let together = Together {
                request: name.clone(),
                subjob: u32::try_from(place).unwrap_or(u32::MAX),
                sites: contacts.clone(),
                label: part.label.clone(),
                hold_s: (part.start != Start::AtOnce).then_some(HOLD_S),
            };
            let mut description = describe::of_part(submit, part)
                .map_err(|failure| Failure::misuse(of(failure.message)))?;
            if description.stdin == Stdin::Live {
                return Err(Failure::misuse(
                    "--stdin -: several jobs cannot read one terminal; name a file of each",
                ));
            }
            if part.joins {
                let count = contacts.len().to_string();
                for (name, value) in [
                    ("KUMIKO_SUBJOB", place.to_string()),
                    ("KUMIKO_SUBJOBS", count),
                    ("GLOBUS_DUROC_SUBJOB_INDEX", place.to_string()),
                ] {
                    let variable = description.environment.entry(name.to_owned());
                    variable.or_insert(value);
                }
            }
            description.together = Some(Box::new(together.clone()));
            if let Ok(client) = &client {
                run::prepare(client, submit, &mut description)
                    .await
                    .doing(|| {
                        format!("sending what subjob {place} needs to {}", contacts[place])
                    })?;
            }
            self.subjobs.push(Subjob {
                client,
                description,
                together,
                start: part.start,
            });
        }
        Ok(())
    }

    /// One session for all subjobs of a site.
    async fn reach(&mut self, named: Option<&str>, home: &Home) -> Result<Client, String> {
        let known = named.unwrap_or_default();
        if let Some(client) = self.clients.get(known) {
            return client.clone();
        }
        let opened = connect::open(named, home).await;
        let client = opened.map_err(|failure| failure.message);
        self.clients.insert(known.to_owned(), client.clone());
        client
    }

    async fn start(&self, submit: &Submit) -> Result<Vec<Placed>, Failure> {
        let stop = interrupted()?;
        let started = start_together(&self.subjobs, submit.place.patience, stop).await;
        started.map_err(|error| self.not_together(&error))
    }

    fn not_together(&self, error: &NotTogether) -> Failure {
        let mut message = format!("nothing was started: {error}");
        for place in &error.left {
            message.push_str(&format!(
                "\n  {}: whether subjob {place} is free is not known; its site frees it within {HOLD_S} s if it can",
                self.contact(*place)
            ));
        }
        Failure::from_text(message)
    }

    fn contact(&self, place: usize) -> &str {
        let subjob = self.subjobs.get(place);
        let contact = subjob.and_then(|one| one.together.sites.get(place));
        contact.map_or("", String::as_str)
    }

    fn there<'p>(&'p self, placed: &'p [Placed]) -> Vec<There<'p>> {
        let each = placed.iter().zip(&self.subjobs).enumerate();
        each.map(|(subjob, (placed, of))| There {
            subjob,
            label: of.together.label.as_deref(),
            contact: self.contact(subjob),
            job: placed.job,
            left_out: placed
                .left_out
                .as_deref()
                .filter(|_| of.start != Start::Strict),
        })
        .collect()
    }

    fn warn(&self, placed: &[Placed]) {
        for there in self.there(placed) {
            if let Some(why) = there.left_out {
                let (subjob, contact) = (there.subjob, there.contact);
                eprintln!("kumiko: subjob {subjob} ({contact}) is left out: {why}");
            }
        }
    }

    async fn close(self) {
        drop(self.subjobs);
        for client in self.clients.into_values().flatten() {
            connect::close(client).await;
        }
    }
}

/// Resolves when somebody wants it to end.
fn interrupted() -> Result<impl Future<Output = ()>, Failure> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
            _ = hangups.recv() => {}
        }
    })
}

/// Prints where each is.
pub async fn submit(
    submit: &Submit,
    parts: Vec<rsl::Subjob>,
    format: Format,
    home: &Home,
) -> Result<u8, Failure> {
    let request = Request::of(submit, parts, home).await?;
    let started = request.start(submit).await;
    let told = started.and_then(|placed| {
        request.warn(&placed);
        Ok(output::many(format, &request.there(&placed))?)
    });
    request.close().await;
    told.map(|()| 0)
}

/// Streams the output of all here; the status is that of the first, by place, that did not end with 0.
pub async fn run(submit: &Submit, parts: Vec<rsl::Subjob>, home: &Home) -> Result<u8, Failure> {
    let request = Request::of(submit, parts, home).await?;
    let status = match request.start(submit).await {
        Ok(placed) => {
            request.warn(&placed);
            follow(&request, &placed).await
        }
        Err(failure) => Err(failure),
    };
    request.close().await;
    status
}

async fn follow(request: &Request, placed: &[Placed]) -> Result<u8, Failure> {
    let mut all = JoinSet::new();
    for (place, (placed, subjob)) in placed.iter().zip(&request.subjobs).enumerate() {
        let wanted = placed.left_out.is_none() || subjob.start == Start::Strict;
        if let (Some(job), Ok(client), true) = (placed.job, &subjob.client, wanted) {
            let client = client.clone();
            all.spawn(async move { (place, to_the_end(client, job).await) });
        }
    }
    let mut statuses = BTreeMap::new();
    while let Some(joined) = all.join_next().await {
        let (place, ended) = joined?;
        let (status, word) = match ended {
            Ok(end) => run::status_of(&end.outcome),
            Err(failure) => (failure.own().status, None),
        };
        if let Some(word) = word {
            eprintln!(
                "kumiko: subjob {place} ({}): {word}",
                request.contact(place)
            );
        }
        statuses.insert(place, status);
    }
    let first = statuses.into_values().find(|status| *status != 0);
    Ok(first.unwrap_or(0))
}

async fn to_the_end(client: Client, job: JobId) -> Result<attached::End, Failure> {
    let attached = client.attach(job, false, 0, 0).await?;
    attached::follow(attached, false, Interrupt::Cancels(&client)).await
}
