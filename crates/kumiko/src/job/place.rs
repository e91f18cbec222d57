//! `kumiko job submit --where`: the index is asked for sites, the best is asked to take the job, then the next
//! (spec/jobs/placement.md). Not here: the choice (`kumiko-directory`), what is sure of an answer (`kumiko-client`).

use super::run;
use crate::args::{Format, Submit};
use crate::connect;
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::info::{self, Among};
use crate::output::{self, Show, say};
use clap::Args;
use kumiko_client::{Client, ClientError, NotTaken, SiteAddress};
use kumiko_directory::choose::{self, Candidate, Judged, Wanted};
use kumiko_directory::expr;
use kumiko_find::ways;
use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::placement::{
    CONSIDERED_MOST, Considered, Fate, Placement, hopes, needs, plain_name, plain_why,
};
use kumiko_session::SessionError;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Sites that are asked for one job: if so many would not have it, it is not they.
const TRIES_MOST: usize = 16;
/// Refusals that are of the job and not of the site: any other would say the same.
const OF_THE_JOB: [&str; 4] = ["bad_description", "bad_key", "bad_policy", "key_reused"];

/// Which site, by what it is like.
#[derive(Debug, Args)]
pub struct Where {
    #[command(flatten)]
    pub among: Among,
    /// Show in which order sites would be asked, and why, and submit nothing.
    #[arg(long, requires = "requirement")]
    pub dry_run: bool,
    /// How long a site may take to answer, or to come back when it is lost while it is asked.
    #[arg(long, value_name = "TIME", value_parser = crate::args::duration, default_value = "60s")]
    pub patience: Duration,
}

/// Where a job is now.
pub struct Placed {
    pub client: Client,
    pub job: JobId,
    pub at: Candidate,
    /// Of the folder that was sent.
    pub mark_us: Option<u64>,
}

/// The job's number, with its site.
#[derive(Serialize)]
struct There<'p> {
    job: JobId,
    site: &'p str,
    contact: &'p str,
}

impl Show for There<'_> {
    fn human(&self) -> String {
        self.job.to_string()
    }
}

impl Placed {
    pub fn tell(&self, format: Format) -> Result<(), Failure> {
        let (job, contact) = (self.job, &self.at.contact);
        let site = plain_name(&self.at.site);
        let there = There {
            job,
            site: &site,
            contact,
        };
        output::one(format, &there)?;
        eprintln!("kumiko: job {job} is at {site}: `kumiko job wait --site {contact} {job}`");
        Ok(())
    }
}

/// The sites for a job, the best first, and the index that told of them.
pub struct Choice<'s> {
    requirement: &'s str,
    pub rank: Option<&'s str>,
    pub index: String,
    wanted: Wanted,
    /// Bytes of the folder that goes along.
    folder: Option<u64>,
    pub judged: Vec<Judged>,
}

