//! The sites that may compute a call, in the order in which they are asked, and the first that answers. A call that was begun stays
//! where it is.

use crate::speeds::Kept;
use crate::ways;
use kumiko_client::{Client, SiteAddress};
use kumiko_directory::ask::EntryView;
use kumiko_directory::choose::{self, Judged, Wanted};
use kumiko_directory::estimate::{self, Work};
use kumiko_directory::expr::ExprError;
use kumiko_identity::{Credential, TrustStore};
use kumiko_idl::Signature;
use kumiko_info::AskError;
use kumiko_job::placement::{plain_name, plain_why};
use kumiko_rpc_client::{Calls, Failing, RpcError, Settings};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::vec::IntoIter;

/// For a site to answer; after that the next is asked.
const PATIENCE: Duration = Duration::from_secs(10);
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);
/// Sites that are asked for one call.
const TRIES_MOST: usize = 16;

/// What a site is to be like.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// An expression of spec/info; empty: any.
    pub requirement: String,
    /// Keys, best first.
    pub rank: Option<String>,
    /// What is known of the call.
    pub work: Option<Work>,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("{0} names no routine: they are like linpack/dgesv")]
    Name(String),
    #[error("what sites are to be like, or their order: {0}")]
    Wish(#[from] ExprError),
    #[error("asking the index {index}: {cause}")]
    Index { index: String, cause: Box<AskError> },
    #[error("no site of {index} computes {routine}:{said}")]
    Nobody {
        index: String,
        routine: String,
        said: String,
    },
}

impl FindError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        match self {
            FindError::Name(_) | FindError::Wish(_) => "bad_arguments",
            FindError::Index { .. } => "site_unreachable",
            FindError::Nobody { .. } => "no_routine",
        }
    }
}

/// Sites that may compute a call.
#[derive(Debug)]
pub struct Found {
    index: String,
    routine: String,
    settings: Settings,
    failing: Failing,
    judged: IntoIter<Arc<Judged>>,
    shares_sessions: bool,
    tries: usize,
    /// Why those that were asked did not take it.
    said: String,
}

/// A site that has the routine and answers.
#[derive(Debug)]
pub struct Open {
    pub client: Client,
    pub address: SiteAddress,
    pub signature: Arc<Signature>,
    site: Arc<Judged>,
}

impl Found {
    /// What an index is asked for before [`Found::new`].
    ///
    /// # Errors
    /// It is no name of a routine.
    pub fn offers(routine: &str) -> Result<String, FindError> {
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b"_$/".contains(&byte);
        match routine.bytes().all(named) {
            true => Ok(format!("routine = \"{routine}\"")),
            false => Err(FindError::Name(routine.to_owned())),
        }
    }

    /// Those that this index tells of.
    ///
    /// # Errors
    /// As [`Found::new`]; or the index cannot be asked.
    pub async fn of(
        index: &str,
        routine: &str,
        wish: &Wish,
        settings: Settings,
        home: &Path,
        (credential, trust): (&Credential, &TrustStore),
    ) -> Result<Found, FindError> {
        let offers = Found::offers(routine)?;
        let entries = crate::sites(index, &offers, credential, trust).await;
        let entries = entries.map_err(|cause| FindError::Index {
            index: index.to_owned(),
            cause: Box::new(cause),
        })?;
        Found::new((index.to_owned(), entries), routine, wish, settings, home)
    }

    /// Of these sites those that have the routine: where it is known what the call is, by how long it would take (PM17). `home`: the kumiko
    /// folder.
    ///
    /// # Errors
    /// What is wished for is not understood.
    pub fn new(
        (index, entries): (String, Vec<EntryView>),
        routine: &str,
        wish: &Wish,
        settings: Settings,
        home: &Path,
    ) -> Result<Found, FindError> {
        let mut judged = judge(entries, routine, wish)?;
        if let (Some(work), None) = (wish.work, &wish.rank) {
            let kept = Kept::load();
            estimate::order(&mut judged, work, |one| kept.of(one, routine));
        }
        let failing = Failing::of(home);
        let now = SystemTime::now();
        judged.sort_by_key(|one| failing.is_last(&one.candidate.contact, now));
        let judged: Vec<_> = judged.into_iter().map(Arc::new).collect();
        let one_call = Found::of_sites((index, judged), routine, settings, failing);
        Ok(Found {
            shares_sessions: false,
            ..one_call
        })
    }

