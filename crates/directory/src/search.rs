//! Queries: a filter becomes a plan over columns; a plan is answered for few rows one by one, else by whole columns
//! (spec/info, N7 and N8). Three values as in RFC 4511, section 4.5.1.7: what is Undefined never matches, nor does its
//! negation. Not here: the form of answers (`view`).

use crate::bits::Bits;
use crate::column::{Column, Pattern, Test, squeezed};
use crate::dn::Dn;
use crate::filter::{Assertion, Filter};
use crate::rows::{Row, RowId};
use crate::schema::{self, Syntax};
use crate::store::{Directory, NOWHERE};
use crate::value::{Datum, datum, normal, number};
use std::cmp::Ordering;

/// Above this, whole columns are faster than rows one by one.
const ONE_BY_ONE_MOST: usize = 64;

/// Which entries, seen from the base (RFC 4511, section 4.5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Base,
    One,
    Subtree,
    /// The subtree without its base.
    Below,
}

/// The base of a search does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no entry {base}; the nearest above it is {}", if matched.is_empty() { "the root" } else { matched })]
pub struct NoSuchEntry {
    pub base: String,
    pub matched: String,
}

/// One thing to order by, the weightiest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    pub attribute: String,
    pub descending: bool,
}

enum Node<'a> {
    And(Vec<Node<'a>>),
    Or(Vec<Node<'a>>),
    Not(Box<Node<'a>>),
    Test(&'a Column, Test),
    /// A part of the name: attribute and value in normal form.
    InName(String, String),
    Never,
    Undefined,
}

/// A filter against a directory as it is now.
pub struct Plan<'a> {
    directory: &'a Directory,
    node: Node<'a>,
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plan")
    }
}

impl Directory {
    /// Prepares a filter.
    pub fn plan<'a>(&'a self, filter: &Filter) -> Plan<'a> {
        Plan {
            directory: self,
            node: self.compile(filter),
        }
    }

    /// The entries of a scope that match, in the order of their rows.
    ///
    /// # Errors
    /// `NoSuchEntry`.
    pub fn search(
        &self,
        base: &Dn,
        scope: Scope,
        filter: &Filter,
    ) -> Result<Vec<RowId>, NoSuchEntry> {
        let base_row = match base.is_root() {
            true => NOWHERE,
            false => match self.by_dn.get(base.key().as_str()) {
                Some(index) => *index,
                None => return Err(self.no_such(base)),
            },
        };
        let plan = self.plan(filter);
        let id = |index: u32| {
            self.row(index).map(|row| RowId {
                index,
                generation: row.generation,
            })
        };
        if scope == Scope::Base {
            let found = self.row(base_row).is_some() && plan.passes(base_row);
            return Ok(found.then(|| id(base_row)).flatten().into_iter().collect());
        }
        let within = |index: &u32| self.within(*index, base_row, scope);
        if let Some(mut few) = Plan::few(&plan.node) {
            few.sort_unstable();
            few.dedup();
            let found = few.into_iter().filter(within).filter(|i| plan.passes(*i));
            return Ok(found.filter_map(id).collect());
        }
        let (sure, _) = plan.scan(&plan.node);
        let sure = sure.and(&self.live);
        Ok(sure.rows().filter(within).filter_map(id).collect())
    }

    fn within(&self, index: u32, base: u32, scope: Scope) -> bool {
        let above = |index: u32| self.parents.get(index as usize).copied();
        match scope {
            Scope::Base => index == base,
            Scope::One => above(index) == Some(base),
            Scope::Subtree | Scope::Below => {
                if base == NOWHERE || index == base {
                    return index != base || scope == Scope::Subtree;
                }
                let mut at = index;
                while let Some(parent) = above(at).filter(|p| *p != NOWHERE) {
                    if parent == base {
                        return true;
                    }
                    at = parent;
                }
                false
            }
        }
    }

    fn no_such(&self, base: &Dn) -> NoSuchEntry {
        let mut matched = base.parent();
        while let Some(dn) = &matched {
            if self.by_dn.contains_key(dn.key().as_str()) {
                break;
            }
            matched = dn.parent();
        }
        NoSuchEntry {
            base: base.to_string(),
            matched: matched.map_or(String::new(), |dn| dn.to_string()),
        }
    }

    /// The row of a name.
    pub fn find(&self, dn: &Dn) -> Option<RowId> {
        let index = *self.by_dn.get(dn.key().as_str())?;
        let generation = self.row(index)?.generation;
        Some(RowId { index, generation })
    }

    /// Puts rows into an order, and keeps the first `limit`. Rows without a value come last; ties stay as they are.
    pub fn rank(&self, rows: &mut Vec<RowId>, by: &[Rank], limit: usize) {
        let columns: Vec<(Option<&Column>, bool)> = by
            .iter()
            .map(|rank| (self.column_of(&rank.attribute), rank.descending))
            .collect();
        if !columns.is_empty() {
            let mut keyed: Vec<(Vec<Option<Datum>>, RowId)> = rows
                .iter()
                .map(|row| {
                    let key = columns
                        .iter()
                        .map(|(c, _)| c.and_then(|c| c.order(row.index)));
                    (key.collect(), *row)
                })
                .collect();
            keyed.sort_by(|(a, _), (b, _)| {
                let pairs = a.iter().zip(b).zip(&columns);
                pairs
                    .map(|((a, b), (_, descending))| compare(a.as_ref(), b.as_ref(), *descending))
                    .find(|o| o.is_ne())
                    .unwrap_or(Ordering::Equal)
            });
            *rows = keyed.into_iter().map(|(_, row)| row).collect();
        }
        rows.truncate(limit);
    }

    fn column_of(&self, attribute: &str) -> Option<&Column> {
        let id = self.find_name(attribute)?;
        self.names.get(usize::from(id)).map(|n| &n.column)
    }

    fn compile<'a>(&'a self, filter: &Filter) -> Node<'a> {
        match filter {
            Filter::And(parts) => Node::And(parts.iter().map(|p| self.compile(p)).collect()),
            Filter::Or(parts) => Node::Or(parts.iter().map(|p| self.compile(p)).collect()),
            Filter::Not(inner) => Node::Not(Box::new(self.compile(inner))),
            Filter::Item { attribute, test } => self.item(attribute, test),
            Filter::Extensible {
                attribute,
                rule,
                dn,
                value,
            } => self.extensible(attribute.as_deref(), rule.as_deref(), *dn, value),
        }
    }

    fn item<'a>(&'a self, attribute: &str, assertion: &Assertion) -> Node<'a> {
        let declared = schema::attribute(attribute).map(|a| a.syntax);
        // A number that is none: the assertion has the wrong syntax, and nothing can be said (RFC 4511).
        if let Assertion::Equal(v) | Assertion::AtLeast(v) | Assertion::AtMost(v) = assertion {
            if declared == Some(Syntax::Number) && number(v).is_none() {
                return Node::Undefined;
            }
        }
        let known = self.column_of(attribute);
        let Some(column) = known.filter(|c| c.holders() > 0) else {
            return if declared.is_some() {
                Node::Never
            } else {
                Node::Undefined
            };
        };
        let of = |value: &str| datum(column.syntax(), class_name(attribute, value));
        let test = match assertion {
            Assertion::Present => Test::Present,
            Assertion::Equal(value) => Test::Equal(of(value)),
            Assertion::AtLeast(value) => Test::AtLeast(of(value)),
            Assertion::AtMost(value) => Test::AtMost(of(value)),
            Assertion::More(number) => Test::More(Datum::Number(*number)),
            Assertion::Less(number) => Test::Less(Datum::Number(*number)),
            Assertion::Approximate(value) => Test::Approximate(squeezed(value)),
            Assertion::Substring { initial, any, last } => {
                let part = |p: &Option<String>| normal(p.as_deref().unwrap_or("")).into_owned();
                Test::Pattern(Pattern {
                    initial: part(initial),
                    any: any.iter().map(|p| normal(p).into_owned()).collect(),
                    last: part(last),
                })
            }
        };
        Node::Test(column, test)
    }

    fn extensible<'a>(
        &'a self,
        attribute: Option<&str>,
        rule: Option<&str>,
        dn: bool,
        value: &str,
    ) -> Node<'a> {
        if !rule.is_none_or(is_equality_rule) {
            return Node::Undefined;
        }
        let mut parts = match attribute {
            Some(name) => vec![self.item(name, &Assertion::Equal(value.to_owned()))],
            None => {
                let texts = self
                    .names
                    .iter()
                    .filter(|n| n.column.syntax() != Syntax::Number);
                let equal = |c: &Column| Test::Equal(datum(c.syntax(), value));
                texts
                    .map(|n| Node::Test(&n.column, equal(&n.column)))
                    .collect()
            }
        };
        if dn {
            let name = attribute.unwrap_or("").to_ascii_lowercase();
            parts.push(Node::InName(name, normal(value).into_owned()));
        }
        Node::Or(parts)
    }
}

