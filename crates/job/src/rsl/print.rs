//! From the tree back to text (spec/rsl R7): one form for each tree, every text quoted, so that reading it gives the
//! same tree again.

use super::syntax::{Relation, Spec, Value};
use std::fmt::{self, Display};

fn text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('"', "\"\""))
}

fn values(f: &mut fmt::Formatter<'_>, values: &[Value], between: &str) -> fmt::Result {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        value.fmt(f)?;
    }
    Ok(())
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Relation(relation) => relation.fmt(f),
            Spec::Combined { operator, parts } => {
                write!(f, "{}", operator.sign())?;
                for part in parts {
                    write!(f, "({part})")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text(f, &self.attribute)?;
        write!(f, " {} ", self.operator.sign())?;
        values(f, &self.values, " ")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Literal { text: literal, .. } => text(f, literal),
            Value::Sequence { values: inner, .. } => {
                f.write_str("(")?;
                values(f, inner, " ")?;
                f.write_str(")")
            }
            Value::Variable { name, default, .. } => {
                f.write_str("$(")?;
                text(f, name)?;
                if let Some(default) = default {
                    write!(f, " {default}")?;
                }
                f.write_str(")")
            }
            Value::Concatenation(parts) => values(f, parts, " # "),
        }
    }
}
