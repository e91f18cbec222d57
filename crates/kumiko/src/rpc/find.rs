//! `kumiko rpc call --where`: the site that computes a call, of those that an index tells to have its routine. The choice is
//! that of placement (spec/jobs/placement.md, PM10 to PM16); where a site does not take the call, the next is asked (spec/rpc P43, P44).
//! Not here: a call that was begun stays where it is.

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
use kumiko_rpc_client::{Calls, Failing, RpcError, Settings};
use std::time::{Duration, Instant, SystemTime};
use std::vec::IntoIter;

/// For a site to answer; after that the next is asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sites that are asked for one call.
const TRIES_MOST: usize = 16;

/// Sites that may compute a call, in the order in which they are asked.
pub struct Found {
    index: String,
    routine: String,
    settings: Settings,
    failing: Failing,
    judged: IntoIter<Judged>,
    tries: usize,
    /// Why those that were asked did not take it.
    said: String,
}

/// A site that has the routine and answers.
pub struct Open {
    pub client: Client,
    pub signature: Signature,
    site: Judged,
}

/// The sites that the index tells to have the routine: where it is known what the call is, by how long it would take (PM17).
pub async fn sites(
    among: &Among,
    requirement: &str,
    routine: &str,
    work: Option<Work>,
    settings: Settings,
    home: &Home,
) -> Result<Found, Failure> {
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
    job_measured::add_to(&mut candidates, None);
    let mut judged = choose::choose(candidates, &wanted);
    if let (Some(work), None) = (work, &among.rank) {
        let kept = Kept::load();
        estimate::order(&mut judged, work, |one| kept.of(one, routine));
    }
    let failing = Failing::of(home.root());
    let now = SystemTime::now();
    judged.sort_by_key(|one| failing.is_last(&one.candidate.contact, now));
    Ok(Found {
        index,
        routine: routine.to_owned(),
        settings,
        failing,
        judged: judged.into_iter(),
        tries: 0,
        said: String::new(),
    })
}

impl Found {
    /// A session with the next one that has the routine and answers.
    ///
    /// # Errors
    /// There is none left; and what each had to say.
    pub async fn next(&mut self, home: &Home) -> Result<Open, Failure> {
        while let Some(site) = self.judged.next() {
            if !site.can_be_asked() || self.tries >= TRIES_MOST {
                self.say(&site, &site.why());
                continue;
            }
            self.tries += 1;
            let asked = ask(&site, &self.routine, self.settings, home);
            let why = match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok((client, signature))) => {
                    return Ok(Open {
                        client,
                        signature,
                        site,
                    });
                }
                Ok(Err(failure)) => failure.message,
                Err(_) => format!("it did not answer within {PATIENCE:?}"),
            };
            self.failed(&site, &why);
        }
        let Found {
            index,
            routine,
            said,
            ..
        } = self;
        Err(Failure::from_text(format!(
            "no site of {index} computes {routine}:{said}"
        )))
    }

    /// It did not take the call, for a reason of its own.
    pub fn refused(&mut self, open: &Open, why: &RpcError) {
        self.failed(&open.site, &why.to_string());
    }

    /// It took the call, whatever became of that.
    pub fn answered(&self, open: &Open) {
        self.failing.answered(&open.site.candidate.contact);
    }

    fn failed(&mut self, site: &Judged, why: &str) {
        self.failing.failed(&site.candidate.contact);
        self.say(site, why);
    }

    fn say(&mut self, one: &Judged, why: &str) {
        let (site, contact) = (&one.candidate.site, &one.candidate.contact);
        let (site, contact) = (plain_name(site), plain_name(contact));
        let why = plain_why(why);
        self.said
            .push_str(&format!("\n  {site} ({contact}): {why}"));
    }
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
