//! `kumiko rpc call --where`: the site that computes a call, of those that an index tells to have its routine. The choice is
//! that of placement (spec/jobs/placement.md, PM10 to PM16). Not here: a call that was begun stays where it is.

use super::measured::Kept;
use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use crate::info::{self, Among};
use crate::job::measured as job_measured;
use kumiko_client::{Client, SiteAddress};
use kumiko_directory::choose::{self, Judged, Wanted};
use kumiko_directory::estimate::{self, Work};
use kumiko_directory::expr::ExprError;
use kumiko_idl::Signature;
use kumiko_job::placement::{plain_name, plain_why};
use kumiko_rpc_client::{Calls, Settings};
use std::time::{Duration, Instant};

/// For a site to answer; after that the next is asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sites that are asked for one call.
const TRIES_MOST: usize = 16;

/// A session with the best site that has the routine and answers: where it is known what the call is, by how long it would take (PM17).
pub async fn open(
    among: &Among,
    requirement: &str,
    routine: &str,
    work: Option<Work>,
    settings: Settings,
    home: &Home,
) -> Result<(Client, Signature), Failure> {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"_$/".contains(&byte);
    if !routine.bytes().all(named) {
        return Err(Failure::misuse(format!(
            "{routine} names no routine: they are like linpack/dgesv"
        )));
    }
    let needs = ["not draining = yes".to_owned(), offers(routine)];
    let wrong = |error: ExprError| Failure::misuse(format!("--where, --rank: {error}"));
    let wanted = Wanted::new(requirement, &needs, &[], among.rank.as_deref()).map_err(wrong)?;
    let (index, entries) = info::sites(among.index.as_deref(), &offers(routine), home).await?;
    let mut candidates = choose::candidates(entries);
    job_measured::add_to(&mut candidates);
    let mut judged = choose::choose(candidates, &wanted);
    if let (Some(work), None) = (work, &among.rank) {
        let kept = Kept::load();
        estimate::order(&mut judged, work, |one| kept.of(one, routine));
    }
    let mut said = String::new();
    let mut tries = 0;
    for one in &judged {
        let why = match one.can_be_asked() && tries < TRIES_MOST {
            true => {
                tries += 1;
                match tokio::time::timeout(PATIENCE, ask(one, routine, settings, home)).await {
                    Ok(Ok(open)) => return Ok(open),
                    Ok(Err(failure)) => failure.message,
                    Err(_) => format!("it did not answer within {PATIENCE:?}"),
                }
            }
            false => one.why(),
        };
        let (site, contact) = (&one.candidate.site, &one.candidate.contact);
        let (site, contact) = (plain_name(site), plain_name(contact));
        said.push_str(&format!("\n  {site} ({contact}): {}", plain_why(&why)));
    }
    Err(Failure::from_text(format!(
        "no site of {index} computes {routine}:{said}"
    )))
}

fn offers(routine: &str) -> String {
    format!("routine = \"{routine}\"")
}

async fn ask(
    one: &Judged,
    routine: &str,
    settings: Settings,
    home: &Home,
) -> Result<(Client, Signature), Failure> {
    let address: SiteAddress = one.candidate.contact.parse()?;
    let (credential, trust) = connect::identity_for(&address, home)?;
    let client = Client::connect(&address, &credential, &trust).await?;
    let calls = Calls::new(client.clone(), settings);
    let begun = Instant::now();
    let signature = calls.signature(routine).await;
    job_measured::keep(&one.candidate.contact, begun.elapsed());
    match signature {
        Ok(signature) => Ok((client, signature)),
        Err(error) => {
            connect::close(client).await;
            Err(error.into())
        }
    }
}
