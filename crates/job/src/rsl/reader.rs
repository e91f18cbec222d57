//! An evaluated request as attributes with their values (spec/rsl R21): each known, in its place, of its shape.

use super::attributes::{Attribute, Operation, find};
use super::error::{RslError, RslProblem};
use super::syntax::{Combine, Compare, Place, Relation, Spec, Value};
use std::collections::BTreeMap;

/// What was said of one attribute.
struct Said<'a> {
    attribute: &'static Attribute,
    values: Vec<&'a Value>,
    at: Place,
}

pub(super) struct Reader<'a> {
    said: BTreeMap<&'static str, Said<'a>>,
    /// Where what is missing is missing.
    begin: Place,
}

impl<'a> Reader<'a> {
    /// Of a tree without variables.
    pub fn new(spec: &'a Spec, operation: Operation) -> Result<Reader<'a>, RslError> {
        let mut reader = Reader {
            said: BTreeMap::new(),
            begin: Place { line: 1, column: 1 },
        };
        reader.collect(spec, operation)?;
        Ok(reader)
    }

    fn collect(&mut self, spec: &'a Spec, operation: Operation) -> Result<(), RslError> {
        match spec {
            Spec::Relation(relation) => self.take(relation, operation),
            Spec::Combined {
                operator: Combine::And,
                parts,
            } => parts
                .iter()
                .try_for_each(|part| self.collect(part, operation)),
            Spec::Combined { operator, parts } => {
                let at = parts.first().map(begin).unwrap_or(self.begin);
                Err(RslProblem::NotOne {
                    sign: operator.sign(),
                }
                .at(at))
            }
        }
    }

    fn take(&mut self, relation: &'a Relation, operation: Operation) -> Result<(), RslError> {
        let at = relation.at;
        let Some(attribute) = find(&relation.attribute) else {
            let attribute = relation.attribute.clone();
            return Err(RslProblem::UnknownAttribute { attribute }.at(at));
        };
        if relation.operator != Compare::Equal {
            return Err(RslProblem::Comparison {
                attribute: relation.attribute.clone(),
                sign: relation.operator.sign(),
            }
            .at(at));
        }
        if !attribute.takes(operation) {
            return Err(RslProblem::WrongOperation {
                attribute: attribute.name,
                code: operation.wrong(),
                belongs: attribute.belongs(),
                operation: operation.name(),
            }
            .at(at));
        }
        let said = self.said.entry(attribute.name).or_insert(Said {
            attribute,
            values: Vec::new(),
            at,
        });
        if !said.values.is_empty() && !attribute.joins {
            return Err(RslProblem::Twice {
                attribute: attribute.name,
                code: attribute.shape,
            }
            .at(at));
        }
        said.values.extend(&relation.values);
        Ok(())
    }

    pub fn missing(&self, attribute: &'static str, code: super::GramCode) -> RslError {
        RslProblem::Missing { attribute, code }.at(self.begin)
    }

    /// The value of an attribute is of the right shape, and cannot be used.
    pub fn bad(&self, name: &str, what: impl Into<String>) -> RslError {
        match self.said.get(name) {
            Some(said) => RslProblem::BadValue {
                attribute: said.attribute.name,
                code: said.attribute.value,
                what: what.into(),
            }
            .at(said.at),
            // Only asked of what was said; the text itself is all that could be named.
            None => RslProblem::Substitution {
                what: "an attribute is missing",
            }
            .at(self.begin),
        }
    }

    /// Exactly one text.
    pub fn one(&self, name: &str) -> Result<Option<String>, RslError> {
        let Some(said) = self.said.get(name) else {
            return Ok(None);
        };
        match said.values.as_slice() {
            [Value::Literal { text, .. }] => Ok(Some(text.clone())),
            _ => Err(shape(said, said.at, "takes one text")),
        }
    }

    /// Any number of texts.
    pub fn words(&self, name: &str) -> Result<Vec<String>, RslError> {
        let Some(said) = self.said.get(name) else {
            return Ok(Vec::new());
        };
        let word = |value: &&Value| match value {
            Value::Literal { text, .. } => Ok(text.clone()),
            other => Err(shape(said, other.at(), "takes texts, not lists")),
        };
        said.values.iter().map(word).collect()
    }

    /// Lists of two texts each.
    pub fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, RslError> {
        let Some(said) = self.said.get(name) else {
            return Ok(Vec::new());
        };
        let pair = |value: &&Value| match value {
            Value::Sequence { values, at } => match values.as_slice() {
                [
                    Value::Literal { text: a, .. },
                    Value::Literal { text: b, .. },
                ] => Ok((a.clone(), b.clone())),
                _ => Err(shape(said, *at, "takes pairs of texts: (a b)(c d)")),
            },
            other => Err(shape(said, other.at(), "takes pairs of texts: (a b)(c d)")),
        };
        said.values.iter().map(pair).collect()
    }

    /// Destinations of an output: `URL`, `URL TAG`, or lists of these.
    pub fn destinations(&self, name: &str) -> Result<Vec<(String, Option<String>)>, RslError> {
        let Some(said) = self.said.get(name) else {
            return Ok(Vec::new());
        };
        let one = |values: &[&Value], at: Place| match values {
            [Value::Literal { text, .. }] => Ok((text.clone(), None)),
            [
                Value::Literal { text, .. },
                Value::Literal { text: tag, .. },
            ] => Ok((text.clone(), Some(tag.clone()))),
            _ => Err(shape(
                said,
                at,
                "takes a destination with an optional tag, or lists of these",
            )),
        };
        if let Some(Value::Literal { .. }) = said.values.first() {
            return Ok(vec![one(&said.values, said.at)?]);
        }
        said.values
            .iter()
            .map(|value| match value {
                Value::Sequence { values, at } => one(&values.iter().collect::<Vec<_>>(), *at),
                other => one(&[], other.at()),
            })
            .collect()
    }

    pub fn number(&self, name: &str, unit: &str) -> Result<Option<u64>, RslError> {
        let Some(text) = self.one(name)? else {
            return Ok(None);
        };
        match text.parse::<u64>() {
            Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
            _ => Err(self.bad(name, format!("{text:?} is no whole number of {unit}"))),
        }
    }

    pub fn yes(&self, name: &str) -> Result<bool, RslError> {
        match self.one(name)?.as_deref() {
            None | Some("no") => Ok(false),
            Some("yes") => Ok(true),
            Some(other) => Err(self.bad(name, format!("{other:?} is neither yes nor no"))),
        }
    }
}

fn shape(said: &Said<'_>, at: Place, what: &str) -> RslError {
    RslProblem::BadValue {
        attribute: said.attribute.name,
        code: said.attribute.shape,
        what: what.to_owned(),
    }
    .at(at)
}

fn begin(spec: &Spec) -> Place {
    match spec {
        Spec::Relation(relation) => relation.at,
        Spec::Combined { parts, .. } => parts.first().map(begin).unwrap_or_default(),
    }
}
