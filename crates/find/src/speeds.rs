//! What calls from here took at their sites, kept for the next choice among sites (spec/jobs/placement.md, PM17): how fast data went, and how
//! fast each routine computed. A file of the cache: that it is lost, or of another writer, changes an order and nothing else. Not here:
//! the estimate (kumiko-directory), and how far a site is away (`ways`).

use crate::{now_ms, read, write};
use kumiko_directory::choose::Candidate;
use kumiko_directory::estimate::{Measured, Work};
use kumiko_idl::{Head, Limits, Signature};
use kumiko_rpc_client::Took;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Sites that are remembered, the oldest go; and routines of one.
const SITES_MOST: usize = 256;
const ROUTINES_MOST: usize = 256;
/// Less data than this takes as long as the way alone.
const TELLING_BYTES: u64 = 256 << 10;
/// What computed for less says nothing of how fast it was.
const TELLING_S: f64 = 1e-3;
const LATENCY: &str = "kumiko-latency-seconds";

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// By contact.
    sites: BTreeMap<String, Site>,
    /// Signatures in IDL, by name: what a call is, before a site is asked.
    routines: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Site {
    /// Unix time, milliseconds.
    at_ms: u64,
    bytes_per_second: Option<f64>,
    /// Of each routine, operations of its CalcOrder.
    operations_per_second: BTreeMap<String, f64>,
}

const WRITTEN_EACH: Duration = Duration::from_secs(5);
const FILE: &str = "calls.json";

/// None: it cannot be said how big it is.
pub fn work(signature: &Signature, heads: &[Head]) -> Option<Work> {
    let plan = signature.plan(heads, Limits::WIDEST).ok()?;
    let operations = signature.operations_of(heads).ok()?;
    Some(Work {
        bytes: plan.in_bytes.saturating_add(plan.out_bytes),
        operations: operations.unwrap_or(1.),
    })
}

/// MODULE/NAME.
fn name(signature: &Signature) -> String {
    format!("{}/{}", signature.module, signature.name)
}

impl Kept {
    pub fn load() -> Kept {
        read(FILE)
    }

    /// A routine that was called from here before.
    pub fn knows(&self, routine: &str) -> bool {
        self.routines.contains_key(routine)
    }

    /// Of such a one.
    pub fn signature(&self, routine: &str) -> Option<Signature> {
        Signature::from_text(self.routines.get(routine)?).ok()
    }

    pub fn of(&self, candidate: &Candidate, routine: &str) -> Measured {
        let site = self.sites.get(&candidate.contact);
        let latency = candidate.attributes.get(LATENCY);
        Measured {
            latency_s: latency.and_then(|values| values.first()?.parse().ok()),
            bytes_per_second: site.and_then(|site| site.bytes_per_second),
            operations_per_second: site
                .and_then(|site| site.operations_per_second.get(routine).copied()),
        }
    }

    /// A call has a result: half of what counts from now on is how long it took.
    pub(crate) fn note(
        &mut self,
        contact: &str,
        signature: &Signature,
        work: Work,
        took: &Took,
        at_ms: u64,
    ) {
        let routine = name(signature);
        let site = self.sites.entry(contact.to_owned()).or_default();
        site.at_ms = at_ms;
        let mean = |old: Option<f64>, new: f64| old.map_or(new, |old| f64::midpoint(old, new));
        let moving = (took.sending + took.fetching).as_secs_f64();
        if work.bytes >= TELLING_BYTES && moving > 0. {
            let rate = work.bytes as f64 / moving;
            site.bytes_per_second = Some(mean(site.bytes_per_second, rate));
        }
        let computing = took.computing.as_secs_f64();
        if computing >= TELLING_S && work.operations > 0. {
            let rates = &mut site.operations_per_second;
            let rate = mean(rates.get(&routine).copied(), work.operations / computing);
            rates.insert(routine.clone(), rate);
            while rates.len() > ROUTINES_MOST {
                rates.pop_first();
            }
        }
        self.bound();
    }

    pub(crate) fn know(&mut self, signature: &Signature) {
        self.routines.insert(name(signature), signature.to_text());
        self.bound();
    }

    fn bound(&mut self) {
        while self.routines.len() > ROUTINES_MOST {
            self.routines.pop_first();
        }
        while self.sites.len() > SITES_MOST {
            let oldest = self.sites.iter().min_by_key(|(_, site)| site.at_ms);
            let Some(oldest) = oldest.map(|(contact, _)| contact.clone()) else {
                break;
            };
            self.sites.remove(&oldest);
        }
    }
}

