//! Filling in variables (spec/rsl R10 to R13): from the tree as written to one of literals and lists only.

use super::error::{RslError, RslProblem};
use super::parse::MAX_RSL_BYTES;
use super::syntax::{Compare, Place, Relation, Spec, Value, canonical};
use std::collections::BTreeMap;

/// What is defined before a request says anything: the site's own (HOME, GLOBUS_GRAM_JOB_CONTACT, ...).
pub type Variables = BTreeMap<String, String>;

const SUBSTITUTION: &str = "rslsubstitution";

/// Fills in all variables. Relations of `rsl_substitution` are carried out and left out.
pub fn evaluate(spec: &Spec, variables: &Variables) -> Result<Spec, RslError> {
    let mut made = 0;
    let scope = Scope {
        own: BTreeMap::new(),
        above: Above::Site(variables),
    };
    let relation =
        |relation: &Relation, made: &mut usize| scope.relation(relation, made).map(Spec::Relation);
    match spec {
        Spec::Relation(one) => relation(one, &mut made),
        Spec::Combined { .. } => scope.spec(spec, &mut made),
    }
}

enum Above<'a> {
    Site(&'a Variables),
    Scope(&'a Scope<'a>),
}

/// The variables that a part sees: its own, then those of what holds it.
struct Scope<'a> {
    own: BTreeMap<String, String>,
    above: Above<'a>,
}

impl Scope<'_> {
    fn find(&self, name: &str) -> Option<&String> {
        self.own.get(name).or_else(|| match &self.above {
            Above::Site(variables) => variables.get(name),
            Above::Scope(scope) => scope.find(name),
        })
    }

    fn spec(&self, spec: &Spec, made: &mut usize) -> Result<Spec, RslError> {
        let (operator, parts) = match spec {
            Spec::Relation(relation) => return self.relation(relation, made).map(Spec::Relation),
            Spec::Combined { operator, parts } => (*operator, parts),
        };
        let mut scope = Scope {
            own: BTreeMap::new(),
            above: Above::Scope(self),
        };
        // Definitions hold for the whole part that they stand in, wherever they stand there.
        for part in parts {
            if let Some(relation) = substitution(part) {
                scope.define(relation, made)?;
            }
        }
        let parts = parts
            .iter()
            .filter(|part| substitution(part).is_none())
            .map(|part| scope.spec(part, made))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Spec::Combined { operator, parts })
    }

    fn relation(&self, relation: &Relation, made: &mut usize) -> Result<Relation, RslError> {
        Ok(Relation {
            attribute: relation.attribute.clone(),
            operator: relation.operator,
            values: self.values(&relation.values, made)?,
            at: relation.at,
        })
    }

    fn values(&self, values: &[Value], made: &mut usize) -> Result<Vec<Value>, RslError> {
        values.iter().map(|value| self.value(value, made)).collect()
    }

    fn value(&self, value: &Value, made: &mut usize) -> Result<Value, RslError> {
        if let Value::Sequence { values, at } = value {
            return Ok(Value::Sequence {
                values: self.values(values, made)?,
                at: *at,
            });
        }
        Ok(Value::Literal {
            text: self.text(value, made)?,
            at: value.at(),
        })
    }

    fn text(&self, value: &Value, made: &mut usize) -> Result<String, RslError> {
        match value {
            Value::Literal { text, at } => {
                count(made, text, *at)?;
                Ok(text.clone())
            }
            Value::Variable { name, default, at } => match (self.find(name), default) {
                (Some(text), _) => {
                    count(made, text, *at)?;
                    Ok(text.clone())
                }
                (None, Some(default)) => self.text(default, made),
                (None, None) => Err(RslProblem::UnknownVariable { name: name.clone() }.at(*at)),
            },
            Value::Concatenation(parts) => parts
                .iter()
                .map(|part| self.text(part, made))
                .collect::<Result<String, _>>(),
            Value::Sequence { at, .. } => {
                let what = "a list stands where a text belongs";
                Err(RslProblem::Substitution { what }.at(*at))
            }
        }
    }

    fn define(&mut self, relation: &Relation, made: &mut usize) -> Result<(), RslError> {
        for value in &relation.values {
            let pair = match value {
                Value::Sequence { values, .. } => values.as_slice(),
                _ => &[],
            };
            let [name, text] = pair else {
                let what =
                    "rsl_substitution takes pairs: rsl_substitution=(NAME value)(NAME value)";
                return Err(RslProblem::Substitution { what }.at(value.at()));
            };
            let name = self.text(name, made)?;
            let text = self.text(text, made)?;
            self.own.insert(name, text);
        }
        Ok(())
    }
}

/// Variables may double what they are given: what comes out is bounded like what goes in.
fn count(made: &mut usize, text: &str, at: Place) -> Result<(), RslError> {
    *made += text.len();
    if *made > MAX_RSL_BYTES {
        return Err(RslProblem::TooLongEvaluated.at(at));
    }
    Ok(())
}

fn substitution(spec: &Spec) -> Option<&Relation> {
    match spec {
        Spec::Relation(relation)
            if relation.operator == Compare::Equal
                && canonical(&relation.attribute) == SUBSTITUTION =>
        {
            Some(relation)
        }
        _ => None,
    }
}