/// Equality rules that compare as we do (RFC 4517, section 4.2).
fn is_equality_rule(rule: &str) -> bool {
    [
        "caseIgnoreMatch",
        "2.5.13.2",
        "caseIgnoreIA5Match",
        "1.3.6.1.4.1.1466.109.114.2",
        "integerMatch",
        "2.5.13.14",
        "objectIdentifierMatch",
        "2.5.13.0",
        "generalizedTimeMatch",
        "2.5.13.27",
    ]
    .iter()
    .any(|known| known.eq_ignore_ascii_case(rule))
}

/// Classes may be named by number.
fn class_name<'v>(attribute: &str, value: &'v str) -> &'v str {
    let is_number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_number && attribute.eq_ignore_ascii_case("objectClass") {
        let class = schema::CLASSES.iter().find(|c| c.oid == value);
        return class.map_or(value, |c| c.name);
    }
    value
}

fn compare(a: Option<&Datum>, b: Option<&Datum>, descending: bool) -> Ordering {
    let order = match (a, b) {
        (None, None) => return Ordering::Equal,
        (None, Some(_)) => return Ordering::Greater,
        (Some(_), None) => return Ordering::Less,
        (Some(Datum::Number(a)), Some(Datum::Number(b))) => a.total_cmp(b),
        (Some(Datum::Text(a)), Some(Datum::Text(b))) => a.cmp(b),
        (Some(Datum::Number(_)), Some(Datum::Text(_))) => Ordering::Less,
        (Some(Datum::Text(_)), Some(Datum::Number(_))) => Ordering::Greater,
    };
    if descending { order.reverse() } else { order }
}

