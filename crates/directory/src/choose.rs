//! The choice among sites (spec/jobs/placement.md, PM10 to PM16): candidates, what is required of them, what is hoped for, an
//! order; out comes the order in which they are to be asked, and why. Pure. Not here: who asks them, and what of it is kept.

use crate::ask::EntryView;
use crate::entry::{Entry, Op, Stamp};
use crate::expr::{self, ExprError, Term};
use crate::rows::{Bounds, RowId};
use crate::search::Rank;
use crate::store::Directory;
use crate::{Dn, SourceId, schema};
use std::collections::{BTreeMap, BTreeSet};

/// What sites are ordered by where nothing else is asked for: room first, then short queues, then nearness.
pub const USUAL_RANK: &str = "slots_free desc, waiting, latency";
/// The same where a folder goes along: how many seconds that takes comes first.
pub const FOLDER_RANK: &str = "transfer, slots_free desc, waiting, latency";
/// Candidates that are looked at; a grid of more sites is narrowed by the index itself first.
pub const CANDIDATES_MOST: usize = 1000;

const CONTACT: &str = "kumiko-contact";
const STALE: &str = "kumiko-stale-since";
/// Whose entries they are does not matter here.
const TELLER: SourceId = SourceId(1);

/// A site, as an index told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub site: String,
    /// HOST:PORT.
    pub contact: String,
    /// As told, and what else whoever asks knows of it.
    pub attributes: BTreeMap<String, Vec<String>>,
}

impl Candidate {
    /// The first value of an attribute, by its whole name in any case.
    pub fn first(&self, name: &str) -> Option<&str> {
        let mut found = self.attributes.iter();
        let found = found.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.and_then(|(_, values)| values.first().map(String::as_str))
    }
}

/// What is wanted of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Each has to be met.
    pub requires: Vec<Term>,
    /// Those that miss one come after those that do not.
    pub hopes: Vec<Term>,
    pub rank: Vec<Rank>,
}

/// A candidate in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub candidate: Candidate,
    /// The requirements that it does not meet; empty: it can be asked.
    pub lacks: Vec<String>,
    /// The hopes that it misses.
    pub misses: Vec<String>,
    /// Since when nothing was heard of it.
    pub stale_since: Option<String>,
    /// What it was ordered by: names as in expressions, and its values.
    pub scores: Vec<(String, Option<String>)>,
}

impl Judged {
    pub fn can_be_asked(&self) -> bool {
        self.lacks.is_empty()
    }

    /// Why it stands where it does.
    pub fn why(&self) -> String {
        if !self.can_be_asked() {
            return format!("it does not meet {}", self.lacks.join(", nor "));
        }
        let scores = self.scores.iter().map(|(name, value)| match value {
            Some(value) => format!("{name} {value}"),
            None => format!("{name} not told"),
        });
        let mut words: Vec<String> = scores.collect();
        let misses = self.misses.iter();
        words.extend(misses.map(|term| format!("it would wait, for want of {term}")));
        let stale = self.stale_since.iter();
        words.extend(stale.map(|since| format!("nothing was heard of it since {since}")));
        match words.is_empty() {
            true => "nothing was to be compared".to_owned(),
            false => words.join("; "),
        }
    }
}

impl Wanted {
    /// `requirement` and `rank` as typed; the others are a description's own (kumiko-job's `placement`).
    ///
    /// # Errors
    /// Of which text, and where in it.
    pub fn new(
        requirement: &str,
        needs: &[String],
        hopes: &[String],
        rank: Option<&str>,
    ) -> Result<Wanted, ExprError> {
        let mut requires = expr::parse(requirement)?.terms;
        for need in needs {
            requires.extend(whole(need)?);
        }
        let hopes = hopes.iter().map(|one| whole(one));
        let hopes: Vec<Option<Term>> = hopes.collect::<Result<_, _>>()?;
        Ok(Wanted {
            requires,
            hopes: hopes.into_iter().flatten().collect(),
            rank: expr::parse_rank(rank.unwrap_or(USUAL_RANK))?,
        })
    }
}

/// A text as one term.
fn whole(text: &str) -> Result<Option<Term>, ExprError> {
    let expression = expr::parse(text)?;
    Ok((!expression.terms.is_empty()).then(|| Term {
        text: text.to_owned(),
        filter: expression.filter,
    }))
}