/// Remembers it. That it cannot be kept harms nobody.
pub fn keep(contact: &str, signature: &Signature, heads: &[Head], took: &Took) {
    let Some(work) = work(signature, heads) else {
        return;
    };
    let mut kept = Kept::load();
    kept.note(contact, signature, work, took, now_ms());
    kept.know(signature);
    write(FILE, &kept);
}

/// What a program that calls often has measured: the file is written every few seconds.
#[derive(Debug)]
pub struct Speeds {
    kept: Kept,
    /// Contacts of which the file does not know yet.
    noted: BTreeSet<String>,
    written: Instant,
    /// The signature is as this program was told of it.
    knows: bool,
}

impl Speeds {
    pub fn load() -> Speeds {
        Speeds::of(Kept::load())
    }

    pub(crate) fn of(kept: Kept) -> Speeds {
        Speeds {
            kept,
            noted: BTreeSet::new(),
            written: Instant::now(),
            knows: false,
        }
    }

    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// A call has a result.
    pub fn note(&mut self, contact: &str, signature: &Signature, work: Work, took: &Took) {
        self.kept.note(contact, signature, work, took, now_ms());
        if !std::mem::replace(&mut self.knows, true) {
            self.kept.know(signature);
        }
        self.noted.insert(contact.to_owned());
        if self.written.elapsed() >= WRITTEN_EACH {
            self.write();
        }
    }

    /// Puts what is not there into the file.
    pub fn close(&mut self) {
        if !self.noted.is_empty() {
            self.write();
        }
    }

    /// Puts what is not there into the file, and takes from it what others have measured.
    pub fn write(&mut self) {
        self.written = Instant::now();
        let mut file = Kept::load();
        let noted = std::mem::take(&mut self.noted);
        for contact in &noted {
            if let Some(site) = self.kept.sites.get(contact) {
                file.sites.insert(contact.clone(), site.clone());
            }
        }
        if !noted.is_empty() {
            file.routines.append(&mut self.kept.routines);
            file.bound();
            write(FILE, &file);
        }
        self.kept = file;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_took_is_known_of_their_site_and_routine_and_of_no_other() {
        let text = "Module m;\nDefine f(IN int n, IN double a[n]) CalcOrder n^2 {}";
        let signature = Signature::from_text(text).unwrap();
        let mut kept = Kept::default();
        let took = |sending_ms, computing_ms| Took {
            sending: Duration::from_millis(sending_ms),
            computing: Duration::from_millis(computing_ms),
            ..Took::default()
        };
        let work = |bytes, operations| Work { bytes, operations };
        let candidate = |contact: &str| Candidate {
            site: contact.to_owned(),
            contact: contact.to_owned(),
            attributes: BTreeMap::from([(LATENCY.to_owned(), vec!["0.25".to_owned()])]),
        };
        // Too little, and too short: only that it was called.
        kept.note("a:1", &signature, work(100, 1e6), &took(1, 0), 1);
        kept.know(&signature);
        let known =
            |kept: &Kept, contact: &str, routine: &str| kept.of(&candidate(contact), routine);
        assert_eq!(kept.signature("m/f"), Some(signature.clone()));
        let found = known(&kept, "a:1", "m/f");
        assert_eq!(
            (found.latency_s, found.bytes_per_second),
            (Some(0.25), None)
        );
        kept.note(
            "a:1",
            &signature,
            work(1_000_000, 1e6),
            &took(1000, 1000),
            2,
        );
        kept.note("a:1", &signature, work(1_000_000, 1e6), &took(500, 500), 3);
        let found = known(&kept, "a:1", "m/f");
        assert_eq!(found.bytes_per_second, Some(1.5e6));
        assert_eq!(found.operations_per_second, Some(1.5e6));
        assert_eq!(known(&kept, "a:1", "m/g").operations_per_second, None);
        assert_eq!(known(&kept, "b:1", "m/f").bytes_per_second, None);
        for number in 0..2 * SITES_MOST {
            let contact = format!("site{number}:1");
            kept.note(
                &contact,
                &signature,
                work(1, 1.),
                &took(1, 1),
                10 + number as u64,
            );
        }
        assert_eq!(kept.sites.len(), SITES_MOST);
        assert!(!kept.sites.contains_key("a:1"), "the oldest goes");
    }
}