impl Plan<'_> {
    /// Does the entry match, whatever its place?
    pub fn matches(&self, row: RowId) -> bool {
        self.directory.row_of(row).is_some() && self.passes(row.index)
    }

    fn passes(&self, row: u32) -> bool {
        self.truth(&self.node, row) == Some(true)
    }

    fn truth(&self, node: &Node<'_>, row: u32) -> Option<bool> {
        match node {
            Node::And(parts) => {
                let mut sure = Some(true);
                for part in parts {
                    match self.truth(part, row) {
                        Some(false) => return Some(false),
                        None => sure = None,
                        Some(true) => {}
                    }
                }
                sure
            }
            Node::Or(parts) => {
                let mut sure = Some(false);
                for part in parts {
                    match self.truth(part, row) {
                        Some(true) => return Some(true),
                        None => sure = None,
                        Some(false) => {}
                    }
                }
                sure
            }
            Node::Not(inner) => self.truth(inner, row).map(|t| !t),
            Node::Test(column, test) => Some(column.matches(row, test)),
            Node::InName(kind, value) => {
                let row = self.directory.row(row);
                Some(row.is_some_and(|row| is_in_name(row, kind, value)))
            }
            Node::Never => Some(false),
            Node::Undefined => None,
        }
    }

    /// Rows among which all that match are, if these are few.
    fn few(node: &Node<'_>) -> Option<Vec<u32>> {
        match node {
            Node::Test(column, test) => column.few(test).map(<[u32]>::to_vec),
            Node::And(parts) => parts.iter().filter_map(Self::few).min_by_key(Vec::len),
            Node::Or(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(Self::few(part)?);
                }
                (all.len() <= ONE_BY_ONE_MOST).then_some(all)
            }
            Node::Never | Node::Undefined => Some(Vec::new()),
            Node::Not(_) | Node::InName(..) => None,
        }
    }

    /// Rows that match, and rows that match or of which nothing can be said. May name rows that are not there.
    fn scan(&self, node: &Node<'_>) -> (Bits, Bits) {
        let rows = self.directory.rows.len();
        let all = || self.directory.live.clone();
        match node {
            Node::And(parts) => parts
                .iter()
                .map(|p| self.scan(p))
                .fold((all(), all()), |(sure, maybe), (s, m)| {
                    (sure.and(&s), maybe.and(&m))
                }),
            Node::Or(parts) => {
                let none = || Bits::none(rows);
                parts
                    .iter()
                    .map(|p| self.scan(p))
                    .fold((none(), none()), |(sure, maybe), (s, m)| {
                        (sure.or(&s), maybe.or(&m))
                    })
            }
            Node::Not(inner) => {
                let (sure, maybe) = self.scan(inner);
                let live = &self.directory.live;
                (maybe.not_in(live), sure.not_in(live))
            }
            Node::Test(column, test) => {
                let found = column.scan(test, rows);
                (found.clone(), found)
            }
            Node::InName(kind, value) => {
                let mut found = Bits::none(rows);
                for (index, row) in self.directory.rows.iter().enumerate() {
                    if row.as_ref().is_some_and(|r| is_in_name(r, kind, value)) {
                        found.set(index as u32);
                    }
                }
                (found.clone(), found)
            }
            Node::Never => (Bits::none(rows), Bits::none(rows)),
            Node::Undefined => (Bits::none(rows), all()),
        }
    }
}

/// Is `kind=value` a part of the row's name? Without a kind: is it the value of any part?
fn is_in_name(row: &Row, kind: &str, value: &str) -> bool {
    let Ok(dn) = Dn::parse(&row.key) else {
        return false;
    };
    let mut at = Some(dn);
    while let Some(dn) = at {
        let pairs = dn.own().map_or(&[][..], |rdn| rdn.pairs());
        if pairs
            .iter()
            .any(|(k, v)| (kind.is_empty() || k == kind) && v == value)
        {
            return true;
        }
        at = dn.parent();
    }
    false
}
