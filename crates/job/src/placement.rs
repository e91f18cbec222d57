//! What of a choice among sites is kept in the job's record at the site that took it, and what a description by itself asks
//! of a site (spec/jobs/placement.md, PM10 to PM13 and PM30). Not here: the choice (`kumiko-directory`), the trying (client).

use crate::admission::Amounts;
use crate::description::JobDescription;
use crate::validate::{DescriptionError, MAX_NAME_BYTES, many, text, word};
use kumiko_policy::Limited;
use serde::{Deserialize, Serialize};

/// Sites that the record names: whoever looks wants to know why these and not those, and no list of a grid.
pub const CONSIDERED_MOST: usize = 32;
/// An expression of the information service (spec/info X1) is no longer.
pub const EXPRESSION_MOST_BYTES: usize = 8192;
/// Of what is said of one site: a refusal, or some scores.
pub const WHY_MOST_BYTES: usize = 512;

/// How a site was chosen for the job, by whoever submitted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The requirement, as typed; may be empty.
    #[serde(rename = "where")]
    pub requirement: String,
    /// The order, as typed; None: the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Who told of the sites.
    pub index: String,
    /// The best first.
    pub considered: Vec<Considered>,
    /// Sites that are not named here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

/// What became of one site in the choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Considered {
    pub site: String,
    /// HOST:PORT.
    pub contact: String,
    pub fate: Fate,
    /// Its scores, its refusal, or the term that it does not meet.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Chosen,
    /// It has other ranks of the same program.
    ChosenToo,
    /// It was asked, and would not have the job.
    Refused,
    /// It was not reached, and asked nothing.
    Unreachable,
    /// It would have been the next.
    NotAsked,
    /// It does not meet the requirement.
    FellOut,
}

