//! The directory: entries in a tree, each owned by a source, with their answers encoded beforehand and their values in
//! columns; a ring of what changed. `apply` changes it, and nothing else does (spec/info, N1 to N12).
//!
//! Not here: queries (`search`), which source may say what (`info`), the clock: instants come in as arguments.

use crate::ber;
use crate::bits::Bits;
use crate::column::Column;
use crate::dn::{Dn, is_type};
use crate::entry::{Attribute, Entry, Op, Stamp};
use crate::rows::{
    ATTRIBUTES_MOST, ApplyError, Bounds, Change, Changed, ENTRY_MOST_BYTES, NAMES_MOST, Name, OWN,
    RING_MOST, Row, RowId, Slot, SourceId, VALUES_MOST,
};
use crate::schema::{self, Syntax};
use crate::value::VALUE_MOST_BYTES;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Source {
    rows: Vec<u32>,
    round: u32,
}

/// The entries of one info server.
#[derive(Debug)]
pub struct Directory {
    bounds: Bounds,
    suffix: Dn,
    suffix_key: String,
    pub(crate) names: Vec<Name>,
    by_name: HashMap<String, u16>,
    pub(crate) rows: Vec<Option<Row>>,
    pub(crate) parents: Vec<u32>,
    generations: Vec<u32>,
    free: Vec<u32>,
    pub(crate) by_dn: HashMap<Arc<str>, u32>,
    pub(crate) live: Bits,
    sources: HashMap<SourceId, Source>,
    pub(crate) ring: VecDeque<Change>,
    /// Number of the next change.
    pub(crate) next: u64,
}

/// The parent of what has none.
pub(crate) const NOWHERE: u32 = u32::MAX;

impl Directory {
    /// An empty directory whose entries all lie at or below `suffix`.
    pub fn new(suffix: Dn, bounds: Bounds) -> Directory {
        let mut directory = Directory {
            bounds,
            suffix_key: suffix.key(),
            suffix: suffix.clone(),
            names: Vec::new(),
            by_name: HashMap::new(),
            rows: Vec::new(),
            parents: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            by_dn: HashMap::new(),
            live: Bits::default(),
            sources: HashMap::new(),
            ring: VecDeque::new(),
            next: 1,
        };
        // Cannot fail: the directory is empty and a level of a name is short.
        let _ = directory.parent_row(&suffix.child("cn", "x"));
        directory
    }

    pub fn suffix(&self) -> &Dn {
        &self.suffix
    }

    /// Entries, those between included.
    pub fn len(&self) -> usize {
        self.by_dn.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_dn.is_empty()
    }

    /// Entries of one source.
    pub fn entries_of(&self, source: SourceId) -> usize {
        self.sources.get(&source).map_or(0, |s| s.rows.len())
    }

    pub(crate) fn rows_of(&self, source: SourceId) -> &[u32] {
        self.sources.get(&source).map_or(&[], |s| &s.rows)
    }

    /// The number of the last change.
    pub fn sequence(&self) -> u64 {
        self.next - 1
    }

    /// Carries out one change of `source`, names relative to `base`. Nothing changes when it fails.
    ///
    /// # Errors
    /// `ApplyError`; other changes of the same source are not touched by it.
    pub fn apply(&mut self, source: SourceId, base: &Dn, op: &Op) -> Result<(), ApplyError> {
        let dn = op.dn().below(base);
        match op {
            Op::Put(entry) => self.put(source, dn, &entry.attributes),
            Op::Set { attribute, .. } => {
                let index = self.own_row(source, &dn)?;
                check(&dn, attribute)?;
                self.set(index, attribute)
            }
            Op::Remove { .. } => {
                let index = self.own_row(source, &dn)?;
                self.remove_row(index);
                Ok(())
            }
        }
    }

    fn is_at_or_above_suffix(&self, key: &str) -> bool {
        let above = self.suffix_key.strip_suffix(key);
        above.is_some_and(|rest| rest.is_empty() || rest.ends_with(','))
    }

    fn own_row(&self, source: SourceId, dn: &Dn) -> Result<u32, ApplyError> {
        let none = || ApplyError::NoEntry { dn: dn.to_string() };
        let index = *self.by_dn.get(dn.key().as_str()).ok_or_else(none)?;
        let row = self.row(index).ok_or_else(none)?;
        if row.source == source && !row.glue {
            Ok(index)
        } else {
            Err(none())
        }
    }

