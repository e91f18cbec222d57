//! The sites that have a routine, for a program that calls it often: each call has them in the order in which they would have its result first
//! (PM17), by what the index told a moment ago, what calls took there, and how many of this program's are there. Not here: a call (`turn`).

use crate::found::{FindError, Found, Open, Wish, judge};
use crate::links::Links;
use crate::speeds::{self, Speeds};
use kumiko_client::{Client, SiteAddress};
use kumiko_directory::choose::Judged;
use kumiko_directory::estimate::{self, Crowd, Measured, Work};
use kumiko_idl::{Head, Signature};
use kumiko_rpc_client::{Failing, Took};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// What the index told; and that a site has the routine and answers.
const HOLDS: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Sites {
    routine: String,
    signature: Arc<Signature>,
    /// Where that is from.
    first: SiteAddress,
    index: String,
    wish: Wish,
    home: PathBuf,
    links: Arc<Links>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    known: Vec<Known>,
    told: Instant,
    /// Somebody asks the index.
    asking: bool,
    speeds: Speeds,
    /// Contacts of those that have the routine.
    have_it: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    site: Arc<Judged>,
    address: Option<SiteAddress>,
    crowd: Crowd,
    /// It has failed: others are asked first.
    last: bool,
}

fn known(judged: Vec<Judged>, home: &Path) -> Vec<Known> {
    let (failing, now) = (Failing::of(home), SystemTime::now());
    let known = |one: Judged| Known {
        address: one.candidate.contact.parse().ok(),
        crowd: Crowd::at(&one.candidate),
        last: failing.is_last(&one.candidate.contact, now),
        site: Arc::new(one),
    };
    judged.into_iter().map(known).collect()
}

impl Sites {
    /// Asks this index, and the first of its sites that answers for the routine's signature. `home`: the kumiko folder.
    ///
    /// # Errors
    /// The index cannot be asked, what is wished for is not understood, or no site has the routine.
    pub async fn find(
        index: String,
        routine: &str,
        wish: Wish,
        home: PathBuf,
        links: Arc<Links>,
    ) -> Result<Arc<Sites>, FindError> {
        let judged = told(&index, routine, &wish, &links).await?;
        let known = known(judged, &home);
        let speeds = Speeds::load();
        let order = order(&known, &wish, None, &speeds, routine, |_| 0);
        let mut first = Found::of_sites(
            (index.clone(), order),
            routine,
            links.settings(),
            Failing::of(&home),
        );
        let open = first.next(|address| connect(&links, address)).await?;
        let state = State {
            known,
            told: Instant::now(),
            asking: false,
            speeds,
            have_it: BTreeSet::from([open.contact().to_owned()]),
        };
        let sites = Sites {
            routine: routine.to_owned(),
            signature: open.signature,
            first: open.address,
            index,
            wish,
            home,
            links,
            state: Mutex::new(state),
        };
        Ok(Arc::new(sites))
    }

    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// The site that told the signature.
    pub fn first(&self) -> &SiteAddress {
        &self.first
    }

    /// MODULE/NAME.
    pub fn routine(&self) -> &str {
        &self.routine
    }