impl<'s> Choice<'s> {
    pub async fn of(
        submit: &'s Submit,
        description: &JobDescription,
        home: &Home,
    ) -> Result<Choice<'s>, Failure> {
        let asked = &submit.place.among;
        let requirement = asked.requirement.as_deref().unwrap_or_default();
        let rank = asked.rank.as_deref();
        let typed = expr::parse(requirement).map_err(|error| wrong("--where", &error))?;
        if let Some(rank) = rank {
            expr::parse_rank(rank).map_err(|error| wrong("--rank", &error))?;
        }
        let order = rank.or(submit.dir.as_ref().map(|_| choose::FOLDER_RANK));
        let wanted = Wanted::new(requirement, &needs(description), &hopes(description), order)?;
        let (index, entries) = info::sites(asked.index.as_deref(), requirement, home).await?;
        let mut candidates = choose::candidates(entries);
        let folder = submit.dir.as_deref().map(ways::folder_bytes);
        ways::add_to(&mut candidates, folder);
        let ranked = wanted.rank.iter().map(|rank| rank.attribute.clone());
        let names: Vec<String> = typed.attributes.into_iter().chain(ranked).collect();
        if let Some(name) = choose::unknown(&candidates, &names) {
            return Err(Failure::misuse(format!(
                "no site of {index} tells of {name}: `kumiko info attributes` lists what can be asked"
            )));
        }
        Ok(Choice {
            requirement,
            rank,
            index,
            folder,
            judged: choose::choose(candidates, &wanted),
            wanted,
        })
    }

    /// Judges them again, by what was measured since.
    pub fn again(&mut self) {
        let judged = std::mem::take(&mut self.judged);
        let mut candidates: Vec<Candidate> = judged.into_iter().map(|one| one.candidate).collect();
        ways::add_to(&mut candidates, self.folder);
        self.judged = choose::choose(candidates, &self.wanted);
    }

    fn table(&self) -> String {
        let row = |one: &Judged| {
            let stands = match one.can_be_asked() {
                true => "may be asked",
                false => "falls out",
            };
            let Candidate { site, contact, .. } = &one.candidate;
            vec![
                plain_name(site),
                plain_name(contact),
                stands.to_owned(),
                plain_why(&one.why()),
            ]
        };
        let rows: Vec<Vec<String>> = self.judged.iter().map(row).collect();
        output::table(&["SITE", "CONTACT", "", "WHY"], &rows)
    }

    /// What the site at this place keeps of the choice, after what became of those before it.
    fn record(&self, chosen: usize, before: &[(Fate, String)]) -> Placement {
        let fate = |at: usize, one: &Judged| match before.get(at) {
            Some((fate, why)) => (*fate, why.clone()),
            None if at == chosen => (Fate::Chosen, one.why()),
            None if one.can_be_asked() => (Fate::NotAsked, one.why()),
            None => (Fate::FellOut, one.why()),
        };
        let judged = self.judged.iter().enumerate();
        self.kept(judged.map(|(at, one)| (one, fate(at, one))))
    }

    /// The record of what became of each.
    pub fn kept<'j>(&self, fates: impl Iterator<Item = (&'j Judged, (Fate, String))>) -> Placement {
        let considered = fates.map(|(one, (fate, why))| Considered {
            site: plain_name(&one.candidate.site),
            contact: plain_name(&one.candidate.contact),
            fate,
            why: plain_why(&why),
        });
        let mut considered: Vec<Considered> = considered.collect();
        let more = considered.len().saturating_sub(CONSIDERED_MOST) as u64;
        considered.truncate(CONSIDERED_MOST);
        Placement {
            requirement: self.requirement.to_owned(),
            rank: self.rank.map(str::to_owned),
            index: plain_name(&self.index),
            considered,
            more,
        }
    }

    fn nobody(&self) -> Failure {
        if self.judged.is_empty() {
            return Failure::from_text(format!(
                "{} knows no site: `kumiko info status --server {}` says who is registered there",
                self.index, self.index
            ));
        }
        let each = self.judged.iter().map(|one| line(one, &one.why()));
        Failure::from_text(format!(
            "none of the sites of {} meets what is asked:{}",
            self.index,
            each.collect::<String>()
        ))
    }
}

pub fn line(one: &Judged, why: &str) -> String {
    let Candidate { site, contact, .. } = &one.candidate;
    format!(
        "\n  {} ({}): {}",
        plain_name(site),
        plain_name(contact),
        plain_why(why)
    )
}

fn wrong(flag: &str, error: &expr::ExprError) -> Failure {
    Failure::misuse(format!("{flag}: {error}"))
}

/// Shows the choice; nothing is submitted.
pub async fn show(
    submit: &Submit,
    description: &JobDescription,
    home: &Home,
) -> Result<(), Failure> {
    let choice = Choice::of(submit, description, home).await?;
    say!("{}", choice.table().trim_end())?;
    Ok(())
}

/// What came of asking one site.
enum Tried {
    Taken(Client, JobId, Option<u64>),
    /// It is sure that it has not the job.
    Not(Fate, String),
}

/// Asks one site after the other, the best first, until one has the job; at no time may two have it.
pub async fn place(
    submit: &Submit,
    description: &JobDescription,
    home: &Home,
) -> Result<Placed, Failure> {
    let choice = Choice::of(submit, description, home).await?;
    let key = submit.key.clone().unwrap_or_else(kumiko_client::fresh_key);
    let mut before = Vec::new();
    let can = choice.judged.iter().filter(|one| one.can_be_asked());
    for (at, one) in can.take(TRIES_MOST).enumerate() {
        let mut description = description.clone();
        description.placement = Some(Box::new(choice.record(at, &before)));
        match ask(submit, description, &key, one, home).await? {
            Tried::Taken(client, job, mark_us) => {
                return Ok(Placed {
                    client,
                    job,
                    at: one.candidate.clone(),
                    mark_us,
                });
            }
            Tried::Not(fate, why) => {
                let said = line(one, &format!("{}: {why}", fate.words()));
                eprintln!("kumiko: {}", said.trim_start());
                before.push((fate, why));
            }
        }
    }
    if before.is_empty() {
        return Err(choice.nobody());
    }
    let each = choice.judged.iter().zip(&before);
    let each = each.map(|(one, (fate, why))| line(one, &format!("{}: {why}", fate.words())));
    Err(Failure::from_text(format!(
        "no site took the job:{}",
        each.collect::<String>()
    )))
}

