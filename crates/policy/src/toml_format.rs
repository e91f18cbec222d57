//! The TOML notation (P1). Read key by key rather than by serde, so that every error has its line and column.

use crate::error::{PolicyError, Problem};
use crate::paper::add;
use crate::path::GuestPath;
use crate::reach::{Addresses, MAX_ADDRESSES, Reach};
use crate::types::{
    Access, Limited, MAX_MIB, MAX_TEXT_BYTES, MechanismKind, Network, NetworkLimiter, Origin,
    Policy, Real, Rule,
};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const KEYS: &str =
    "mechanism, network, further_processes, strict, complete, limiter, dump, vo, paths, limits";
const RULE_KEYS: &str = "access, real, optional, size_mib, execute";
const NETWORK_KEYS: &str = "access, allow, deny";
const LIMIT_KEYS: &str = "disk_kbyte_s, network_kbyte_s, cpu_percent, memory_mib, processes, open_files, cpu_time_s, \
                          wall_time_s, written_mib";
const ACCESSES: &str = "read, write, denied, hidden, temporary";
/// Of the name of a virtual organisation: those in use are of DNS, at most this long (RFC 1035, 2.3.4).
const MAX_VO_BYTES: usize = 255;
const VO_WORDS: &str = "names of letters, digits, points, dashes and underscores";

pub(crate) type Entry<'a> = (
    &'a Spanned<std::borrow::Cow<'a, str>>,
    &'a Spanned<DeValue<'a>>,
);

/// Reads the TOML notation. `source` names the text in errors.
pub fn parse_toml(text: &str, source: &str) -> Result<Policy, PolicyError> {
    let reader = Reader { text, source };
    if text.len() > MAX_TEXT_BYTES {
        return Err(reader.error(0..0, Problem::TooLong));
    }
    let table = DeTable::parse(text).map_err(|error| {
        reader.error(
            error.span().unwrap_or(0..0),
            Problem::Toml(error.message().to_owned()),
        )
    })?;
    reader.policy(table.get_ref())
}

pub(crate) struct Reader<'a> {
    pub text: &'a str,
    pub source: &'a str,
}

