//! `kumiko job run --across RANKS --where EXPR`: which sites have the ranks of one program among them (spec/jobs/placement.md, PM40 to
//! PM44). Not here: the choice (`kumiko-directory`), the start (`across`).

use super::place::{Choice, line, reach};
use crate::args::Submit;
use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use crate::output::{self, say};
use kumiko_directory::choose::{Candidate, Judged};
use kumiko_directory::near;
use kumiko_job::description::JobDescription;
use kumiko_job::placement::{Fate, Placement, plain_name, plain_why};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;

/// Sites that are asked at once whether they are there.
const ASKED_MOST: usize = 16;
/// One that takes longer would keep all ranks waiting.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// What sites said at the door, by their contacts.
type Answers = BTreeMap<String, Result<(), (Fate, String)>>;

/// Where the ranks are to be.
pub struct Spread {
    /// All that were considered, those with ranks first, in the order of these.
    all: Vec<Considered>,
    pub placement: Placement,
}

struct Considered {
    judged: Judged,
    /// None: it has none.
    ranks: Option<u32>,
    fate: Fate,
    why: String,
}

impl Spread {
    pub async fn of(
        submit: &Submit,
        description: &JobDescription,
        ranks: u32,
        home: &Home,
    ) -> Result<Spread, Failure> {
        let mut choice = Choice::of(submit, description, home).await?;
        let cpus = u64::from(description.resources.cpus.unwrap_or(1));
        let patience = submit.place.patience.min(ANSWERS_WITHIN);
        let answers = ask(&choice.judged, cpus, patience, home).await?;
        // By the ways as they are just now.
        choice.again();
        let answer = |one: &Judged| answers.get(&one.candidate.contact);
        let heard = |one: &&Judged| answer(one).is_some_and(Result::is_ok);
        let heard: Vec<Judged> = choice.judged.iter().filter(heard).cloned().collect();
        let in_order = choice.rank.is_some();
        let shares = near::shares(&heard, u64::from(ranks), cpus, in_order);
        let found = shares.is_some();
        let shares = shares.into_iter().flatten().filter_map(|share| {
            let contact = heard.get(share.at)?.candidate.contact.as_str();
            Some((contact, u32::try_from(share.ranks).ok()?))
        });
        let shares: BTreeMap<&str, u32> = shares.collect();
        let judged = std::mem::take(&mut choice.judged);
        let judged = judged.into_iter().map(|judged| {
            let ranks = shares.get(judged.candidate.contact.as_str()).copied();
            let (fate, why) = fate(&judged, ranks, answer(&judged), cpus);
            Considered {
                judged,
                ranks,
                fate,
                why,
            }
        });
        let mut all: Vec<Considered> = judged.collect();
        all.sort_by_key(|one| one.ranks.is_none());
        if !found {
            return Err(too_few(&choice, &all, ranks, cpus));
        }
        let fates = all
            .iter()
            .map(|one| (&one.judged, (one.fate, one.why.clone())));
        let placement = choice.kept(fates);
        Ok(Spread { all, placement })
    }

    /// The contacts of the sites that have ranks, and how many, in the ranks' order.
    pub fn shares(&self) -> impl Iterator<Item = (&str, u32)> {
        let mut all = self.all.iter();
        std::iter::from_fn(move || {
            let one = all.next()?;
            Some((one.judged.candidate.contact.as_str(), one.ranks?))
        })
    }

    /// What is done, on stderr.
    pub fn tell(&self) {
        let mut first = 0;
        for one in &self.all {
            let Some(ranks) = one.ranks else {
                return;
            };
            let Candidate { site, contact, .. } = &one.judged.candidate;
            let (site, last) = (plain_name(site), first + ranks - 1);
            eprintln!("kumiko: ranks {first} to {last} at {site} ({contact})");
            first += ranks;
        }
    }

    /// What would be done.
    pub fn show(&self) -> Result<(), Failure> {
        let row = |one: &Considered| {
            let Candidate { site, contact, .. } = &one.judged.candidate;
            let ranks = one
                .ranks
                .map_or_else(String::new, |ranks| ranks.to_string());
            vec![
                plain_name(site),
                plain_name(contact),
                ranks,
                one.fate.words().to_owned(),
                plain_why(&one.why),
            ]
        };
        let rows: Vec<Vec<String>> = self.all.iter().map(row).collect();
        let table = output::table(&["SITE", "CONTACT", "RANKS", "", "WHY"], &rows);
        say!("{}", table.trim_end())?;
        Ok(())
    }
}

fn fate(
    judged: &Judged,
    ranks: Option<u32>,
    answer: Option<&Result<(), (Fate, String)>>,
    cpus: u64,
) -> (Fate, String) {
    let why = judged.why();
    match (ranks, answer) {
        (Some(ranks), _) => (Fate::ChosenToo, format!("ranks {ranks}; {why}")),
        (None, Some(Err((fate, why)))) => (*fate, why.clone()),
        (None, _) if judged.can_be_asked() => {
            let room = near::room(judged, cpus);
            (Fate::NotAsked, format!("room for {room}; {why}"))
        }
        (None, _) => (Fate::FellOut, why),
    }
}

/// All that have room are asked at once whether they are there, and have the caller.
async fn ask(
    judged: &[Judged],
    cpus: u64,
    patience: Duration,
    home: &Home,
) -> Result<Answers, Failure> {
    let roomy = judged.iter().filter(|one| near::room(one, cpus) > 0);
    let mut asking = JoinSet::new();
    for one in roomy.take(ASKED_MOST) {
        let (contact, home) = (one.candidate.contact.clone(), home.clone());
        asking.spawn(async move {
            let answer = match reach(&contact, patience, &home).await? {
                Ok(client) => {
                    connect::close(client).await;
                    Ok(())
                }
                Err(no) => Err(no),
            };
            Ok::<_, Failure>((contact, answer))
        });
    }
    let mut answers = Answers::new();
    while let Some(answered) = asking.join_next().await {
        let (contact, answer) = answered??;
        answers.insert(contact, answer);
    }
    Ok(answers)
}

fn too_few(choice: &Choice, all: &[Considered], ranks: u32, cpus: u64) -> Failure {
    let room = |one: &&Considered| one.fate == Fate::NotAsked;
    let rooms = all.iter().filter(room);
    let room: u64 = rooms.map(|one| near::room(&one.judged, cpus)).sum();
    let each = all.iter().map(|one| {
        let why = format!("{}: {}", one.fate.words(), one.why);
        line(&one.judged, &why)
    });
    Failure::from_text(format!(
        "the sites of {} that meet what is asked have room for {room} of {ranks} ranks now (`--across SITE:RANKS,...` asks for no \
         room):{}",
        choice.index,
        each.collect::<String>()
    ))
}
