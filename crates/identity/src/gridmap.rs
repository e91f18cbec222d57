//! The grid-mapfile: which accounts a subject may use (spec/identity, clauses M1 to M5).
//!
//! A value: read anew when the file changes. What an account is on this machine is not known here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::dn::{Dn, DnError};

/// 100,000 users with long names; more is a mistake.
pub const MAX_BYTES: usize = 32 << 20;

/// What was wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GridMapProblem {
    #[error("the quoted name does not end")]
    Unterminated,
    #[error("no account after the name")]
    NoAccount,
    #[error(
        "more than one word after a name without quotes: a name with blanks stands in double quotes"
    )]
    Unquoted,
    #[error("{0:?} is no account: letters, digits and . _ - $ are, not beginning with -")]
    Account(String),
    #[error("{0}")]
    Name(#[from] DnError),
    #[error("longer than {MAX_BYTES} bytes")]
    TooLong,
}

/// Why a text is no grid-mapfile; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct GridMapError {
    pub line: usize,
    pub column: usize,
    pub problem: GridMapProblem,
}

/// Why a grid-mapfile was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum GridMapLoadError {
    #[error("cannot read the grid-mapfile {}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the grid-mapfile {} cannot be used: {source}", path.display())]
    Content { path: PathBuf, source: GridMapError },
}

/// Subjects and their accounts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GridMap {
    entries: HashMap<Dn, Vec<String>>,
}

impl GridMap {
    /// Reads the text of a file. One bad line refuses all: half a mapfile would be another one than was meant.
    pub fn parse(text: &str) -> Result<GridMap, GridMapError> {
        let failed = |line, column, problem| GridMapError {
            line,
            column,
            problem,
        };
        if text.len() > MAX_BYTES {
            return Err(failed(1, 1, GridMapProblem::TooLong));
        }
        let mut map = GridMap::default();
        for (index, line) in text.lines().enumerate() {
            let entry = parse_line(line)
                .map_err(|(column, problem)| failed(index + 1, column + 1, problem))?;
            if let Some((name, accounts)) = entry {
                // As GT: the first line of a subject holds.
                map.entries.entry(name).or_insert(accounts);
            }
        }
        Ok(map)
    }

    pub fn load(path: &Path) -> Result<GridMap, GridMapLoadError> {
        let text = std::fs::read_to_string(path).map_err(|source| GridMapLoadError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|source| GridMapLoadError::Content {
            path: path.to_owned(),
            source,
        })
    }

    /// The accounts of a subject, the default first; none where it is not mapped.
    pub fn lookup(&self, subject: &Dn) -> &[String] {
        self.entries.get(subject).map_or(&[], Vec::as_slice)
    }

    /// The account to use: the one asked for if the subject has it, else the first. `None`: refused.
    pub fn account(&self, subject: &Dn, wanted: Option<&str>) -> Option<&str> {
        let accounts = self.lookup(subject);
        match wanted {
            Some(wanted) => accounts.iter().find(|a| *a == wanted),
            None => accounts.first(),
        }
        .map(String::as_str)
    }

    /// All subjects with their accounts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Dn, &[String])> {
        self.entries.iter().map(|(n, a)| (n, a.as_slice()))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One line of a file: the name quoted, and its accounts.
    pub fn line(subject: &Dn, accounts: &[&str]) -> String {
        // The name's own escapes are those of the file; only a quote needs one more.
        let name = subject.to_string().replace('"', "\\\"");
        format!("\"{name}\" {}\n", accounts.join(","))
    }
}

type Entry = Option<(Dn, Vec<String>)>;

/// Errors carry the byte offset in the line.
fn parse_line(line: &str) -> Result<Entry, (usize, GridMapProblem)> {
    let start = line.len() - line.trim_start().len();
    let content = &line[start..];
    if content.is_empty() || content.starts_with('#') {
        return Ok(None);
    }
    let (name, used) = match content.strip_prefix('"') {
        Some(quoted) => {
            let (name, used) = unquote(quoted).map_err(|problem| (start, problem))?;
            (name, used + 1)
        }
        None => {
            let end = content.find(char::is_whitespace).unwrap_or(content.len());
            (content[..end].to_owned(), end)
        }
    };
    let name = Dn::parse(&name).map_err(|e| (start, e.into()))?;
    let rest = &content[used..];
    let accounts_at = start + used + (rest.len() - rest.trim_start().len());
    let mut words = rest.split_whitespace();
    let accounts = words
        .next()
        .ok_or((accounts_at, GridMapProblem::NoAccount))?;
    // GT ignores what follows. Without quotes that would map `/CN=Alice Tester alice` to an account `Tester`.
    let quoted = content.starts_with('"');
    if !quoted && words.next().is_some_and(|word| !word.starts_with('#')) {
        return Err((accounts_at, GridMapProblem::Unquoted));
    }
    let accounts = accounts
        .split(',')
        .map(|account| {
            if is_account(account) {
                Ok(account.to_owned())
            } else {
                Err((accounts_at, GridMapProblem::Account(account.to_owned())))
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Some((name, accounts)))
}

/// What useradd(8) takes, and the leading dot of GT's pool accounts.
fn is_account(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-$".contains(&b))
}

/// The text up to the closing quote, and the bytes used with it. `\"` and `\\` stand for themselves; `\xHH` is left to
/// `Dn::parse`, which reads it as a byte of a value.
fn unquote(text: &str) -> Result<(String, usize), GridMapProblem> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((out, at + 1)),
            '\\' => match chars.next() {
                Some((_, '"')) => out.push('"'),
                // Written as an escape so that it cannot join what follows into one.
                Some((_, '\\')) => out.push_str("\\x5C"),
                Some((_, other)) => {
                    out.push('\\');
                    out.push(other);
                }
                None => return Err(GridMapProblem::Unterminated),
            },
            other => out.push(other),
        }
    }
    Err(GridMapProblem::Unterminated)
}
