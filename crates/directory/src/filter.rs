//! Filters as values (RFC 4511, section 4.5.1.7), and as text (RFC 4515). Not here: how they are answered (`search`),
//! their BER form (`ldap`), expressions (`expr`), which become filters.

use crate::dn::is_type;
use std::fmt;

/// Levels of a filter; people nest five, programs that translate queries perhaps twenty.
pub const FILTER_DEPTH_MOST: usize = 32;
/// Items of a filter: a list of all hosts of a site fits; each costs a walk through a column.
pub const FILTER_ITEMS_MOST: usize = 1024;

/// What entries are looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Item {
        attribute: String,
        test: Assertion,
    },
    /// `attribute` None: any attribute that has the rule.
    Extensible {
        attribute: Option<String>,
        rule: Option<String>,
        /// The parts of the entry's name count as values.
        dn: bool,
        value: String,
    },
}

/// What is asserted of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Assertion {
    Present,
    Equal(String),
    AtLeast(String),
    AtMost(String),
    Approximate(String),
    Substring {
        initial: Option<String>,
        any: Vec<String>,
        last: Option<String>,
    },
    /// Only in expressions: strictly more or less, in the attribute's own unit.
    More(f64),
    Less(f64),
}

/// Why a text is no filter; whoever wrote it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter cannot be used: at byte {at}, {problem}")]
pub struct FilterError {
    /// From 0.
    pub at: usize,
    pub problem: FilterProblem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterProblem {
    #[error("\"(\" is missing")]
    Open,
    #[error("\")\" is missing")]
    Close,
    #[error("something follows the filter")]
    Rest,
    #[error("there is no usable attribute name")]
    Attribute,
    #[error("there is no comparison: one of = >= <= ~= :=")]
    Comparison,
    #[error("\"\\\" is not followed by two hexadecimal digits, or the bytes are not UTF-8")]
    Escape,
    #[error("it is nested more than {FILTER_DEPTH_MOST} deep")]
    TooDeep,
    #[error("it has more than {FILTER_ITEMS_MOST} items")]
    TooMany,
}

impl Filter {
    /// Reads the text form; outer parentheses may be left out, as ldapsearch allows.
    ///
    /// # Errors
    /// `FilterError`, with the place.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        let mut reader = Reader {
            text,
            at: 0,
            items: 0,
        };
        reader.blanks();
        let filter = if reader.peek() == Some('(') {
            reader.filter(0)?
        } else {
            reader.inner(0)?
        };
        reader.blanks();
        match reader.peek() {
            None => Ok(filter),
            Some(_) => Err(reader.wrong(FilterProblem::Rest)),
        }
    }

    pub fn equal(attribute: &str, value: &str) -> Filter {
        Filter::Item {
            attribute: attribute.to_owned(),
            test: Assertion::Equal(value.to_owned()),
        }
    }

    pub fn present(attribute: &str) -> Filter {
        Filter::Item {
            attribute: attribute.to_owned(),
            test: Assertion::Present,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    items: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, problem: FilterProblem) -> FilterError {
        FilterError {
            at: self.at,
            problem,
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, text: &str) -> bool {
        let taken = self.rest().starts_with(text);
        if taken {
            self.at += text.len();
        }
        taken
    }

    fn filter(&mut self, depth: usize) -> Result<Filter, FilterError> {
        self.blanks();
        if !self.take("(") {
            return Err(self.wrong(FilterProblem::Open));
        }
        let filter = self.inner(depth)?;
        self.blanks();
        if !self.take(")") {
            return Err(self.wrong(FilterProblem::Close));
        }
        Ok(filter)
    }

    fn inner(&mut self, depth: usize) -> Result<Filter, FilterError> {
        if depth >= FILTER_DEPTH_MOST {
            return Err(self.wrong(FilterProblem::TooDeep));
        }
        self.blanks();
        if self.take("!") {
            return Ok(Filter::Not(Box::new(self.filter(depth + 1)?)));
        }
        let and = self.take("&");
        if and || self.take("|") {
            let mut parts = Vec::new();
            self.blanks();
            while self.peek() == Some('(') {
                parts.push(self.filter(depth + 1)?);
                self.blanks();
            }
            return Ok(if and {
                Filter::And(parts)
            } else {
                Filter::Or(parts)
            });
        }
        self.item()
    }

    fn item(&mut self) -> Result<Filter, FilterError> {
        self.items += 1;
        if self.items > FILTER_ITEMS_MOST {
            return Err(self.wrong(FilterProblem::TooMany));
        }
        let rest = self.rest();
        let length = rest
            .find(['=', '(', ')', '\\'])
            .ok_or_else(|| self.wrong(FilterProblem::Comparison))?;
        let head = rest.get(..length).unwrap_or_default();
        if !rest.get(length..).is_some_and(|r| r.starts_with('=')) {
            return Err(self.wrong(FilterProblem::Comparison));
        }
        let begun = self.at;
        self.at += length + 1;
        let (head, kind) = match head.char_indices().last() {
            Some((at, kind @ ('>' | '<' | '~' | ':'))) => {
                (head.get(..at).unwrap_or_default(), kind)
            }
            _ => (head, '='),
        };
        let at_head = |problem| FilterError { at: begun, problem };
        if kind == ':' {
            return self.extensible(head, at_head(FilterProblem::Attribute));
        }
        let attribute = description(head).ok_or(at_head(FilterProblem::Attribute))?;
        let (parts, stars) = self.value()?;
        let one = |parts: Vec<String>| parts.join("*");
        let test = match kind {
            '>' => Assertion::AtLeast(one(parts)),
            '<' => Assertion::AtMost(one(parts)),
            '~' => Assertion::Approximate(one(parts)),
            _ if !stars => Assertion::Equal(one(parts)),
            _ => pattern(parts),
        };
        Ok(Filter::Item { attribute, test })
    }

    fn extensible(&mut self, head: &str, wrong: FilterError) -> Result<Filter, FilterError> {
        let mut parts = head.split(':');
        let attribute = match parts.next().unwrap_or_default().trim() {
            "" => None,
            name => Some(description(name).ok_or(wrong.clone())?),
        };
        let (mut dn, mut rule) = (false, None);
        for part in parts {
            match part.trim() {
                "dn" | "DN" | "Dn" if !dn && rule.is_none() => dn = true,
                name if rule.is_none() && is_type(name) => rule = Some(name.to_owned()),
                _ => return Err(wrong),
            }
        }
        if attribute.is_none() && rule.is_none() {
            return Err(wrong);
        }
        let (parts, _) = self.value()?;
        Ok(Filter::Extensible {
            attribute,
            rule,
            dn,
            value: parts.join("*"),
        })
    }

    /// The parts between stars, unescaped, and whether there was a star.
    fn value(&mut self) -> Result<(Vec<String>, bool), FilterError> {
        let mut parts = Vec::new();
        let mut bytes = Vec::new();
        loop {
            let next = self.peek();
            match next {
                None | Some('(' | ')' | '*') => {
                    let part = String::from_utf8(std::mem::take(&mut bytes));
                    parts.push(part.map_err(|_| self.wrong(FilterProblem::Escape))?);
                    if next != Some('*') {
                        let stars = parts.len() > 1;
                        return Ok((parts, stars));
                    }
                    self.at += 1;
                }
                Some('\\') => {
                    let byte = self
                        .rest()
                        .get(1..3)
                        .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                        .ok_or_else(|| self.wrong(FilterProblem::Escape))?;
                    bytes.push(byte);
                    self.at += 3;
                }
                Some(c) => {
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += c.len_utf8();
                }
            }
        }
    }
}

fn pattern(mut parts: Vec<String>) -> Assertion {
    let full = |part: String| (!part.is_empty()).then_some(part);
    let last = parts.pop().and_then(full);
    let mut parts = parts.into_iter();
    let initial = parts.next().and_then(full);
    let any: Vec<String> = parts.filter(|p| !p.is_empty()).collect();
    if initial.is_none() && any.is_empty() && last.is_none() {
        return Assertion::Present;
    }
    Assertion::Substring { initial, any, last }
}

/// An attribute's name; options (`;lang-en`) are dropped, nothing here has any.
pub(crate) fn description(text: &str) -> Option<String> {
    let name = text.split(';').next().unwrap_or_default().trim();
    is_type(name).then(|| name.to_owned())
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::And(parts) | Filter::Or(parts) => {
                f.write_str(if matches!(self, Filter::And(_)) {
                    "(&"
                } else {
                    "(|"
                })?;
                parts.iter().try_for_each(|part| write!(f, "{part}"))?;
                f.write_str(")")
            }
            Filter::Not(inner) => write!(f, "(!{inner})"),
            Filter::Item { attribute, test } => match test {
                Assertion::Present => write!(f, "({attribute}=*)"),
                Assertion::Equal(v) => write!(f, "({attribute}={})", Escaped(v)),
                Assertion::AtLeast(v) => write!(f, "({attribute}>={})", Escaped(v)),
                Assertion::AtMost(v) => write!(f, "({attribute}<={})", Escaped(v)),
                Assertion::Approximate(v) => write!(f, "({attribute}~={})", Escaped(v)),
                // LDAP has no strict comparison; this is the same for whoever reads it.
                Assertion::More(n) => write!(f, "(&({attribute}=*)(!({attribute}<={n})))"),
                Assertion::Less(n) => write!(f, "(&({attribute}=*)(!({attribute}>={n})))"),
                Assertion::Substring { initial, any, last } => {
                    let part = |p: &Option<String>| Escaped(p.as_deref().unwrap_or("")).to_string();
                    write!(f, "({attribute}={}*", part(initial))?;
                    any.iter().try_for_each(|p| write!(f, "{}*", Escaped(p)))?;
                    write!(f, "{})", part(last))
                }
            },
            Filter::Extensible {
                attribute,
                rule,
                dn,
                value,
            } => {
                write!(f, "({}", attribute.as_deref().unwrap_or(""))?;
                if *dn {
                    f.write_str(":dn")?;
                }
                if let Some(rule) = rule {
                    write!(f, ":{rule}")?;
                }
                write!(f, ":={})", Escaped(value))
            }
        }
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '*' | '(' | ')' | '\\' | '\0' => write!(f, "\\{:02x}", u32::from(c)),
            c => write!(f, "{c}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_and_printed() {
        for (text, printed) in [
            ("(objectclass=*)", "(objectclass=*)"),
            ("objectclass=MdsHost", "(objectclass=MdsHost)"),
            ("(&(a=1)(b>=2)(c<=3)(d~=4))", "(&(a=1)(b>=2)(c<=3)(d~=4))"),
            (" ( | (a=x*y*z) (! (b=*q) ) ) ", "(|(a=x*y*z)(!(b=*q) ))"),
            ("(a=\\2a\\28)", "(a=\\2a\\28)"),
            ("(a=)", "(a=)"),
            ("(&)", "(&)"),
            ("(o:dn:=grid)", "(o:dn:=grid)"),
            ("(:caseIgnoreMatch:=x)", "(:caseIgnoreMatch:=x)"),
            ("(cn:dn:2.5.13.2:=x)", "(cn:dn:2.5.13.2:=x)"),
            ("(a;lang-de=x)", "(a=x)"),
        ] {
            let filter = Filter::parse(text).unwrap();
            let again = Filter::parse(&filter.to_string()).unwrap();
            assert_eq!(again, filter, "{text}");
            assert_eq!(
                filter.to_string().replace(") )", "))"),
                printed.replace(") )", "))")
            );
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_place() {
        use FilterProblem::*;
        for (text, at, problem) in [
            ("", 0, Comparison),
            ("(a=1", 4, Close),
            ("(a=1))", 5, Rest),
            ("(&(a=1)b)", 7, Close),
            ("(=x)", 1, Attribute),
            ("(a b=x)", 1, Attribute),
            ("(a)", 1, Comparison),
            ("(a=\\zz)", 3, Escape),
            ("(a=\\ff)", 6, Escape),
            ("(!a=1)", 2, Open),
            ("(:=x)", 1, Attribute),
        ] {
            assert_eq!(
                Filter::parse(text),
                Err(FilterError { at, problem }),
                "{text}"
            );
        }
        let deep = "(!".repeat(100) + "(a=1)" + &")".repeat(100);
        assert_eq!(Filter::parse(&deep).unwrap_err().problem, TooDeep);
        let wide = format!("(|{})", "(a=1)".repeat(FILTER_ITEMS_MOST + 1));
        assert_eq!(Filter::parse(&wide).unwrap_err().problem, TooMany);
    }
}