impl Fate {
    pub fn words(self) -> &'static str {
        match self {
            Fate::Chosen => "chosen",
            Fate::ChosenToo => "chosen too",
            Fate::Refused => "refused",
            Fate::Unreachable => "not reached",
            Fate::NotAsked => "not asked",
            Fate::FellOut => "fell out",
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Placement {
    /// In sentences, for `explain`.
    pub fn words(&self) -> Vec<String> {
        let asked = match self.requirement.as_str() {
            "" => "no requirement".to_owned(),
            typed => format!("where {typed}"),
        };
        let rank = self.rank.as_deref();
        let rank = rank.map_or(String::new(), |rank| format!(", by rank {rank}"));
        let mut lines = vec![format!(
            "this site was chosen by who submitted it, {asked}{rank}, from what {} told:",
            self.index
        )];
        lines.extend(self.considered.iter().enumerate().map(|(at, one)| {
            let Considered {
                site,
                contact,
                fate,
                why,
            } = one;
            format!("  {}. {site} ({contact}) {}: {why}", at + 1, fate.words())
        }));
        if self.more > 0 {
            lines.push(format!("  and {} more", self.more));
        }
        lines
    }

    pub(crate) fn validate(&self) -> Result<(), DescriptionError> {
        let hint = "shorten it";
        for (name, value) in [
            ("placement.where", Some(&self.requirement)),
            ("placement.rank", self.rank.as_ref()),
        ] {
            if let Some(value) = value {
                text(|| name.to_owned(), value, EXPRESSION_MOST_BYTES, hint)?;
            }
        }
        word("placement.index", &self.index)?;
        many(
            "placement.considered",
            self.considered.len(),
            CONSIDERED_MOST,
        )?;
        for (at, one) in self.considered.iter().enumerate() {
            let field = |name: &str| format!("placement.considered[{at}].{name}");
            word(&field("site"), &one.site)?;
            word(&field("contact"), &one.contact)?;
            text(|| field("why"), &one.why, WHY_MOST_BYTES, hint)?;
        }
        let chosen = self
            .considered
            .iter()
            .filter(|one| one.fate == Fate::Chosen);
        if chosen.count() != 1 {
            return Err(DescriptionError::Bad {
                path: "placement".to_owned(),
                what: "names no site that was chosen, or several",
                hint: "no site chooses another: have `kumiko job submit --where` do it",
            });
        }
        Ok(())
    }
}

/// A name or address that others told, as it may stand in a record: on one line, and not longer than a name.
pub fn plain_name(told: &str) -> String {
    plain(told, MAX_NAME_BYTES)
}

/// What is said of a site, as it may stand in a record.
pub fn plain_why(said: &str) -> String {
    plain(said, WHY_MOST_BYTES)
}

fn plain(told: &str, most: usize) -> String {
    let mut plain = String::new();
    for c in told.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if plain.len() + c.len_utf8() > most {
            break;
        }
        plain.push(c);
    }
    match plain.is_empty() {
        true => "?".to_owned(),
        false => plain,
    }
}

/// What a description needs of any site, as terms of the expression language: a site that does not meet one would refuse it.
pub fn needs(description: &JobDescription) -> Vec<String> {
    let asked = &description.resources;
    let mut needs = vec!["not draining = yes".to_owned()];
    let named = description.mechanism.as_deref();
    if let Some(mechanism) = named.filter(|name| *name != "auto") {
        needs.push(format!("mechanism = {}", quoted(mechanism)));
    }
    if let Some(queue) = &asked.queue {
        needs.push(format!("queue = {}", quoted(queue)));
    }
    if asked.project.is_some() || asked.gpus.is_some_and(|gpus| gpus > 0) {
        needs.push("batch and not batch = fork".to_owned());
    }
    if asked.exclusive {
        needs.push("batch = slurm".to_owned());
    }
    let shares = [
        asked.cpu_percent,
        asked.network_kbyte_s,
        asked.disk_kbyte_s,
        asked.processes,
    ];
    if shares.iter().any(Option::is_some) {
        needs.push("batch = fork".to_owned());
    }
    needs
}

/// What had better be left at a site, since the job would wait there otherwise. A site that tells nothing of it meets it.
pub fn hopes(description: &JobDescription) -> Vec<String> {
    let reserved = Amounts::of(description);
    let mut hopes: Vec<String> = reserved
        .each()
        .filter_map(|(of, amount)| {
            let (name, amount) = match of {
                Limited::Cpu => ("reserve_cpus", (amount as f64 / 100.0).to_string()),
                Limited::Memory => ("reserve_mem", format!("{amount}MiB")),
                Limited::Network => ("reserve_net", format!("{amount}kB")),
                Limited::Disk => ("reserve_disk", format!("{amount}kB")),
                Limited::Processes => ("reserve_processes", amount.to_string()),
                _ => return None,
            };
            Some(format!("{name} >= {amount} or not {name}"))
        })
        .collect();
    // With fork a job that reserves nothing begins, however full it is.
    let mut free = |name: &str, slots: u64| {
        hopes.push(format!("batch = fork or {name} >= {slots} or not {name}"));
    };
    let resources = &description.resources;
    let each = u64::from(resources.cpus.unwrap_or(1));
    let hosts = resources.host_count.unwrap_or(1).max(1);
    // Ranks of one host share its memory, so as many are there as it was asked for: all, if nothing was.
    free(
        "slots_host",
        each * u64::from(description.count.div_ceil(hosts)),
    );
    if hosts > 1 {
        free("slots_free", each * u64::from(description.count));
    }
    hopes
}

/// A text of the expression language; it has no escapes, so a quote in it can only be of the other kind.
fn quoted(text: &str) -> String {
    match text.contains('"') {
        true => format!("'{}'", text.replace('\'', "")),
        false => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Resources;

    #[test]
    fn a_description_asks_of_a_site_what_it_could_not_do_without() {
        let check = |resources: Resources, expected: &[&str]| {
            let description = JobDescription {
                resources,
                ..JobDescription::new("/bin/true", &[])
            };
            let told = [needs(&description), hopes(&description)].concat();
            assert_eq!(told, expected);
        };
        let any_slot = "batch = fork or slots_host >= 1 or not slots_host";
        check(Resources::default(), &["not draining = yes", any_slot]);
        let of_engine = Resources {
            queue: Some("long".to_owned()),
            gpus: Some(1),
            exclusive: true,
            ..Resources::default()
        };
        check(
            of_engine,
            &[
                "not draining = yes",
                "queue = \"long\"",
                "batch and not batch = fork",
                "batch = slurm",
                any_slot,
            ],
        );
        let of_fork = Resources {
            cpu_percent: Some(150),
            memory_mib: Some(512),
            ..Resources::default()
        };
        check(
            of_fork,
            &[
                "not draining = yes",
                "batch = fork",
                "reserve_cpus >= 1.5 or not reserve_cpus",
                "reserve_mem >= 512MiB or not reserve_mem",
                any_slot,
            ],
        );
    }

    #[test]
    fn ranks_hope_for_free_processors_of_one_host_or_of_as_many_as_they_ask_for() {
        let check = |count: u32, host_count: Option<u32>, expected: &[&str]| {
            let resources = Resources {
                cpus: Some(2),
                host_count,
                ..Resources::default()
            };
            let description = JobDescription {
                count,
                resources,
                ..JobDescription::new("/bin/true", &[])
            };
            let reserved = "reserve_cpus >= 20 or not reserve_cpus";
            assert_eq!(hopes(&description), [&[reserved], expected].concat());
        };
        let on_one = "batch = fork or slots_host >= 20 or not slots_host";
        check(10, None, &[on_one]);
        check(
            10,
            Some(4),
            &[
                "batch = fork or slots_host >= 6 or not slots_host",
                "batch = fork or slots_free >= 20 or not slots_free",
            ],
        );
    }

    #[test]
    fn what_others_told_fits_into_a_record() {
        assert_eq!(plain_name("a\nb\u{1b}[31m"), "a b [31m");
        assert_eq!(plain_name(""), "?");
        let long = plain_why(&"\u{e9}".repeat(WHY_MOST_BYTES));
        assert!(long.len() <= WHY_MOST_BYTES && long.chars().all(|c| c == '\u{e9}'));
    }
}
