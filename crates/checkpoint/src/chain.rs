//! The files of a folder that holds checkpoints (spec/checkpoint, K1 to K5 and K20 to K23): which together are one, which is resumed
//! from when some are bad, and which may go. Not here: files.

use crate::head::{BadCheckpoint, Block, Head};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

/// Files of one folder that are looked at, newest first: far more than are kept.
pub const MOST_FILES: usize = 256;

const FILE_ENDS: &str = ".file";

/// A file's name: `7.whole`, `8.part`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub number: u64,
    pub whole: bool,
}

impl Name {
    /// None: it is no file of a checkpoint.
    pub fn parse(text: &str) -> Option<Name> {
        let (digits, kind) = text.split_once('.')?;
        let name = Name {
            number: digits.parse().ok()?,
            whole: match kind {
                "whole" => true,
                "part" => false,
                _ => return None,
            },
        };
        (name.to_string() == text && name.number > 0).then_some(name)
    }
}

/// The name beside checkpoints of a file that the program named so (spec/checkpoint, K37).
pub fn file_name(name: &str) -> String {
    format!("{name}{FILE_ENDS}")
}

/// Whether it is such a name.
pub fn is_file_name(text: &str) -> bool {
    text.len() > FILE_ENDS.len() && text.ends_with(FILE_ENDS)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.whole { "whole" } else { "part" };
        write!(f, "{}.{kind}", self.number)
    }
}

/// What lies in a folder, by the heads of its files.
#[derive(Debug, Default)]
pub struct Kept {
    pub heads: BTreeMap<Name, Head>,
    /// Those that cannot be read.
    pub bad: Vec<(Name, BadCheckpoint)>,
}

impl Kept {
    /// Reads the heads. Names that are no checkpoint's are passed over.
    pub fn scan<R: Read>(
        names: impl IntoIterator<Item = Name>,
        mut open: impl FnMut(Name) -> io::Result<R>,
    ) -> Kept {
        let mut kept = Kept::default();
        let mut names: Vec<Name> = names.into_iter().collect();
        names.sort_unstable();
        for name in names.into_iter().rev().take(MOST_FILES) {
            let read = open(name).map_err(BadCheckpoint::Io).and_then(Head::read);
            let read = read.and_then(|head| {
                match head.number == name.number && head.base.is_none() == name.whole {
                    true => Ok(head),
                    false => Err(BadCheckpoint::Number),
                }
            });
            match read {
                Ok(head) => {
                    kept.heads.insert(name, head);
                }
                Err(error) => kept.bad.push((name, error)),
            }
        }
        kept
    }

    /// Numbers of checkpoints whose files are there, newest first.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.heads.keys().map(|name| name.number).collect();
        numbers.dedup();
        numbers.retain(|number| !self.chains(*number).is_empty());
        numbers.reverse();
        numbers
    }

    /// Files that together are this checkpoint, a whole one first; the shortest way first.
    pub fn chains(&self, number: u64) -> Vec<Vec<Name>> {
        let (mut chains, mut parts) = (Vec::new(), Vec::new());
        let mut number = number;
        loop {
            let [whole, part] = [true, false].map(|whole| Name { number, whole });
            if self.heads.contains_key(&whole) {
                let chain = std::iter::once(whole).chain(parts.iter().rev().copied());
                chains.push(chain.collect());
            }
            // A base is always lower, so this ends.
            let Some(base) = self.heads.get(&part).and_then(|head| head.base) else {
                return chains;
            };
            parts.push(part);
            number = base;
        }
    }

    /// Two wholes are kept, and all that builds on them: the newest checkpoint, and what there is when that is bad.
    pub fn may_go(&self) -> Vec<Name> {
        let mut wholes = self.heads.keys().rev().filter(|name| name.whole);
        let Some(oldest) = wholes.nth(1) else {
            return Vec::new();
        };
        let bad = self.bad.iter().map(|(name, _)| name);
        let old = |name: &&Name| *name < oldest;
        self.heads.keys().chain(bad).filter(old).copied().collect()
    }

    /// Parts behind the newest whole, and their bytes.
    pub fn parts(&self) -> (usize, u64) {
        let parts = self.heads.iter().rev().take_while(|(name, _)| !name.whole);
        parts.fold((0, 0), |(count, bytes), (_, head)| {
            (count + 1, bytes + head.data_bytes())
        })
    }
}

/// Reads the files of a chain, in order: what `give` was last given for a byte holds. Ends with the last file's head.
///
/// # Errors
/// The file that is bad, and why. What was given by then is of no use.
pub fn apply<R: Read>(
    chain: &[Name],
    mut open: impl FnMut(Name) -> io::Result<R>,
    mut give: impl FnMut(&Head, &Block, &[u8]) -> Result<(), BadCheckpoint>,
) -> Result<Head, (Name, BadCheckpoint)> {
    let mut last: Option<Head> = None;
    for name in chain {
        let one = || {
            let mut from = open(*name)?;
            let head = Head::read(&mut from)?;
            let builds_on = last.as_ref().map(|last| last.number);
            if head.number != name.number || head.base != builds_on {
                return Err(BadCheckpoint::Number);
            }
            if last.as_ref().is_some_and(|last| last.states != head.states) {
                return Err(BadCheckpoint::OtherStates);
            }
            head.blocks(from, |block, bytes| give(&head, block, bytes))?;
            Ok(head)
        };
        last = Some({ one }().map_err(|error| (*name, error))?);
    }
    let nothing = Name {
        number: 0,
        whole: true,
    };
    last.ok_or((nothing, BadCheckpoint::Missing))
}