    /// In this order, with sessions that others use too.
    pub(crate) fn of_sites(
        (index, judged): (String, Vec<Arc<Judged>>),
        routine: &str,
        settings: Settings,
        failing: Failing,
    ) -> Found {
        Found {
            index,
            routine: routine.to_owned(),
            settings,
            failing,
            judged: judged.into_iter(),
            shares_sessions: true,
            tries: 0,
            said: String::new(),
        }
    }

    /// The next one, if `ready` knows that it has the routine and answers.
    pub(crate) fn ready(
        &mut self,
        ready: impl FnOnce(&Judged) -> Option<(Client, SiteAddress, Arc<Signature>)>,
    ) -> Option<Open> {
        let (client, address, signature) = ready(self.judged.as_slice().first()?)?;
        let site = self.judged.next()?;
        Some(Open {
            client,
            address,
            signature,
            site,
        })
    }

    /// A session with the next one that has the routine and answers.
    ///
    /// # Errors
    /// There is none left; and what each had to say.
    pub async fn next<F: Future<Output = Result<Client, String>>>(
        &mut self,
        connect: impl Fn(SiteAddress) -> F,
    ) -> Result<Open, FindError> {
        while let Some(site) = self.judged.next() {
            if !site.can_be_asked() || self.tries >= TRIES_MOST {
                self.say(&site, &site.why());
                continue;
            }
            self.tries += 1;
            let asked = self.ask(&site, &connect);
            let why = match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok((client, address, signature))) => {
                    return Ok(Open {
                        client,
                        address,
                        signature: Arc::new(signature),
                        site,
                    });
                }
                Ok(Err(why)) => why,
                Err(_) => format!("it did not answer within {PATIENCE:?}"),
            };
            self.failed(&site, &why);
        }
        Err(FindError::Nobody {
            index: self.index.clone(),
            routine: self.routine.clone(),
            said: std::mem::take(&mut self.said),
        })
    }

    async fn ask<F: Future<Output = Result<Client, String>>>(
        &self,
        one: &Judged,
        connect: &impl Fn(SiteAddress) -> F,
    ) -> Result<(Client, SiteAddress, Signature), String> {
        let contact = &one.candidate.contact;
        let address: SiteAddress = contact.parse().map_err(|error| format!("{error}"))?;
        let client = connect(address.clone()).await?;
        let calls = Calls::new(client.clone(), self.settings);
        let begun = Instant::now();
        let signature = calls.signature(&self.routine).await;
        ways::keep(contact, begun.elapsed());
        match signature {
            Ok(signature) => Ok((client, address, signature)),
            Err(error) => {
                if !self.shares_sessions {
                    let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
                }
                Err(error.to_string())
            }
        }
    }

    /// It did not take the call, for a reason of its own.
    pub fn refused(&mut self, open: &Open, why: &RpcError) {
        self.failed(&open.site, &why.to_string());
    }

    /// It cannot be asked for this, though it does not fail.
    pub(crate) fn unfit(&mut self, open: &Open, why: &str) {
        self.say(&open.site, why);
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

impl Open {
    /// HOST:PORT, as the index has it.
    pub fn contact(&self) -> &str {
        &self.site.candidate.contact
    }
}

/// Those of these entries that have the routine, and are as wished for: in the order of PM14.
pub(crate) fn judge(
    entries: Vec<EntryView>,
    routine: &str,
    wish: &Wish,
) -> Result<Vec<Judged>, FindError> {
    let needs = ["not draining = yes".to_owned(), Found::offers(routine)?];
    let wanted = Wanted::new(&wish.requirement, &needs, &[], wish.rank.as_deref())?;
    let mut candidates = choose::candidates(entries);
    ways::add_to(&mut candidates, None);
    Ok(choose::choose(candidates, &wanted))
}