async fn ask(
    submit: &Submit,
    description: JobDescription,
    key: &str,
    one: &Judged,
    home: &Home,
) -> Result<Tried, Failure> {
    // Nothing is asked of it before it has answered: until then it has nothing that another could have too.
    let client = match reach(&one.candidate.contact, submit.place.patience, home).await? {
        Ok(reached) => reached,
        Err((fate, why)) => return Ok(Tried::Not(fate, why)),
    };
    let tried = submit_to(client.clone(), submit, description, key, one).await;
    if !matches!(tried, Ok(Tried::Taken(..))) {
        connect::close(client).await;
    }
    tried
}

/// What a site said at the door: a session, of which it is kept how long a first question took, or why there is none.
pub async fn reach(
    contact: &str,
    patience: Duration,
    home: &Home,
) -> Result<Result<Client, (Fate, String)>, Failure> {
    let begun = Instant::now();
    let address: SiteAddress = match contact.parse() {
        Ok(address) => address,
        Err(error) => return Ok(Err(why_not(error))),
    };
    let (credential, trust) = connect::identity_for(&address, home)?;
    let reach = async {
        let client = Client::connect(&address, &credential, &trust).await?;
        let begun = Instant::now();
        client.site().await?;
        Ok::<_, ClientError>((client, begun.elapsed()))
    };
    Ok(match tokio::time::timeout(patience, reach).await {
        Ok(Ok((client, latency))) => {
            ways::keep(contact, latency);
            Ok(client)
        }
        Ok(Err(error @ ClientError::Credential { .. })) => return Err(error.into()),
        Ok(Err(error)) => Err(why_not(error)),
        Err(_) => {
            let why = format!("it did not answer within {:.0?}", begun.elapsed());
            Err((Fate::Unreachable, why))
        }
    })
}

/// The job's folder and credential, and then the job.
async fn submit_to(
    client: Client,
    submit: &Submit,
    mut description: JobDescription,
    key: &str,
    one: &Judged,
) -> Result<Tried, Failure> {
    let contact = &one.candidate.contact;
    let mark_us = match run::prepare(&client, submit, &mut description).await {
        Ok(folder) => folder.map(|(mark_us, sent)| {
            ways::keep_rate(contact, sent);
            mark_us
        }),
        // What is wrong here is so for every site.
        Err(error @ (ClientError::Staging(_) | ClientError::Delegation { .. })) => {
            return Err(error.into());
        }
        Err(error) => return Ok(not(error)),
    };
    let patience = submit.place.patience;
    match client.submit_surely(description, key, patience).await {
        Ok(job) => Ok(Tried::Taken(client, job, mark_us)),
        Err(NotTaken::Refused(refusal)) if OF_THE_JOB.contains(&refusal.code.as_str()) => {
            Err(refusal).doing(|| format!("asking {contact}"))
        }
        Err(NotTaken::Refused(refusal)) => Ok(not(refusal.into())),
        Err(NotTaken::Unsure { why }) => Err(Failure::from_text(format!(
            "{} ({contact}) was lost while it was asked, and may have taken the job, so no other is asked: {why}. Once it is \
             back, the same line with `--site {contact} --key {key}` instead of --where submits it there, if it is not there \
             already",
            plain_name(&one.candidate.site)
        ))),
    }
}

fn not(error: ClientError) -> Tried {
    let (fate, why) = why_not(error);
    Tried::Not(fate, why)
}

fn why_not(error: ClientError) -> (Fate, String) {
    match error {
        ClientError::Refused(Refusal { code, message }) => {
            (Fate::Refused, format!("{message} ({code})"))
        }
        ClientError::Connect {
            cause: SessionError::Refused { text, .. },
            ..
        } => (Fate::Refused, text),
        error => (Fate::Unreachable, Failure::from(error).message),
    }
}
