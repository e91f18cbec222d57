//! From the tree back to text (spec/idl I8): one form for each tree, so that reading it gives the same tree again.

use crate::syntax::{
    Body, Class, ClassItem, Declarator, Dim, Expr, Idl, Item, Opt, Param, ParamOrCallback, Routine,
};
use std::fmt::{self, Display, Write};

/// A quotation, with what C would not take in one escaped.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            _ if c.is_ascii_control() => write!(f, "\\{:03o}", u32::from(c))?,
            _ => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn doc_and_options(
    f: &mut fmt::Formatter<'_>,
    doc: &Option<String>,
    options: &[Opt],
) -> fmt::Result {
    if let Some(doc) = doc {
        f.write_char('\n')?;
        quoted(f, doc)?;
    }
    options
        .iter()
        .try_for_each(|option| write!(f, "\n{option}"))
}

impl Display for Idl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.iter().try_for_each(|item| writeln!(f, "{item}"))
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Module(name) => write!(f, "Module {};", name.text),
            Item::Setting { setting, text, .. } => {
                write!(f, "{} ", setting.word())?;
                quoted(f, text)?;
                f.write_char(';')
            }
            Item::FortranStringConvention(name) => {
                write!(f, "FortranStringConvention {};", name.text)
            }
            Item::Globals(code) => write!(f, "Globals {{{}}}", code.text),
            Item::Define(routine) => write!(f, "Define {routine}"),
            Item::DefClass(class) => class.fmt(f),
        }
    }
}

impl Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name.text)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match parameter {
                ParamOrCallback::Param(param) => param.fmt(f)?,
                ParamOrCallback::Callback { name, parameters } => {
                    write!(f, "{}(", name.text)?;
                    for (index, param) in parameters.iter().enumerate() {
                        f.write_str(if index == 0 { "" } else { ", " })?;
                        param.fmt(f)?;
                    }
                    f.write_char(')')?;
                }
            }
        }
        f.write_char(')')?;
        doc_and_options(f, &self.doc, &self.options)?;
        match &self.body {
            Body::Code(code) => write!(f, "\n{{{}}}", code.text),
            Body::Calls {
                convention,
                function,
                arguments,
            } => {
                f.write_str("\nCalls ")?;
                if let Some(convention) = convention {
                    quoted(f, convention)?;
                    f.write_char(' ')?;
                }
                let names: Vec<&str> = arguments.iter().map(|name| name.text.as_str()).collect();
                write!(f, "{}({});", function.text, names.join(", "))
            }
        }
    }
}

impl Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DefClass {}", self.name.text)?;
        doc_and_options(f, &self.doc, &self.options)?;
        f.write_str("\n{\n")?;
        for item in &self.items {
            match item {
                ClassItem::State(code) => writeln!(f, "DefState {{{}}}", code.text)?,
                ClassItem::Method(routine) => writeln!(f, "DefMethod {routine}")?,
            }
        }
        f.write_char('}')
    }
}

impl Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.word())?;
        match self {
            Opt::Required { text, .. }
            | Opt::Backend { text, .. }
            | Opt::Shrink { text, .. }
            | Opt::Checkpoint { text, .. }
            | Opt::Language { text, .. } => quoted(f, text),
            Opt::CalcOrder { order, .. } => order.fmt(f),
        }
    }
}

impl Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mode) = self.mode {
            write!(f, "{} ", mode.word())?;
        }
        if let Some(distribution) = self.distribution {
            write!(f, "{} ", distribution.word())?;
        }
        for word in &self.words {
            write!(f, "{} ", word.word())?;
        }
        self.declarator.fmt(f)
    }
}

impl Display for Declarator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..self.pointers {
            f.write_char('*')?;
        }
        f.write_str(&self.name.text)?;
        self.dims.iter().try_for_each(|dim| dim.fmt(f))
    }
}

impl Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        if let Some(size) = &self.size {
            size.fmt(f)?;
        }
        if let Some(range) = &self.range {
            f.write_char(':')?;
            if let Some(start) = &range.start {
                write!(f, "{start}, ")?;
            }
            range.end.fmt(f)?;
            if let Some(step) = &range.step {
                write!(f, ", {step}")?;
            }
        }
        f.write_char(']')
    }
}

/// Binds as tightly as a sign before it does; what is tighter is a power or a primary.
const NEGATE: u8 = 4;
const PRIMARY: u8 = 6;

impl Expr {
    fn level(&self) -> u8 {
        match self {
            Expr::Choose { .. } => 0,
            Expr::Binary { sign, .. } => sign.level(),
            Expr::Negate(_) | Expr::Deref { .. } => NEGATE,
            Expr::Integer(_) | Expr::Real(_) | Expr::Name(_) | Expr::Index { .. } => PRIMARY,
        }
    }

    /// In parentheses unless it binds at least as tightly as `level`.
    fn within(&self, f: &mut fmt::Formatter<'_>, level: u8) -> fmt::Result {
        match self.level() >= level {
            true => self.fmt(f),
            false => write!(f, "({self})"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Integer(value) => value.fmt(f),
            Expr::Real(value) => write!(f, "{value:?}"),
            Expr::Name(name) => f.write_str(&name.text),
            Expr::Negate(of) => {
                f.write_char('-')?;
                of.within(f, NEGATE)
            }
            Expr::Deref { of, .. } => {
                f.write_char('*')?;
                of.within(f, NEGATE)
            }
            Expr::Index { of, index, .. } => {
                of.within(f, PRIMARY)?;
                write!(f, "[{index}]")
            }
            Expr::Choose {
                condition,
                then,
                otherwise,
            } => {
                condition.within(f, 1)?;
                write!(f, " ? {then} : {otherwise}")
            }
            Expr::Binary { sign, left, right } => {
                let level = sign.level();
                // A power joins to the right, and its exponent may begin with a sign.
                let (left_level, right_level) = match level {
                    5 => (PRIMARY, NEGATE),
                    _ => (level, level + 1),
                };
                left.within(f, left_level)?;
                write!(f, " {} ", sign.sign())?;
                right.within(f, right_level)
            }
        }
    }
}
