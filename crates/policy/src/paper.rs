//! The notation of figure 2 of "Examination of Job Execution on VM in Grid Environment" (2003). What the figure leaves
//! open is fixed in spec/policy, P2, P3, P9, P12.

use crate::error::{PolicyError, Problem};
use crate::path::GuestPath;
use crate::types::{
    Access, MAX_RATE, MAX_RULES, MAX_TEXT_BYTES, MechanismKind, Network, NetworkLimiter, Origin,
    Policy, Real, Rule,
};

const SECTIONS: [&str; 4] = ["type:", "file_path:", "io_limit:", "etc:"];
/// Reads the paper's notation. `source` names the text in errors.
pub fn parse_paper(text: &str, source: &str) -> Result<Policy, PolicyError> {
    let mut reader = Reader {
        source,
        policy: Policy::empty(),
        seen: Vec::new(),
        section: None,
        kind: None,
    };
    if text.len() > MAX_TEXT_BYTES {
        return Err(reader.error(1, 1, Problem::TooLong));
    }
    for (number, line) in (1u32..).zip(text.lines()) {
        reader.line(number, line)?;
    }
    reader.end()
}

struct Reader<'a> {
    source: &'a str,
    policy: Policy,
    seen: Vec<&'static str>,
    section: Option<&'static str>,
    /// Where `type:` stands, until its number comes.
    kind: Option<u32>,
}

/// A word and its column.
type Word<'a> = (u32, &'a str);