/// The sites among entries: those with a contact, each once, however many of its hosts tell of it. Of several the one that
/// is heard counts, then the first by name.
pub fn candidates(entries: Vec<EntryView>) -> Vec<Candidate> {
    let mut entries = entries;
    entries.sort_by(|a, b| (a.first(STALE), &a.dn).cmp(&(b.first(STALE), &b.dn)));
    let mut seen = BTreeSet::new();
    let candidate = |entry: EntryView| {
        let contact = entry.first(CONTACT)?.to_owned();
        let named = entry.first("kumiko-site").or(entry.first("Mds-Host-hn"));
        let site = named.unwrap_or(&contact).to_owned();
        seen.insert(contact.to_lowercase()).then_some(Candidate {
            site,
            contact,
            attributes: entry.attributes,
        })
    };
    entries.into_iter().filter_map(candidate).collect()
}

/// A name of the requirement or the order that nobody declared and no candidate has: a slip.
pub fn unknown<'n>(candidates: &[Candidate], names: &'n [String]) -> Option<&'n String> {
    let told = |name: &str| {
        let has = |one: &Candidate| one.attributes.keys().any(|n| n.eq_ignore_ascii_case(name));
        candidates.iter().any(has)
    };
    let known = |name: &str| schema::attribute(name).is_some() || told(name);
    names.iter().find(|name| !known(name))
}

/// All candidates, the best first. Those that can be asked come before those that cannot; of these those of which something
/// was heard, then those that miss no hope, then the order that is wanted; what is equal then, by name and contact.
pub fn choose(mut candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<Judged> {
    candidates.sort_by(|a, b| (&a.site, &a.contact).cmp(&(&b.site, &b.contact)));
    let mut directory = Directory::new(root(), Bounds::default());
    let rows: Vec<Option<RowId>> = candidates
        .iter()
        .enumerate()
        .map(|(at, candidate)| enter(&mut directory, at, candidate))
        .collect();
    let meets = |row: Option<RowId>, term: &Term| {
        row.is_some_and(|row| directory.plan(&term.filter).matches(row))
    };
    let unmet = |row: Option<RowId>, terms: &[Term]| -> Vec<String> {
        let missing = terms.iter().filter(|term| !meets(row, term));
        missing.map(|term| term.text.clone()).collect()
    };
    let mut order: Vec<RowId> = rows.iter().flatten().copied().collect();
    let most = order.len();
    directory.rank(&mut order, &wanted.rank, most);
    let place = |row: &Option<RowId>| {
        let found = row.and_then(|row| order.iter().position(|one| *one == row));
        found.unwrap_or(most)
    };
    let mut judged: Vec<(usize, Judged)> = candidates
        .into_iter()
        .zip(&rows)
        .map(|(candidate, row)| {
            let value = |name: &str| candidate.first(name).map(str::to_owned);
            let scores = wanted.rank.iter().map(|rank| {
                let short = schema::attribute(&rank.attribute).map(|a| a.short);
                let short = short.filter(|short| !short.is_empty());
                let name = short.unwrap_or(&rank.attribute);
                (name.to_owned(), value(&rank.attribute))
            });
            let one = Judged {
                lacks: unmet(*row, &wanted.requires),
                misses: unmet(*row, &wanted.hopes),
                stale_since: value(STALE),
                scores: scores.collect(),
                candidate,
            };
            (place(row), one)
        })
        .collect();
    judged.sort_by_key(|(place, one)| {
        (
            !one.can_be_asked(),
            one.stale_since.is_some(),
            !one.misses.is_empty(),
            *place,
        )
    });
    judged.into_iter().map(|(_, one)| one).collect()
}

fn root() -> Dn {
    Dn::default().child("o", "grid")
}

/// None: what was told of it is more than an entry can hold, and it meets nothing.
fn enter(directory: &mut Directory, at: usize, candidate: &Candidate) -> Option<RowId> {
    let dn = root().child("Mds-Host-hn", &at.to_string());
    let mut entry = Entry::new(dn.clone());
    for (name, values) in &candidate.attributes {
        entry.add(name, values);
    }
    let op = Op::Put(entry.stamped(Stamp::default()));
    directory.apply(TELLER, &Dn::default(), &op).ok()?;
    directory.find(&dn)
}