impl Reader<'_> {
    pub fn policy(&self, table: &DeTable<'_>) -> Result<Policy, PolicyError> {
        let mut policy = Policy::empty();
        for (key, value) in table {
            self.entry(&mut policy, (key, value))?;
        }
        policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
        policy.layers = vec![self.source.to_owned()];
        Ok(policy)
    }

    fn note(&self, policy: &mut Policy, key: &str, span: Range<usize>) {
        let origin = Origin {
            source: self.source.to_owned(),
            line: self.place(span.start).0,
        };
        policy.origins.insert(key.to_owned(), origin);
    }

    fn entry(&self, policy: &mut Policy, (key, value): Entry<'_>) -> Result<(), PolicyError> {
        let name = key.get_ref().as_ref();
        if matches!(
            name,
            "mechanism"
                | "network"
                | "further_processes"
                | "strict"
                | "complete"
                | "limiter"
                | "dump"
        ) {
            self.note(policy, name, key.span());
        }
        match name {
            "mechanism" => {
                let name = self.string((key, value))?;
                policy.mechanism = MechanismKind::from_name(name).ok_or_else(|| {
                    self.wrong_word(
                        (key, value),
                        name,
                        "auto, ptrace, notify, library, namespace",
                    )
                })?;
            }
            "network" => self.network(policy, (key, value))?,
            "further_processes" => policy.further_processes = Some(self.boolean((key, value))?),
            "strict" => policy.strict = self.boolean((key, value))?,
            "complete" => policy.complete = Some(self.boolean((key, value))?),
            "dump" => policy.dump = Some(self.boolean((key, value))?),
            "limiter" => {
                let name = self.string((key, value))?;
                let limiter = NetworkLimiter::from_name(name);
                policy.limiter = Some(limiter.ok_or_else(|| {
                    self.wrong_word((key, value), name, "outside, deadline, paper")
                })?);
            }
            "vo" => policy.vo = Some(self.name((key, value))?),
            "paths" => {
                for (path, rule) in self.table((key, value))? {
                    let rule = self.rule((path, rule))?;
                    add(policy, rule).map_err(|problem| self.error(path.span(), problem))?;
                }
            }
            "limits" => {
                for (name, value) in self.table((key, value))? {
                    self.limit(policy, (name, value))?;
                }
            }
            other => return Err(self.unknown(key, other, KEYS)),
        }
        Ok(())
    }

    /// `"host"`, or `{ access = "host", allow = ["192.0.2.0/24:443"], deny = ["*:25"] }` (P60).
    fn network(&self, policy: &mut Policy, (key, value): Entry<'_>) -> Result<(), PolicyError> {
        let word = |entry: Entry<'_>| -> Result<Network, PolicyError> {
            match self.string(entry)? {
                "host" => Ok(Network::Host),
                "none" => Ok(Network::None),
                found => Err(self.wrong_word(entry, found, "host, none")),
            }
        };
        let DeValue::Table(table) = value.get_ref() else {
            policy.network = Some(word((key, value))?);
            return Ok(());
        };
        let mut reach = Reach {
            allow: None,
            deny: Vec::new(),
            origin: Origin {
                source: self.source.to_owned(),
                line: self.place(key.span().start).0,
            },
            lines: BTreeMap::new(),
        };
        for (name, value) in table {
            match name.get_ref().as_ref() {
                "access" => policy.network = Some(word((name, value))?),
                "allow" => reach.allow = Some(self.addresses((name, value), &mut reach.lines)?),
                "deny" => reach.deny = self.addresses((name, value), &mut reach.lines)?,
                other => return Err(self.unknown(name, other, NETWORK_KEYS)),
            }
        }
        if reach.allow.is_some() || !reach.deny.is_empty() {
            if reach.deny.len() + reach.allow.as_ref().map_or(0, Vec::len) > MAX_ADDRESSES {
                return Err(self.error(key.span(), Problem::TooManyAddresses));
            }
            policy.reach.push(reach);
        }
        Ok(())
    }

    fn addresses(
        &self,
        (key, value): Entry<'_>,
        lines: &mut BTreeMap<String, u32>,
    ) -> Result<Vec<Addresses>, PolicyError> {
        let DeValue::Array(words) = value.get_ref() else {
            return Err(self.wrong_type((key, value), "a list of addresses"));
        };
        let address = |value| {
            let word = self.string((key, value))?;
            let rule: Addresses = word.parse().map_err(|problem| {
                let word = word.to_owned();
                self.error(value.span(), Problem::Address { word, problem })
            })?;
            // Of two that say the same the first decides.
            let line = self.place(value.span().start).0;
            lines
                .entry(format!("{} {rule}", key.get_ref()))
                .or_insert(line);
            Ok(rule)
        };
        words.iter().map(address).collect()
    }

    fn limit(&self, policy: &mut Policy, (name, value): Entry<'_>) -> Result<(), PolicyError> {
        let key = name.get_ref().as_ref();
        let Some(limited) = Limited::from_key(key) else {
            return Err(self.unknown(name, key, LIMIT_KEYS));
        };
        let value = self.number((name, value), limited.most())?;
        policy.limits.set(limited, Some(value));
        self.note(policy, &limited.full_key(), name.span());
        Ok(())
    }

    /// The name of a virtual organisation: a word, since it becomes part of file names and of what people type.
    pub fn name(&self, (key, value): Entry<'_>) -> Result<String, PolicyError> {
        let name = self.string((key, value))?;
        let fits = (1..=MAX_VO_BYTES).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        match fits {
            true => Ok(name.to_owned()),
            false => Err(self.wrong_word((key, value), name, VO_WORDS)),
        }
    }

    /// `"/path" = "read"`, or `"/path" = { access = "read", real = "/other", optional = true }`.
    fn rule(&self, (key, value): Entry<'_>) -> Result<Rule, PolicyError> {
        let path = self.path(key.get_ref(), key.span())?;
        let origin = Origin {
            source: self.source.to_owned(),
            line: self.place(key.span().start).0,
        };
        let mut said = Said::default();
        if matches!(value.get_ref(), DeValue::String(_)) {
            said.access = Some((self.string((key, value))?, value.span()));
        } else {
            for (name, value) in self.table((key, value))? {
                match name.get_ref().as_ref() {
                    "access" => said.access = Some((self.string((name, value))?, value.span())),
                    "real" => {
                        let real = self.path(self.string((name, value))?, value.span())?;
                        said.real = Some((real, name.span()));
                    }
                    "optional" => said.optional = Some((self.boolean((name, value))?, name.span())),
                    "size_mib" => {
                        said.size_mib = Some((self.number((name, value), MAX_MIB)?, name.span()))
                    }
                    "execute" => said.execute = Some((self.boolean((name, value))?, name.span())),
                    other => return Err(self.unknown(name, other, RULE_KEYS)),
                }
            }
        }
        let execute = said.execute.as_ref().is_none_or(|(execute, _)| *execute);
        let access = self.access(&path, said, value.span())?;
        Ok(Rule {
            path,
            access,
            execute,
            origin,
        })
    }

    fn access(
        &self,
        path: &GuestPath,
        said: Said<'_>,
        span: Range<usize>,
    ) -> Result<Access, PolicyError> {
        let Some((name, name_span)) = said.access else {
            return Err(self.error(span, Problem::NoAccess));
        };
        let access = match name {
            "read" => "read",
            "write" => "write",
            "denied" => "denied",
            "hidden" => "hidden",
            "temporary" => "temporary",
            found => {
                let problem = Problem::WrongWord {
                    key: "access".to_owned(),
                    found: found.to_owned(),
                    expected: ACCESSES,
                };
                return Err(self.error(name_span, problem));
            }
        };
        let shows = matches!(access, "read" | "write");
        let real_span = said.real.as_ref().map(|(_, span)| span.clone());
        let misplaced = [
            ("real", real_span.filter(|_| !shows)),
            (
                "optional",
                said.optional
                    .as_ref()
                    .map(|(_, span)| span.clone())
                    .filter(|_| !shows),
            ),
            (
                "size_mib",
                said.size_mib
                    .as_ref()
                    .map(|(_, span)| span.clone())
                    .filter(|_| access != "temporary"),
            ),
            (
                "execute",
                said.execute
                    .as_ref()
                    .map(|(_, span)| span.clone())
                    .filter(|_| !shows && access != "temporary"),
            ),
        ];
        for (key, span) in misplaced {
            if let Some(span) = span {
                return Err(self.error(span, Problem::NotWith { access, key }));
            }
        }
        let root = said.real.map_or_else(|| path.clone(), |(real, _)| real);
        let real = Real::Host {
            root,
            beneath: String::new(),
        };
        let optional = said.optional.is_some_and(|(optional, _)| optional);
        Ok(match access {
            "read" => Access::Read { real, optional },
            "write" => Access::Write { real, optional },
            "denied" => Access::Denied,
            "hidden" => Access::Hidden,
            _ => Access::Temporary {
                size_mib: said.size_mib.map(|(size, _)| size),
            },
        })
    }

    fn path(&self, text: &str, span: Range<usize>) -> Result<GuestPath, PolicyError> {
        GuestPath::new(text).map_err(|problem| {
            self.error(
                span,
                Problem::Path {
                    path: text.to_owned(),
                    problem,
                },
            )
        })
    }

    pub fn string<'b>(&self, (key, value): Entry<'b>) -> Result<&'b str, PolicyError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.wrong_type((key, value), "a string")),
        }
    }

    fn boolean(&self, (key, value): Entry<'_>) -> Result<bool, PolicyError> {
        match value.get_ref() {
            DeValue::Boolean(yes) => Ok(*yes),
            _ => Err(self.wrong_type((key, value), "true or false")),
        }
    }

    pub fn table<'b>(&self, (key, value): Entry<'b>) -> Result<&'b DeTable<'b>, PolicyError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong_type((key, value), "a table")),
        }
    }

    /// From 1 to `most`: a limit of nothing is no limit but a refusal, which has its own words.
    fn number(&self, (key, value): Entry<'_>, most: u64) -> Result<u64, PolicyError> {
        let DeValue::Integer(number) = value.get_ref() else {
            return Err(self.wrong_type((key, value), "a whole number"));
        };
        let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
        parsed
            .filter(|parsed| (1..=most).contains(parsed))
            .ok_or_else(|| {
                let found = number.as_str().to_owned();
                let problem = Problem::OutOfRange {
                    key: key.get_ref().to_string(),
                    found,
                    least: 1,
                    most,
                };
                self.error(value.span(), problem)
            })
    }

    pub fn unknown(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        name: &str,
        expected: &'static str,
    ) -> PolicyError {
        self.error(
            key.span(),
            Problem::UnknownKey {
                key: name.to_owned(),
                expected,
            },
        )
    }

    pub fn wrong_word(
        &self,
        (key, value): Entry<'_>,
        found: &str,
        expected: &'static str,
    ) -> PolicyError {
        let problem = Problem::WrongWord {
            key: key.get_ref().to_string(),
            found: found.to_owned(),
            expected,
        };
        self.error(value.span(), problem)
    }

    pub fn wrong_type(&self, (key, value): Entry<'_>, expected: &'static str) -> PolicyError {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(
            value.span(),
            Problem::WrongType {
                key: key.get_ref().to_string(),
                found,
                expected,
            },
        )
    }

    pub fn error(&self, span: Range<usize>, problem: Problem) -> PolicyError {
        let (line, column) = self.place(span.start);
        PolicyError {
            source_name: self.source.to_owned(),
            line,
            column,
            problem,
        }
    }

    /// Line and column (in characters) of a byte of the text, from 1.
    fn place(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        (
            u32::try_from(line).unwrap_or(u32::MAX),
            u32::try_from(column).unwrap_or(u32::MAX),
        )
    }
}

/// What a rule's table said, and where.
#[derive(Default)]
struct Said<'a> {
    access: Option<(&'a str, Range<usize>)>,
    real: Option<(GuestPath, Range<usize>)>,
    optional: Option<(bool, Range<usize>)>,
    size_mib: Option<(u64, Range<usize>)>,
    execute: Option<(bool, Range<usize>)>,
}