    pub(crate) fn row(&self, index: u32) -> Option<&Row> {
        self.rows.get(index as usize)?.as_ref()
    }

    pub(crate) fn row_of(&self, id: RowId) -> Option<&Row> {
        self.row(id.index).filter(|r| r.generation == id.generation)
    }

    fn row_mut(&mut self, index: u32) -> Option<&mut Row> {
        self.rows.get_mut(index as usize)?.as_mut()
    }

    fn put(
        &mut self,
        source: SourceId,
        dn: Dn,
        attributes: &[Attribute],
    ) -> Result<(), ApplyError> {
        let key = dn.key();
        if attributes.len() > ATTRIBUTES_MOST {
            return Err(ApplyError::TooLarge { dn: dn.to_string() });
        }
        attributes.iter().try_for_each(|a| check(&dn, a))?;
        if self.is_at_or_above_suffix(&key) && source != OWN {
            return Err(ApplyError::Root { dn: dn.to_string() });
        }
        if let Some(row) = self.by_dn.get(key.as_str()).and_then(|i| self.row(*i)) {
            if !row.glue && row.source != source {
                return Err(ApplyError::Taken { dn: dn.to_string() });
            }
        }
        // Names first: after this nothing can fail.
        let mut slots = Vec::with_capacity(attributes.len());
        let mut encoded = Vec::new();
        for attribute in attributes.iter().filter(|a| !a.values.is_empty()) {
            let id = self.name_id(&dn, &attribute.name)?;
            if slots.iter().any(|s: &Slot| s.attribute == id) {
                continue;
            }
            let at = encoded.len();
            self.encode(id, &attribute.values, &mut encoded);
            slots.push(slot(id, at, encoded.len() - at, attribute.stamp));
        }
        if encoded.len() > ENTRY_MOST_BYTES {
            return Err(ApplyError::TooLarge { dn: dn.to_string() });
        }
        let index = match self.by_dn.get(key.as_str()) {
            Some(index) => *index,
            None => self.new_row(&dn, key)?,
        };
        let round = self.own(source, index)?;
        let old: Vec<u16> = match self.row_mut(index) {
            None => return Ok(()),
            Some(row) if !row.glue && row.encoded == encoded => {
                // Told again as it was: nobody further up needs to hear of it.
                (row.round, row.slots) = (round, slots);
                return Ok(());
            }
            Some(row) => {
                row.glue = source == OWN && attributes.is_empty();
                row.marked = false;
                row.round = round;
                row.encoded = encoded;
                let old = std::mem::replace(&mut row.slots, slots.clone());
                old.iter().map(|s| s.attribute).collect()
            }
        };
        for id in old {
            if !slots.iter().any(|s| s.attribute == id) {
                self.column(id, |column| column.set(index, std::iter::empty()));
            }
        }
        for slot in &slots {
            let values = attributes
                .iter()
                .find(|a| self.by_name.get(&a.name.to_ascii_lowercase()) == Some(&slot.attribute));
            let values = values.map_or(&[][..], |a| a.values.as_slice());
            self.column(slot.attribute, |column| {
                column.set(index, values.iter().map(String::as_str));
            });
        }
        self.changed(index, Changed::Whole);
        Ok(())
    }

    /// Replaces one attribute of a row; its answer is mended in place.
    fn set(&mut self, index: u32, attribute: &Attribute) -> Result<(), ApplyError> {
        let dn_of = |row: Option<&Row>| row.map_or(String::new(), |r| r.dn.to_string());
        let id = match self.by_name.get(attribute.name.as_str()) {
            Some(id) => *id,
            None => {
                let dn = dn_of(self.row(index));
                self.name_id(&dn, &attribute.name)?
            }
        };
        let mut piece = Vec::new();
        if !attribute.values.is_empty() {
            self.encode(id, &attribute.values, &mut piece);
        }
        let Some(row) = self.row_mut(index) else {
            return Ok(());
        };
        let found = row.slots.iter().position(|s| s.attribute == id);
        let old_bytes = found.and_then(|i| row.slots.get(i)).map_or(0, |s| s.bytes);
        if row.encoded.len() + piece.len() - old_bytes as usize > ENTRY_MOST_BYTES
            || (found.is_none() && row.slots.len() >= ATTRIBUTES_MOST)
        {
            return Err(ApplyError::TooLarge {
                dn: row.dn.to_string(),
            });
        }
        match found {
            None if piece.is_empty() => return Ok(()),
            None => {
                let at = row.encoded.len();
                row.slots.push(slot(id, at, piece.len(), attribute.stamp));
                row.encoded.extend_from_slice(&piece);
            }
            Some(place) => replace(row, place, &piece, attribute.stamp),
        }
        self.column(id, |column| {
            column.set(index, attribute.values.iter().map(String::as_str));
        });
        self.changed(index, Changed::Attribute(id));
        Ok(())
    }