impl Reader<'_> {
    fn line(&mut self, number: u32, line: &str) -> Result<(), PolicyError> {
        let said = line.split('#').next().unwrap_or_default();
        let words: Vec<Word<'_>> = words(said);
        let Some(&(column, first)) = words.first() else {
            return Ok(());
        };
        if first.ends_with(':') && words.len() == 1 {
            return self.open(number, column, first);
        }
        match self.section {
            None => Err(self.error(
                number,
                column,
                Problem::NoSection {
                    line: said.trim().to_owned(),
                },
            )),
            Some("type:") => self.kind(number, column, said.trim()),
            Some("file_path:") => self.path(number, &words),
            Some(section) => self.pair(section, number, &words),
        }
    }

    fn open(&mut self, number: u32, column: u32, name: &str) -> Result<(), PolicyError> {
        let Some(section) = SECTIONS.into_iter().find(|section| *section == name) else {
            return Err(self.error(
                number,
                column,
                Problem::UnknownSection {
                    section: name.to_owned(),
                },
            ));
        };
        if self.seen.contains(&section) {
            return Err(self.error(
                number,
                column,
                Problem::SectionTwice {
                    section: name.to_owned(),
                },
            ));
        }
        self.seen.push(section);
        self.section = Some(section);
        if section == "type:" {
            self.kind = Some(number);
        }
        Ok(())
    }

    /// "1" or "1(ptrace)".
    fn kind(&mut self, number: u32, column: u32, said: &str) -> Result<(), PolicyError> {
        if self.kind.take().is_none() {
            return Err(self.error(
                number,
                column,
                Problem::SetTwice {
                    name: "type:".to_owned(),
                },
            ));
        }
        let (digits, name) = match said.split_once('(') {
            Some((digits, name)) => (digits.trim(), name.strip_suffix(')')),
            None => (said, Some("")),
        };
        let wrong = || Problem::WrongKind {
            found: said.to_owned(),
        };
        let (Ok(digit), Some(name)) = (digits.parse::<u32>(), name) else {
            return Err(self.error(number, column, wrong()));
        };
        let Some(kind) = MechanismKind::from_number(digit) else {
            return Err(self.error(number, column, wrong()));
        };
        // The paper's own names for two of them.
        let paper = match kind {
            MechanismKind::Notify => "mod_janus",
            MechanismKind::Library => "dyninst",
            other => other.name(),
        };
        let name = name.trim();
        if !name.is_empty() && name != kind.name() && name != paper {
            let problem = Problem::KindMismatch {
                number: digit,
                name: kind.name(),
                found: name.to_owned(),
            };
            return Err(self.error(number, column, problem));
        }
        self.policy.mechanism = kind;
        self.note("mechanism", number);
        Ok(())
    }

    /// VIRTUAL REAL FLAG.
    fn path(&mut self, number: u32, words: &[Word<'_>]) -> Result<(), PolicyError> {
        let [place, real, (flag_column, flag)] = words else {
            let column = words.last().map_or(1, |word| word.0);
            return Err(self.error(number, column, Problem::PathLine { found: words.len() }));
        };
        let path = self.guest_path(number, *place)?;
        let root = self.guest_path(number, *real)?;
        let real = Real::Host {
            root,
            beneath: String::new(),
        };
        let access = match *flag {
            "0" => Access::Read {
                real,
                optional: false,
            },
            "1" => Access::Write {
                real,
                optional: false,
            },
            other => {
                return Err(self.error(
                    number,
                    *flag_column,
                    Problem::Flag {
                        found: other.to_owned(),
                    },
                ));
            }
        };
        let origin = Origin {
            source: self.source.to_owned(),
            line: number,
        };
        let rule = Rule {
            path,
            access,
            execute: true, // the notation has no word for it
            origin,
        };
        add(&mut self.policy, rule).map_err(|problem| self.error(number, place.0, problem))
    }

    /// NAME VALUE.
    fn pair(
        &mut self,
        section: &'static str,
        number: u32,
        words: &[Word<'_>],
    ) -> Result<(), PolicyError> {
        let [(column, name), (value_column, value)] = words else {
            let column = words.last().map_or(1, |word| word.0);
            return Err(self.error(
                number,
                column,
                Problem::PairLine {
                    section,
                    found: words.len(),
                },
            ));
        };
        let most = match (section, *name) {
            ("etc:", "limiter") => NetworkLimiter::ALL.len() as u64 - 1,
            ("etc:", _) => 1,
            _ => MAX_RATE,
        };
        let parsed = value
            .parse::<u64>()
            .ok()
            .filter(|value| *value <= most && !(section == "io_limit:" && *value == 0));
        let Some(parsed) = parsed else {
            let least = u64::from(section == "io_limit:");
            let problem = Problem::OutOfRange {
                key: (*name).to_owned(),
                found: (*value).to_owned(),
                least,
                most,
            };
            return Err(self.error(number, *value_column, problem));
        };
        let limits = &mut self.policy.limits;
        let twice = match (section, *name) {
            ("io_limit:", "disk") => limits.disk_kbyte_s.replace(parsed).is_some(),
            ("io_limit:", "net") => limits.network_kbyte_s.replace(parsed).is_some(),
            ("etc:", "trace_fork") => self.policy.further_processes.replace(parsed == 1).is_some(),
            ("etc:", "network") => {
                let network = if parsed == 1 {
                    Network::Host
                } else {
                    Network::None
                };
                self.policy.network.replace(network).is_some()
            }
            ("etc:", "strict") => std::mem::replace(&mut self.policy.strict, parsed == 1),
            ("etc:", "complete") => self.policy.complete.replace(parsed == 1).is_some(),
            ("etc:", "dump") => self.policy.dump.replace(parsed == 1).is_some(),
            ("etc:", "limiter") => {
                let limiter = usize::try_from(parsed).ok();
                let limiter = limiter.and_then(|at| NetworkLimiter::ALL.get(at).copied());
                std::mem::replace(&mut self.policy.limiter, limiter).is_some()
            }
            (section, found) => {
                let expected = if section == "etc:" {
                    "trace_fork, network, strict, complete, limiter or dump"
                } else {
                    "disk or net"
                };
                let problem = Problem::WrongName {
                    section,
                    found: found.to_owned(),
                    expected,
                };
                return Err(self.error(number, *column, problem));
            }
        };
        if twice {
            return Err(self.error(
                number,
                *column,
                Problem::SetTwice {
                    name: (*name).to_owned(),
                },
            ));
        }
        let key = match *name {
            "disk" => "limits.disk_kbyte_s",
            "net" => "limits.network_kbyte_s",
            "trace_fork" => "further_processes",
            other => other,
        };
        self.note(key, number);
        Ok(())
    }

    fn note(&mut self, key: &str, line: u32) {
        let source = self.source.to_owned();
        let origin = Origin { source, line };
        self.policy.origins.insert(key.to_owned(), origin);
    }

    fn guest_path(&self, line: u32, (column, text): Word<'_>) -> Result<GuestPath, PolicyError> {
        GuestPath::new(text).map_err(|problem| {
            self.error(
                line,
                column,
                Problem::Path {
                    path: text.to_owned(),
                    problem,
                },
            )
        })
    }

    fn end(mut self) -> Result<Policy, PolicyError> {
        if let Some(line) = self.kind {
            return Err(self.error(line, 1, Problem::KindMissing));
        }
        self.policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
        self.policy.layers = vec![self.source.to_owned()];
        Ok(self.policy)
    }

    fn error(&self, line: u32, column: u32, problem: Problem) -> PolicyError {
        PolicyError {
            source_name: self.source.to_owned(),
            line,
            column,
            problem,
        }
    }
}

/// Adds a rule, in either notation: one a path, none where every guest has its own (P10).
pub(crate) fn add(policy: &mut Policy, rule: Rule) -> Result<(), Problem> {
    if let Some(other) = policy.paths.iter().find(|other| other.path == rule.path) {
        return Err(Problem::Twice {
            path: rule.path,
            line: other.origin.line,
        });
    }
    let shows = matches!(rule.access, Access::Read { .. } | Access::Write { .. });
    let reserved = match rule.path.as_str() {
        "/" => !shows,
        "/proc" | "/dev" | crate::JOB_DIRECTORY => true,
        path if path.starts_with("/proc/") => true,
        path if path.starts_with("/dev/") => !shows,
        _ => false,
    };
    if reserved {
        return Err(Problem::Reserved { path: rule.path });
    }
    if policy.paths.len() >= MAX_RULES {
        return Err(Problem::TooManyRules);
    }
    policy.paths.push(rule);
    Ok(())
}

/// The words of a line, with columns in characters from 1.
fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start: Option<(u32, usize)> = None;
    for (column, (at, character)) in (1u32..).zip(line.char_indices()) {
        match (character.is_whitespace(), start) {
            (false, None) => start = Some((column, at)),
            (true, Some((column, from))) => {
                words.push((column, line.get(from..at).unwrap_or_default()));
                start = None;
            }
            _ => {}
        }
    }
    if let Some((column, from)) = start {
        words.push((column, line.get(from..).unwrap_or_default()));
    }
    words
}
