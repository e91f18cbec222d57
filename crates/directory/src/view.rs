//! What the directory says of its rows: values, answers that are encoded already, and what changed since when.
//! Not here: which rows (`search`).

use crate::ber::{self, Reader};
use crate::dn::Dn;
use crate::entry::{Attribute, Entry, Op, Stamp};
use crate::rows::{Changed, RowId, Slot, SourceId};
use crate::store::{Directory, STALE_SINCE};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Which attributes of an entry are told (RFC 4511, section 4.5.1.8), prepared for one directory.
#[derive(Clone, Debug)]
pub struct Selection {
    all: bool,
    ids: Vec<u16>,
    values: bool,
}

/// The follower has lagged behind by more than is kept: it begins again with everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("changes after number {after} are not kept any more")]
pub struct Gap {
    pub after: u64,
}

/// One thing that happened to the entries, for those who follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Changed(RowId),
    Removed { row: RowId, dn: Arc<str> },
}

impl Directory {
    /// `attributes` as asked for: names, `*`, nothing for all. `types_only`: names without values.
    pub fn selection(&self, attributes: &[String], types_only: bool) -> Selection {
        let named = |name: &&String| !matches!(name.as_str(), "*" | "+" | "1.1");
        Selection {
            all: attributes.is_empty() || attributes.iter().any(|a| a == "*"),
            ids: attributes
                .iter()
                .filter(named)
                .filter_map(|a| self.find_name(a.split(';').next().unwrap_or_default()))
                .collect(),
            values: !types_only,
        }
    }

    /// Appends a whole SearchResultEntry message. `extra` are attributes that are not kept, encoded. False if the row
    /// is gone.
    pub fn answer(
        &self,
        out: &mut Vec<u8>,
        message: i64,
        row: RowId,
        selection: &Selection,
        extra: &[u8],
        controls: &[u8],
    ) -> bool {
        let Some(row) = self.row_of(row) else {
            return false;
        };
        let mut chosen = Vec::new();
        let attributes: &[u8] = if selection.all && selection.values {
            &row.encoded
        } else {
            for slot in &row.slots {
                if !selection.all && !selection.ids.contains(&slot.attribute) {
                    continue;
                }
                if selection.values {
                    chosen.extend_from_slice(piece(&row.encoded, slot));
                } else {
                    self.type_only(slot.attribute, &mut chosen);
                }
            }
            &chosen
        };
        let list = attributes.len() + extra.len();
        let dn = row.dn.as_bytes();
        let content = ber::header_bytes(dn.len()) + dn.len() + ber::header_bytes(list) + list;
        let mut id = Vec::with_capacity(8);
        ber::integer(&mut id, ber::INTEGER, message);
        let whole = id.len() + ber::header_bytes(content) + content + controls.len();
        ber::header(out, ber::SEQUENCE, whole);
        out.extend_from_slice(&id);
        ber::header(out, crate::ldap::SEARCH_ENTRY, content);
        ber::element(out, ber::OCTETS, dn);
        ber::header(out, ber::SEQUENCE, list);
        out.extend_from_slice(attributes);
        out.extend_from_slice(extra);
        out.extend_from_slice(controls);
        true
    }

    fn type_only(&self, id: u16, out: &mut Vec<u8>) {
        if let Some(name) = self.names.get(usize::from(id)) {
            ber::nested(out, ber::SEQUENCE, |out| {
                ber::element(out, ber::OCTETS, name.spelled.as_bytes());
                ber::header(out, ber::SET, 0);
            });
        }
    }

    /// The entry with its name in full.
    pub fn entry(&self, row: RowId) -> Option<Entry> {
        let row = self.row_of(row)?;
        let attributes = row.slots.iter().filter_map(|slot| {
            decode(piece(&row.encoded, slot)).map(|(name, values)| Attribute {
                name: name.to_owned(),
                values: values.into_iter().map(str::to_owned).collect(),
                stamp: slot.stamp,
            })
        });
        Some(Entry {
            dn: Dn::parse(&row.dn).ok()?,
            attributes: attributes.collect(),
        })
    }

    /// The values of one attribute of an entry.
    pub fn values(&self, row: RowId, attribute: &str) -> Vec<&str> {
        self.attribute(row, attribute)
            .map(|(v, _)| v)
            .unwrap_or_default()
    }

    fn attribute(&self, row: RowId, attribute: &str) -> Option<(Vec<&str>, Stamp)> {
        let id = self.find_name(attribute)?;
        let row = self.row_of(row)?;
        let slot = row.slots.iter().find(|s| s.attribute == id)?;
        decode(piece(&row.encoded, slot)).map(|(_, values)| (values, slot.stamp))
    }

    /// The entry's name as spelled.
    pub fn dn(&self, row: RowId) -> Option<Arc<str>> {
        self.row_of(row).map(|r| r.dn.clone())
    }

    pub fn has_children(&self, row: RowId) -> bool {
        self.row_of(row).is_some_and(|r| r.children > 0)
    }

    pub fn source(&self, row: RowId) -> Option<SourceId> {
        self.row_of(row).map(|r| r.source)
    }

    /// When the oldest value of the entry was measured, and when the first of them ceases to hold.
    pub fn times(&self, row: RowId) -> Option<(u64, Option<u64>)> {
        let row = self.row_of(row)?;
        let measured = row
            .slots
            .iter()
            .map(|s| s.stamp.measured_ms)
            .filter(|m| *m > 0);
        let ends = row.slots.iter().map(|s| s.stamp).filter(|s| s.holds_ms > 0);
        Some((
            measured.min()?,
            ends.map(|s| s.measured_ms.saturating_add(u64::from(s.holds_ms)))
                .min(),
        ))
    }

