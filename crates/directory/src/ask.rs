//! What is asked of an info server on the streams of a session, and what it says (spec/info, Q1 to Q6): JSON.
//! Not here: registrations' own messages (`delta`), LDAP.

use crate::entry::Entry;
use crate::source::{Hello, Kind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kinds of messages of an answer; those of `spec/services`, V2.
pub mod kind {
    pub const REPLY: u8 = 0x01;
    pub const REFUSED: u8 = 0x02;
}

/// Entries of one reply.
pub const ENTRIES_OF_REPLY: usize = 256;

/// What opens a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Answer: [`Found`], as many as it takes.
    Query(Query),
    /// Answer: [`News`]: what matches now, then what changes.
    Watch(Query),
    /// Answer: an array of [`AttributeView`].
    Attributes,
    /// Answer: [`Status`].
    Status,
    /// Answer: `source::Welcome`; then the registrant tells (`delta`).
    Register(Hello),
}

/// A query for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// See `expr`; empty matches all.
    #[serde(default)]
    pub expression: String,
    /// See `expr::parse_rank`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Entries of every class, not only hosts.
    #[serde(default)]
    pub all: bool,
    /// A filter as LDAP has them, besides the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The entry of this name and all below it; missing: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Names or short names of attributes to be told; empty: all.
    #[serde(default)]
    pub attributes: Vec<String>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// How many entries match, told or not.
    pub matched: usize,
    pub entries: Vec<EntryView>,
}

/// An entry as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryView {
    pub dn: String,
    pub attributes: BTreeMap<String, Vec<String>>,
    /// When the oldest of its values was measured (Unix time); missing where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ms: Option<u64>,
}

impl EntryView {
    /// `only`: names of attributes in lower case; empty for all.
    pub fn of(entry: &Entry, only: &[String]) -> EntryView {
        let told = entry
            .attributes
            .iter()
            .filter(|a| only.is_empty() || only.contains(&a.name.to_ascii_lowercase()));
        let measured = entry.attributes.iter().map(|a| a.stamp.measured_ms);
        EntryView {
            dn: entry.dn.to_string(),
            measured_ms: measured.filter(|m| *m > 0).min(),
            attributes: told.map(|a| (a.name.clone(), a.values.clone())).collect(),
        }
    }

    /// The first value of an attribute.
    pub fn first(&self, name: &str) -> Option<&str> {
        let found = self
            .attributes
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        found?.1.first().map(String::as_str)
    }
}

/// What a watcher hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// It matches, as it is now.
    Entry(EntryView),
    /// It matches no more, or is gone.
    Gone { dn: String },
    /// All that matches has been told.
    Complete,
    /// The watcher was too slow: forget everything, it is told again.
    Again,
}

/// An attribute that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeView {
    pub name: String,
    /// In expressions; empty where there is none.
    pub short: String,
    pub number: bool,
    /// What it counts in expressions.
    pub unit: String,
    pub meaning: String,
    /// Entries that have it.
    pub entries: usize,
}

/// How a server stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    pub id: String,
    pub suffix: String,
    pub entries: usize,
    pub sequence: u64,
    /// How it started: cold, or warm with what it knew before.
    pub started: String,
    pub sources: Vec<SourceView>,
    pub above: Vec<AboveView>,
    /// The caller, as the server knows it.
    pub you: String,
}

/// A registration at the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceView {
    pub name: String,
    pub kind: Kind,
    pub subject: String,
    pub entries: usize,
    pub stale_since_ms: Option<u64>,
    pub reached: u64,
}

/// A registration of the server elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboveView {
    pub address: String,
    /// In words: registered, or why not.
    pub state: String,
}