    fn column(&mut self, id: u16, change: impl FnOnce(&mut Column)) {
        if let Some(name) = self.names.get_mut(usize::from(id)) {
            change(&mut name.column);
        }
    }

    fn encode(&self, id: u16, values: &[String], out: &mut Vec<u8>) {
        let Some(name) = self.names.get(usize::from(id)) else {
            return;
        };
        let set: usize = values
            .iter()
            .map(|v| ber::header_bytes(v.len()) + v.len())
            .sum();
        let spelled = name.spelled.as_bytes();
        let content =
            ber::header_bytes(spelled.len()) + spelled.len() + ber::header_bytes(set) + set;
        ber::header(out, ber::SEQUENCE, content);
        ber::element(out, ber::OCTETS, spelled);
        ber::header(out, ber::SET, set);
        for value in values {
            ber::element(out, ber::OCTETS, value.as_bytes());
        }
    }

    /// The number of an attribute name, in any case.
    pub(crate) fn find_name(&self, name: &str) -> Option<u16> {
        if let Some(id) = self.by_name.get(name) {
            return Some(*id);
        }
        let name = schema::attribute(name).map_or(name, |a| a.name);
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    fn name_id(&mut self, dn: &impl ToString, name: &str) -> Result<u16, ApplyError> {
        let lower = name.to_ascii_lowercase();
        if let Some(id) = self.by_name.get(&lower) {
            return Ok(*id);
        }
        if !is_type(name) {
            return Err(ApplyError::Name {
                dn: dn.to_string(),
                name: name.chars().take(100).collect(),
            });
        }
        let declared = schema::attribute(name);
        let new = Name {
            spelled: declared.map_or(name, |a| a.name).into(),
            column: Column::new(declared.map_or(Syntax::Undeclared, |a| a.syntax)),
        };
        let id = if self.names.len() < NAMES_MOST {
            self.names.push(new);
            self.names.len() - 1
        } else {
            // A name that nobody uses any more makes room.
            let unused = self.names.iter().position(|n| n.column.holders() == 0);
            let id = unused.ok_or(ApplyError::TooManyNames)?;
            self.by_name.retain(|_, other| usize::from(*other) != id);
            if let Some(place) = self.names.get_mut(id) {
                *place = new;
            }
            id
        };
        // NAMES_MOST is below 2^16.
        self.by_name.insert(lower, id as u16);
        Ok(id as u16)
    }

    fn new_row(&mut self, dn: &Dn, key: String) -> Result<u32, ApplyError> {
        if self.by_dn.len() >= self.bounds.entries {
            return Err(ApplyError::Full {
                limit: self.bounds.entries,
            });
        }
        let parent = self.parent_row(dn)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.rows.push(None);
                self.parents.push(NOWHERE);
                self.generations.push(0);
                (self.rows.len() - 1) as u32
            }
        };
        let generation = match self.generations.get_mut(index as usize) {
            Some(generation) => {
                *generation = generation.wrapping_add(1);
                *generation
            }
            None => 0,
        };
        let key: Arc<str> = key.into();
        let row = Row {
            generation,
            key: key.clone(),
            dn: dn.to_string().into(),
            source: OWN,
            place: NOWHERE,
            children: 0,
            glue: true,
            marked: false,
            round: 0,
            slots: Vec::new(),
            encoded: Vec::new(),
        };
        if let Some(place) = self.rows.get_mut(index as usize) {
            *place = Some(row);
        }
        if let Some(place) = self.parents.get_mut(index as usize) {
            *place = parent;
        }
        if let Some(parent) = self.row_mut(parent) {
            parent.children += 1;
        }
        self.by_dn.insert(key, index);
        self.live.set(index);
        Ok(index)
    }

    /// The row above, made if nobody told it.
    fn parent_row(&mut self, dn: &Dn) -> Result<u32, ApplyError> {
        let Some(parent) = dn.parent().filter(|p| !p.is_root()) else {
            return Ok(NOWHERE);
        };
        let key = parent.key();
        if let Some(index) = self.by_dn.get(key.as_str()) {
            return Ok(*index);
        }
        let between = between(&parent);
        let index = self.new_row(&parent, key)?;
        for attribute in &between {
            self.set(index, attribute)?;
        }
        Ok(index)
    }

    /// Makes `source` the owner of the row; its round.
    fn own(&mut self, source: SourceId, index: u32) -> Result<u32, ApplyError> {
        let before = self.row(index).map(|r| (r.source, r.place));
        if let Some((owner, place)) = before {
            if owner != source || place == NOWHERE {
                let limit = self.bounds.entries_of_source;
                if source != OWN && self.entries_of(source) >= limit {
                    self.prune(index);
                    return Err(ApplyError::Full { limit });
                }
                self.disown(owner, place);
                let list = &mut self.sources.entry(source).or_default().rows;
                let place = list.len() as u32;
                list.push(index);
                if let Some(row) = self.row_mut(index) {
                    (row.source, row.place) = (source, place);
                }
            }
        }
        Ok(self.sources.entry(source).or_default().round)
    }

    fn disown(&mut self, source: SourceId, place: u32) {
        if place == NOWHERE {
            return;
        }
        let Some(list) = self.sources.get_mut(&source).map(|s| &mut s.rows) else {
            return;
        };
        list.swap_remove(place as usize);
        let moved = list.get(place as usize).copied();
        if let Some(row) = moved.and_then(|i| self.row_mut(i)) {
            row.place = place;
        }
    }

    /// Takes a row's values away; the row stays as a level between while something lies below it.
    fn remove_row(&mut self, index: u32) {
        let Some(row) = self.rows.get_mut(index as usize).and_then(Option::as_mut) else {
            return;
        };
        let (source, place) = (row.source, row.place);
        let slots = std::mem::take(&mut row.slots);
        row.encoded = Vec::new();
        (row.source, row.place, row.glue, row.marked) = (OWN, NOWHERE, true, false);
        let dn = row.dn.clone();
        self.disown(source, place);
        for slot in slots {
            self.column(slot.attribute, |column| {
                column.set(index, std::iter::empty());
            });
        }
        if self.row(index).is_some_and(|r| r.children > 0) {
            let between = Dn::parse(&dn).map(|dn| between(&dn)).unwrap_or_default();
            for attribute in &between {
                // Names of the schema, and room that the row had before.
                let _ = self.set(index, attribute);
            }
            self.changed(index, Changed::Whole);
        } else {
            self.prune(index);
        }
    }

    /// Removes a level without values or children, and those above it that become so.
    fn prune(&mut self, mut index: u32) {
        while let Some(row) = self.row(index) {
            let keep = !row.glue || row.children > 0 || self.is_at_or_above_suffix(&row.key);
            if keep {
                return;
            }
            let (dn, key) = (row.dn.clone(), row.key.clone());
            let slots: Vec<u16> = row.slots.iter().map(|s| s.attribute).collect();
            for id in slots {
                self.column(id, |column| column.set(index, std::iter::empty()));
            }
            self.changed(index, Changed::Removed { dn });
            self.by_dn.remove(&key);
            self.live.clear(index);
            if let Some(place) = self.rows.get_mut(index as usize) {
                *place = None;
            }
            self.free.push(index);
            let parent = match self.parents.get_mut(index as usize) {
                Some(parent) => std::mem::replace(parent, NOWHERE),
                None => NOWHERE,
            };
            if let Some(parent) = self.row_mut(parent) {
                parent.children -= 1;
            }
            index = parent;
        }
    }

    /// Forgets a source with all its entries; how many they were.
    pub fn remove_source(&mut self, source: SourceId) -> usize {
        let rows = self.sources.get(&source).map(|s| s.rows.clone());
        let rows = rows.unwrap_or_default();
        for index in &rows {
            self.remove_row(*index);
        }
        self.sources.remove(&source);
        rows.len()
    }

    /// A source begins to tell everything anew; what it has not told by `end_round` is gone.
    pub fn begin_round(&mut self, source: SourceId) {
        let source = self.sources.entry(source).or_default();
        source.round = source.round.wrapping_add(1);
    }

    /// See `begin_round`; how many entries went.
    pub fn end_round(&mut self, source: SourceId) -> usize {
        let Some(known) = self.sources.get(&source) else {
            return 0;
        };
        let old = |index: &&u32| self.row(**index).is_some_and(|r| r.round != known.round);
        let gone: Vec<u32> = known.rows.iter().filter(old).copied().collect();
        for index in &gone {
            self.remove_row(*index);
        }
        gone.len()
    }

    /// Marks the entries of a source that is not heard any more; those that bear a mark from further below keep it.
    pub fn mark_stale(&mut self, source: SourceId, since: &str) {
        let rows = self.sources.get(&source).map(|s| s.rows.clone());
        let mark = Attribute {
            name: STALE_SINCE.to_owned(),
            values: vec![since.to_owned()],
            stamp: Stamp::default(),
        };
        let id = self.find_name(STALE_SINCE);
        for index in rows.unwrap_or_default() {
            let unmarked = |r: &Row| !r.marked && !r.slots.iter().any(|s| Some(s.attribute) == id);
            if self.row(index).is_some_and(unmarked) && self.set(index, &mark).is_ok() {
                if let Some(row) = self.row_mut(index) {
                    row.marked = true;
                }
            }
        }
    }

    /// The source is heard again.
    pub fn mark_fresh(&mut self, source: SourceId) {
        let rows = self.sources.get(&source).map(|s| s.rows.clone());
        let none = Attribute {
            name: STALE_SINCE.to_owned(),
            values: Vec::new(),
            stamp: Stamp::default(),
        };
        for index in rows.unwrap_or_default() {
            if self.row(index).is_some_and(|r| r.marked) {
                // Taking an attribute away needs no room.
                let _ = self.set(index, &none);
                if let Some(row) = self.row_mut(index) {
                    row.marked = false;
                }
            }
        }
    }

    fn changed(&mut self, index: u32, what: Changed) {
        let Some(row) = self.row(index) else { return };
        let generation = row.generation;
        if self.ring.len() >= RING_MOST {
            self.ring.pop_front();
        }
        let row = RowId { index, generation };
        self.ring.push_back(Change { row, what });
        self.next += 1;
    }
}