    /// Every attribute name in use, as spelled, with how many entries have it.
    pub fn attributes_in_use(&self) -> Vec<(String, usize)> {
        let used = self.names.iter().filter(|n| n.column.holders() > 0);
        used.map(|n| (n.spelled.to_string(), n.column.holders()))
            .collect()
    }

    /// The number of the first change that is still kept.
    pub fn first_kept(&self) -> u64 {
        self.next - self.ring.len() as u64
    }

    /// What happened after change number `after`, each entry once and as it is now; and the number to go on from.
    ///
    /// # Errors
    /// `Gap`.
    pub fn events_since(&self, after: u64) -> Result<(Vec<Event>, u64), Gap> {
        let mut seen = HashSet::new();
        let mut events = Vec::new();
        for change in self.changes(after)? {
            match &change.what {
                Changed::Removed { dn } => events.push(Event::Removed {
                    row: change.row,
                    dn: dn.clone(),
                }),
                _ if self.row_of(change.row).is_some() && seen.insert(change.row) => {
                    events.push(Event::Changed(change.row));
                }
                _ => {}
            }
        }
        Ok((events, self.sequence()))
    }

    /// What a follower must carry out to be as this directory is, names relative to its suffix: at most about `most`
    /// operations, and the number to go on from.
    ///
    /// # Errors
    /// `Gap`.
    pub fn ops_since(&self, after: u64, most: usize) -> Result<(Vec<Op>, u64), Gap> {
        let mut pending: HashMap<RowId, HashSet<u16>> = HashMap::new();
        let mut whole = HashSet::new();
        let mut ops = Vec::new();
        let mut reached = after;
        for change in self.changes(after)? {
            if ops.len() >= most {
                break;
            }
            reached += 1;
            let row = change.row;
            match &change.what {
                Changed::Removed { dn } => {
                    let dn = Dn::parse(dn)
                        .ok()
                        .and_then(|d| d.relative_to(self.suffix()));
                    ops.extend(dn.map(|dn| Op::Remove { dn }));
                }
                Changed::Whole if whole.insert(row) => ops.extend(self.put_op(row)),
                Changed::Attribute(id)
                    if !whole.contains(&row) && pending.entry(row).or_default().insert(*id) =>
                {
                    ops.extend(self.set_op(row, *id));
                }
                _ => {}
            }
        }
        Ok((ops, reached))
    }

    /// Everything from row number `from` on, names relative to the suffix: some operations, and where to go on; None
    /// at the end.
    pub fn ops_from(&self, from: u32, most: usize) -> (Vec<Op>, Option<u32>) {
        let mut ops = Vec::new();
        let mut index = from;
        while (index as usize) < self.rows.len() {
            if ops.len() >= most {
                return (ops, Some(index));
            }
            if let Some(row) = self.row(index) {
                let generation = row.generation;
                ops.extend(self.put_op(RowId { index, generation }));
            }
            index += 1;
        }
        (ops, None)
    }

    /// The same of one source, names relative to `base`, without the marks of staleness that were set here.
    pub fn ops_of_source(
        &self,
        source: SourceId,
        base: &Dn,
        from: u32,
        most: usize,
    ) -> (Vec<Op>, Option<u32>) {
        let mut ops = Vec::new();
        let rows = self.rows_of(source);
        for (place, index) in rows.iter().enumerate().skip(from as usize) {
            if ops.len() >= most {
                return (ops, Some(place as u32));
            }
            let Some(row) = self.row(*index) else {
                continue;
            };
            let (generation, marked) = (row.generation, row.marked);
            let id = RowId {
                index: *index,
                generation,
            };
            let Some(mut entry) = self.entry(id) else {
                continue;
            };
            if marked {
                entry.attributes.retain(|a| a.name != STALE_SINCE);
            }
            if let Some(dn) = entry.dn.relative_to(base) {
                entry.dn = dn;
                ops.push(Op::Put(entry));
            }
        }
        (ops, None)
    }

    /// The suffix itself is not told: who follows has a place of its own for it.
    fn put_op(&self, row: RowId) -> Option<Op> {
        let mut entry = self.entry(row)?;
        entry.dn = entry
            .dn
            .relative_to(self.suffix())
            .filter(|d| !d.is_root())?;
        Some(Op::Put(entry))
    }

    fn set_op(&self, id: RowId, attribute: u16) -> Option<Op> {
        let row = self.row_of(id)?;
        let dn = Dn::parse(&row.dn).ok()?.relative_to(self.suffix())?;
        if dn.is_root() {
            return None;
        }
        let name = &self.names.get(usize::from(attribute))?.spelled;
        let (values, stamp) = self.attribute(id, name).unwrap_or_default();
        Some(Op::Set {
            dn,
            attribute: Attribute {
                name: name.to_string(),
                values: values.into_iter().map(str::to_owned).collect(),
                stamp,
            },
        })
    }

    fn changes(&self, after: u64) -> Result<impl Iterator<Item = &crate::rows::Change>, Gap> {
        let first = self.first_kept();
        if after + 1 < first || after >= self.next {
            return Err(Gap { after });
        }
        Ok(self.ring.iter().skip((after + 1 - first) as usize))
    }
}

fn piece<'a>(encoded: &'a [u8], slot: &Slot) -> &'a [u8] {
    let at = slot.at as usize;
    encoded
        .get(at..at + slot.bytes as usize)
        .unwrap_or_default()
}

/// What `store` encoded: the name and its values.
fn decode(piece: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut reader = Reader::new(piece).sequence().ok()?;
    let name = reader.text().ok()?;
    let mut set = Reader::new(reader.expect(ber::SET, "a set").ok()?);
    let mut values = Vec::new();
    while !set.is_empty() {
        values.push(set.text().ok()?);
    }
    Some((name, values))
}
