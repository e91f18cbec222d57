//! An entry and its values outside of the columns: as providers give them and as answers show them.

use crate::dn::Dn;
use serde::Serialize;

/// When a value was measured, and for how long it holds from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stamp {
    /// Unix time, by the clock of who measured.
    pub measured_ms: u64,
    /// 0: as long as its source is heard.
    pub holds_ms: u32,
}

/// One attribute of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attribute {
    /// As spelled; compared without regard to case.
    pub name: String,
    pub values: Vec<String>,
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// One entry, whole. Its name may be relative to the place where it is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub dn: Dn,
    pub attributes: Vec<Attribute>,
}

impl Entry {
    pub fn new(dn: Dn) -> Entry {
        Entry {
            dn,
            attributes: Vec::new(),
        }
    }

    /// Adds values to an attribute; a value that is there already is not added again.
    pub fn add<V: ToString>(&mut self, name: &str, values: impl IntoIterator<Item = V>) {
        let index = self
            .attributes
            .iter()
            .position(|a| a.name.eq_ignore_ascii_case(name));
        let index = index.unwrap_or_else(|| {
            self.attributes.push(Attribute {
                name: name.to_owned(),
                values: Vec::new(),
                stamp: Stamp::default(),
            });
            self.attributes.len() - 1
        });
        if let Some(attribute) = self.attributes.get_mut(index) {
            for value in values {
                let value = value.to_string();
                if !attribute.values.contains(&value) {
                    attribute.values.push(value);
                }
            }
        }
    }

    /// The same, as a link of a chain.
    pub fn with<V: ToString>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Entry {
        self.add(name, values);
        self
    }

    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|a| a.name.eq_ignore_ascii_case(name))
    }

    /// All values bear this stamp.
    pub fn stamped(mut self, stamp: Stamp) -> Entry {
        for attribute in &mut self.attributes {
            attribute.stamp = stamp;
        }
        self
    }
}

/// A change to entries, names relative to the place of whoever tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The entry is now as given, whatever it was.
    Put(Entry),
    /// One attribute is now as given; without values it is gone. The entry must exist.
    Set { dn: Dn, attribute: Attribute },
    /// The entry is gone; what lies below it is not.
    Remove { dn: Dn },
}

impl Op {
    pub fn dn(&self) -> &Dn {
        match self {
            Op::Put(entry) => &entry.dn,
            Op::Set { dn, .. } | Op::Remove { dn } => dn,
        }
    }
}