/// Spelled as the schema does, in lower case as names are found.
pub(crate) const STALE_SINCE: &str = "kumiko-stale-since";

fn slot(attribute: u16, at: usize, bytes: usize, stamp: Stamp) -> Slot {
    // ENTRY_MOST_BYTES is below 2^32.
    Slot {
        attribute,
        at: at as u32,
        bytes: bytes as u32,
        stamp,
    }
}

fn replace(row: &mut Row, place: usize, piece: &[u8], stamp: Stamp) {
    let Some(slot) = row.slots.get_mut(place) else {
        return;
    };
    let (at, old) = (slot.at as usize, slot.bytes as usize);
    slot.stamp = stamp;
    slot.bytes = piece.len() as u32;
    if old == piece.len() {
        if let Some(bytes) = row.encoded.get_mut(at..at + old) {
            bytes.copy_from_slice(piece);
        }
        return;
    }
    row.encoded.splice(at..at + old, piece.iter().copied());
    for later in row.slots.iter_mut().skip(place + 1) {
        later.at = (later.at as usize + piece.len() - old) as u32;
    }
    if piece.is_empty() {
        row.slots.remove(place);
    }
}

fn check(dn: &Dn, attribute: &Attribute) -> Result<(), ApplyError> {
    if attribute.values.len() > VALUES_MOST {
        return Err(ApplyError::TooLarge { dn: dn.to_string() });
    }
    if attribute.values.iter().any(|v| v.len() > VALUE_MOST_BYTES) {
        return Err(ApplyError::Value {
            dn: dn.to_string(),
            name: attribute.name.chars().take(100).collect(),
        });
    }
    Ok(())
}

/// What a level says that nobody told: its class and its own name.
fn between(dn: &Dn) -> Vec<Attribute> {
    let pairs = dn.own().map_or(&[][..], |rdn| rdn.pairs());
    let mut entry = Entry::new(Dn::default());
    for (kind, value) in pairs {
        let class = match kind.to_ascii_lowercase().as_str() {
            "o" => "organization",
            "mds-vo-name" => "MdsVo",
            "mds-host-hn" => "MdsHost",
            "mds-device-group-name" => "MdsDeviceGroup",
            "mds-device-name" => "MdsDevice",
            "mds-software-deployment" => "MdsSoftware",
            _ => "top",
        };
        entry.add("objectClass", ["top", class]);
        entry.add(kind, [value]);
    }
    entry.attributes
}
