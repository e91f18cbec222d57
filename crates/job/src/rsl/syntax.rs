//! The tree of an RSL text (spec/rsl R1 to R6): what was written, before anything is made of it.

use std::fmt;

/// Where something stands in the text; both count from 1, columns in characters. Two trees are the same wherever their
/// parts stand: a place equals every other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A whole request, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    Combined { operator: Combine, parts: Vec<Spec> },
    Relation(Relation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// `&`: all of the parts hold.
    And,
    /// `|`: one of them does.
    Or,
    /// `+`: each part is a request of its own (a multirequest).
    Multi,
}

impl Combine {
    pub fn sign(self) -> char {
        match self {
            Combine::And => '&',
            Combine::Or => '|',
            Combine::Multi => '+',
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// As written; [`canonical`] makes names comparable.
    pub attribute: String,
    pub operator: Compare,
    /// At least one.
    pub values: Vec<Value>,
    pub at: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Compare {
    pub fn sign(self) -> &'static str {
        match self {
            Compare::Equal => "=",
            Compare::NotEqual => "!=",
            Compare::Greater => ">",
            Compare::GreaterOrEqual => ">=",
            Compare::Less => "<",
            Compare::LessOrEqual => "<=",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Literal {
        text: String,
        at: Place,
    },
    /// `(a b c)`; at least one.
    Sequence {
        values: Vec<Value>,
        at: Place,
    },
    /// `$(NAME)`, or `$(NAME default)`.
    Variable {
        name: String,
        default: Option<Box<Value>>,
        at: Place,
    },
    /// `a # b # c`: at least two, each a literal or a variable.
    Concatenation(Vec<Value>),
}

impl Value {
    pub fn at(&self) -> Place {
        match self {
            Value::Literal { at, .. } | Value::Sequence { at, .. } | Value::Variable { at, .. } => {
                *at
            }
            Value::Concatenation(parts) => parts.first().map(Value::at).unwrap_or_default(),
        }
    }
}

/// The form in which names of attributes are compared (R6): small letters, no underscores.
pub fn canonical(attribute: &str) -> String {
    attribute
        .chars()
        .filter(|c| *c != '_')
        .map(|c| c.to_ascii_lowercase())
        .collect()
}