    pub fn links(&self) -> &Arc<Links> {
        &self.links
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn work(&self, heads: &[Head]) -> Option<Work> {
        speeds::work(&self.signature, heads)
    }

    /// For one call. Needs a tokio runtime around it.
    pub(crate) fn found(self: &Arc<Self>, work: Option<Work>) -> Found {
        let mut state = self.state();
        if state.told.elapsed() >= HOLDS && !state.asking {
            state.asking = true;
            tokio::spawn(Arc::clone(self).ask_again());
        }
        let own = |address: &SiteAddress| self.links.calls_at(address);
        let order = order(
            &state.known,
            &self.wish,
            work,
            &state.speeds,
            &self.routine,
            own,
        );
        drop(state);
        let settings = self.links.settings();
        let failing = Failing::of(&self.home);
        Found::of_sites(
            (self.index.clone(), order),
            &self.routine,
            settings,
            failing,
        )
    }

    /// What is told now; what was told before stays where the index cannot be asked.
    async fn ask_again(self: Arc<Self>) {
        let told = told(&self.index, &self.routine, &self.wish, &self.links);
        let told = tokio::time::timeout(HOLDS, told).await;
        let mut state = self.state();
        (state.told, state.asking) = (Instant::now(), false);
        match told {
            Ok(Ok(judged)) => {
                state.known = known(judged, &self.home);
                state.have_it.clear();
                state.speeds.write();
            }
            Ok(Err(error)) => tracing::debug!(%error, "the sites that are known stay"),
            Err(_) => tracing::debug!("the index does not answer: the sites that are known stay"),
        }
    }

    /// The next site for a call, and a session with it.
    pub(crate) async fn next(&self, found: &mut Found) -> Result<Open, FindError> {
        loop {
            let ready = found.ready(|site| self.is_ready(site));
            let open = match ready {
                Some(open) => open,
                None => found.next(|address| connect(&self.links, address)).await?,
            };
            if open.signature.formals != self.signature.formals {
                found.unfit(&open, "its routine of this name has another signature");
                self.failed(&open);
                continue;
            }
            self.state().have_it.insert(open.contact().to_owned());
            return Ok(open);
        }
    }

    fn is_ready(&self, site: &Judged) -> Option<(Client, SiteAddress, Arc<Signature>)> {
        let contact = &site.candidate.contact;
        let address = {
            let state = self.state();
            let known = state.have_it.contains(contact) && site.can_be_asked();
            let found = state.known.iter().filter(|_| known);
            let mut found = found.filter(|one| one.site.candidate.contact == *contact);
            found.next()?.address.clone()?
        };
        let link = self.links.up(&address)?;
        Some((link.client, address, Arc::clone(&self.signature)))
    }

    /// Others are asked first, until the index is asked again.
    pub(crate) fn failed(&self, open: &Open) {
        let mut state = self.state();
        state.have_it.remove(open.contact());
        let mut known = state.known.iter_mut();
        if let Some(one) = known.find(|one| one.site.candidate.contact == open.contact()) {
            one.last = true;
        }
    }

    /// A call has a result from there.
    pub(crate) fn measured(&self, open: &Open, work: Option<Work>, took: &Took) {
        if let Some(work) = work {
            let speeds = &mut self.state().speeds;
            speeds.note(open.contact(), &self.signature, work, took);
        }
    }

    /// Keeps what was measured for the next program.
    pub fn close(&self) {
        self.state().speeds.close();
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        self.close();
    }
}

async fn told(
    index: &str,
    routine: &str,
    wish: &Wish,
    links: &Links,
) -> Result<Vec<Judged>, FindError> {
    let offers = Found::offers(routine)?;
    let own = links.own();
    let entries = crate::sites(index, &offers, &own.credential, &own.trust).await;
    let entries = entries.map_err(|cause| FindError::Index {
        index: index.to_owned(),
        cause: Box::new(cause),
    })?;
    judge(entries, routine, wish)
}

async fn connect(links: &Links, address: SiteAddress) -> Result<Client, String> {
    let link = links.to_one_that_is_up(&address).await;
    link.map(|link| link.client)
        .map_err(|error| error.to_string())
}

/// Those that cannot be asked, have failed, are not heard or miss something come after the others. Of a routine that was never called from here, and where an order is
/// wished for, as the index has them; but each as much later as own calls make it slower.
fn order(
    known: &[Known],
    wish: &Wish,
    work: Option<Work>,
    speeds: &Speeds,
    routine: &str,
    own: impl Fn(&SiteAddress) -> usize,
) -> Vec<Arc<Judged>> {
    let kept = speeds.kept();
    let work = work.filter(|_| wish.rank.is_none() && kept.knows(routine));
    let all: Vec<Measured> = known
        .iter()
        .map(|one| kept.of(&one.site.candidate, routine))
        .collect();
    let usual = estimate::usual(&all);
    let mut keyed: Vec<_> = known
        .iter()
        .zip(&all)
        .map(|(one, measured)| {
            let site = &one.site;
            let group = (
                !site.can_be_asked(),
                one.last,
                site.stale_since.is_some(),
                !site.misses.is_empty(),
            );
            let own = one.address.as_ref().map_or(0, &own);
            let key = match (work, &wish.rank) {
                (Some(work), _) => estimate::seconds(work, *measured, usual, one.crowd.times(own)),
                (None, None) => one.crowd.times(own) / one.crowd.times(0),
                (None, Some(_)) => 0.,
            };
            (group, key, Arc::clone(site))
        })
        .collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)));
    keyed.into_iter().map(|(_, _, site)| site).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speeds::Kept;
    use kumiko_directory::choose::{Candidate, Wanted, choose};
    use std::collections::BTreeMap;

    fn site(name: &str, slots: &str) -> Candidate {
        let told = [("kumiko-slots", slots), ("kumiko-slots-free", slots)];
        let told = told.map(|(name, value)| (name.to_owned(), vec![value.to_owned()]));
        Candidate {
            site: name.to_owned(),
            contact: format!("{name}:2119"),
            attributes: BTreeMap::from(told),
        }
    }

    /// With so many own calls at the large one, and at the small one.
    fn first(
        known: &[Known],
        wish: &Wish,
        speeds: &Speeds,
        work: Option<Work>,
        own: [usize; 2],
    ) -> String {
        let own = |address: &SiteAddress| own[usize::from(address.host == "small")];
        let order = order(known, wish, work, speeds, "m/f", own);
        order[0].candidate.site.clone()
    }

    #[test]
    fn own_calls_count_and_those_that_failed_come_last_until_the_index_is_asked_again() {
        let home = std::env::temp_dir().join(format!("kumiko-sites-{}", std::process::id()));
        let wanted = Wanted::new("", &[], &[], None).unwrap();
        let candidates = vec![site("large", "4"), site("small", "1")];
        let mut known = known(choose(candidates, &wanted), &home);
        let work = Some(Work {
            bytes: 8,
            operations: 1e9,
        });
        let (never, wish) = (Speeds::of(Kept::default()), Wish::default());
        let told = |own| first(&known, &wish, &never, work, own);
        assert_eq!(told([0, 0]), "large");
        assert_eq!(told([3, 0]), "large", "a slot is left");
        assert_eq!(told([4, 0]), "small");
        assert_eq!(
            told([4, 1]),
            "large",
            "one in four waits less than one in one"
        );
        // As it was wished for, whoever is there.
        let ranked = Wish {
            rank: Some("slots_free".to_owned()),
            ..Wish::default()
        };
        assert_eq!(first(&known, &ranked, &never, work, [9, 0]), "large");
        // The small one was seen to be thrice as fast.
        let signature =
            Signature::from_text("Module m;\nDefine f(IN int n) CalcOrder n {}").unwrap();
        let mut kept = Kept::default();
        for (name, seconds) in [("large", 3), ("small", 1)] {
            let took = Took {
                computing: Duration::from_secs(seconds),
                ..Took::default()
            };
            let work = Work {
                bytes: 8,
                operations: 1e9,
            };
            kept.note(&format!("{name}:2119"), &signature, work, &took, 1);
            kept.know(&signature);
        }
        let speeds = Speeds::of(kept);
        let seen = |own| first(&known, &wish, &speeds, work, own);
        assert_eq!(seen([0, 0]), "small");
        assert_eq!(
            seen([0, 1]),
            "small",
            "it waits for one second, and computes for one"
        );
        assert_eq!(seen([0, 3]), "large");
        for one in known
            .iter_mut()
            .filter(|one| one.site.candidate.site == "small")
        {
            one.last = true;
        }
        assert_eq!(first(&known, &wish, &speeds, work, [0, 0]), "large");
    }
}
