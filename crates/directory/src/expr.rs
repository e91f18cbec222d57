//! The expression language for people (spec/info, X1 to X6): `cpus >= 8 and mem_free > 16GB and load < 0.5` becomes a
//! filter; `cpu_free desc, host` an order. Not here: how filters are answered (`search`).

use crate::dn::is_type;
use crate::filter::{Assertion, FILTER_DEPTH_MOST, FILTER_ITEMS_MOST, Filter};
use crate::schema::{self, Syntax, Unit};
use crate::search::Rank;
use crate::value::number;

/// The longest expression: a page of text.
pub const EXPRESSION_MOST_BYTES: usize = 8192;
/// Attributes to order by.
pub const RANKS_MOST: usize = 8;

/// Why a text is no expression; whoever wrote it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct ExprError {
    /// In characters, from 1.
    pub column: usize,
    pub problem: ExprProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprProblem {
    #[error(
        "the expression is longer than {EXPRESSION_MOST_BYTES} bytes, nested too deep or has too many comparisons"
    )]
    TooLarge,
    #[error("{expected} belongs here, not {found}")]
    Expected {
        expected: &'static str,
        found: String,
    },
    #[error("a text in quotes is not closed")]
    Quote,
    #[error(
        "{0:?} is no unit; there are kB MB GB TB KiB MiB GiB TiB, kHz MHz GHz, ms s min h d, %"
    )]
    Unit(String),
    #[error("{attribute} counts {base}: say a unit, as in {example}")]
    NoUnit {
        attribute: String,
        base: &'static str,
        example: &'static str,
    },
    #[error("{attribute} counts {base}, not what {unit} counts")]
    OtherUnit {
        attribute: String,
        base: &'static str,
        unit: String,
    },
    #[error("{attribute} is a number, and {found:?} is none")]
    NoNumber { attribute: String, found: String },
    #[error("{attribute} is a text: compare it by = != or ~")]
    NoOrder { attribute: String },
    #[error("more than {RANKS_MOST} attributes to order by")]
    TooManyRanks,
}

/// An expression as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub filter: Filter,
    /// The attributes that it names, as LDAP does.
    pub attributes: Vec<String>,
    /// What has to be true together: the parts between the outermost `and`s; the whole, if there is an `or` beside them.
    pub terms: Vec<Term>,
}

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// As typed.
    pub text: String,
    pub filter: Filter,
}

/// Reads an expression; an empty one matches everything.
///
/// # Errors
/// `ExprError`, with the place.
pub fn parse(text: &str) -> Result<Expression, ExprError> {
    let tokens = lex(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        end: text.chars().count() + 1,
        items: 0,
        attributes: Vec::new(),
        outermost: Vec::new(),
    };
    let filter = match parser.peek() {
        None => Filter::And(Vec::new()),
        Some(_) => parser.either(0)?,
    };
    match parser.peek() {
        None => Ok(Expression {
            terms: terms(text, &filter, &parser.outermost),
            filter,
            attributes: parser.attributes,
        }),
        Some(_) => Err(parser.expected("\"and\", \"or\" or the end")),
    }
}

/// `ands`: for each operand of `or` at the outermost level, the columns between which its parts stand.
fn terms(text: &str, filter: &Filter, ands: &[Vec<(usize, usize)>]) -> Vec<Term> {
    let part = |(from, to): &(usize, usize)| -> String {
        let chars = text.chars().skip(from - 1).take(to - from);
        chars.collect::<String>().trim().to_owned()
    };
    match (ands, filter) {
        ([], _) => Vec::new(),
        ([several], Filter::And(filters)) if several.len() > 1 => several
            .iter()
            .zip(filters)
            .map(|(place, filter)| Term {
                text: part(place),
                filter: filter.clone(),
            })
            .collect(),
        _ => vec![Term {
            text: text.trim().to_owned(),
            filter: filter.clone(),
        }],
    }
}

/// Reads what to order by: names, each with `asc` (the default) or `desc`, between commas.
///
/// # Errors
/// `ExprError`.
pub fn parse_rank(text: &str) -> Result<Vec<Rank>, ExprError> {
    let mut ranks = Vec::new();
    let mut column = 1;
    for part in text.split(',') {
        let wrong = |expected, found: &str| ExprError {
            column,
            problem: ExprProblem::Expected {
                expected,
                found: format!("{found:?}"),
            },
        };
        let mut words = part.split_whitespace();
        let name = words.next().unwrap_or_default();
        if !is_type(name) {
            return Err(wrong("the name of an attribute", name));
        }
        let descending = match words.next().map(str::to_ascii_lowercase).as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(other) => return Err(wrong("\"asc\", \"desc\" or a comma", other)),
        };
        if let Some(rest) = words.next() {
            return Err(wrong("a comma", rest));
        }
        if ranks.len() >= RANKS_MOST {
            let problem = ExprProblem::TooManyRanks;
            return Err(ExprError { column, problem });
        }
        let attribute = schema::short(name).map_or(name, |a| a.name).to_owned();
        ranks.push(Rank {
            attribute,
            descending,
        });
        column += part.chars().count() + 1;
    }
    Ok(ranks)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 10] = ["<=", ">=", "==", "!=", "<", ">", "=", "~", "(", ")"];

fn lex(text: &str) -> Result<Vec<(Token, usize)>, ExprError> {
    let at = |column, problem| ExprError { column, problem };
    if text.len() > EXPRESSION_MOST_BYTES {
        return Err(at(1, ExprProblem::TooLarge));
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let column = text.chars().count() - rest.chars().count() + 1;
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            tokens.push((Token::Symbol(symbol), column));
            rest = rest.get(symbol.len()..).unwrap_or_default();
        } else if first == '"' || first == '\'' {
            let inner = rest.get(1..).unwrap_or_default();
            let (quoted, after) = inner
                .split_once(first)
                .ok_or_else(|| at(column, ExprProblem::Quote))?;
            tokens.push((Token::Quoted(quoted.to_owned()), column));
            rest = after;
        } else {
            let length = rest
                .find(|c: char| c.is_whitespace() || "<>=!~()\"'".contains(c))
                .unwrap_or(rest.len());
            let Some((word, after)) = rest.split_at_checked(length).filter(|(w, _)| !w.is_empty())
            else {
                let problem = ExprProblem::Expected {
                    expected: "a name, a comparison or a value",
                    found: format!("{first:?}"),
                };
                return Err(at(column, problem));
            };
            tokens.push((Token::Word(word.to_owned()), column));
            rest = after;
        }
    }
}

struct Parser<'t> {
    tokens: &'t [(Token, usize)],
    end: usize,
    items: usize,
    attributes: Vec<String>,
    /// See `terms`.
    outermost: Vec<Vec<(usize, usize)>>,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.first().map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(&first.0)
    }

    fn column(&self) -> usize {
        self.tokens.first().map_or(self.end, |(_, column)| *column)
    }

    fn wrong(&self, problem: ExprProblem) -> ExprError {
        let column = self.column();
        ExprError { column, problem }
    }

    fn expected(&self, expected: &'static str) -> ExprError {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Word(w) | Token::Quoted(w)) => format!("{w:?}"),
            Some(Token::Symbol(s)) => format!("{s:?}"),
        };
        self.wrong(ExprProblem::Expected { expected, found })
    }

    fn takes(&mut self, word: &str) -> bool {
        let taken = matches!(self.peek(), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word));
        if taken {
            self.next();
        }
        taken
    }

    fn either(&mut self, depth: usize) -> Result<Filter, ExprError> {
        let mut parts = vec![self.both(depth)?];
        while self.takes("or") {
            parts.push(self.both(depth)?);
        }
        Ok(joined(parts, Filter::Or))
    }

    fn both(&mut self, depth: usize) -> Result<Filter, ExprError> {
        let (mut parts, mut places) = (Vec::new(), Vec::new());
        loop {
            let from = self.column();
            parts.push(self.one(depth)?);
            places.push((from, self.column()));
            if !self.takes("and") {
                break;
            }
        }
        if depth == 0 {
            self.outermost.push(places);
        }
        Ok(joined(parts, Filter::And))
    }

    fn one(&mut self, depth: usize) -> Result<Filter, ExprError> {
        self.items += 1;
        // A level of an expression may be two of a filter.
        if depth >= FILTER_DEPTH_MOST / 2 - 2 || self.items > FILTER_ITEMS_MOST / 2 {
            return Err(self.wrong(ExprProblem::TooLarge));
        }
        if self.takes("not") {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.peek() == Some(&Token::Symbol("(")) {
            self.next();
            let inner = self.either(depth + 1)?;
            if self.peek() != Some(&Token::Symbol(")")) {
                return Err(self.expected("\")\""));
            }
            self.next();
            return Ok(inner);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Filter, ExprError> {
        let spelled = match self.peek() {
            Some(Token::Word(name)) if is_type(name) => name.as_str(),
            _ => return Err(self.expected("the name of an attribute")),
        };
        self.next();
        let short = schema::short(spelled);
        let declared = short.or_else(|| schema::attribute(spelled));
        let attribute = declared.map_or(spelled, |a| a.name).to_owned();
        if !self.attributes.contains(&attribute) {
            self.attributes.push(attribute.clone());
        }
        let symbol = match self.peek() {
            Some(Token::Symbol(symbol)) if !matches!(*symbol, "(" | ")") => *symbol,
            // A name by itself: it has a value.
            _ => return Ok(Filter::present(&attribute)),
        };
        self.next();
        let at = self.column();
        let (value, quoted) = match self.next() {
            Some(Token::Word(word)) => (word.as_str(), false),
            Some(Token::Quoted(text)) => (text.as_str(), true),
            _ => {
                return Err(ExprError {
                    column: at,
                    problem: ExprProblem::Expected {
                        expected: "a value",
                        found: "something else".to_owned(),
                    },
                });
            }
        };
        let item = |test| Filter::Item {
            attribute: attribute.clone(),
            test,
        };
        let equal = if symbol == "~" {
            return Ok(item(glob(value)));
        } else {
            let of = Of {
                spelled,
                syntax: declared.map_or(Syntax::Undeclared, |a| a.syntax),
                unit: declared.map_or(Unit::None, |a| a.unit),
                base_units: short.is_some(),
            };
            let measured = of.number(value, quoted).map_err(|problem| ExprError {
                column: at,
                problem,
            })?;
            match (measured, symbol) {
                (Some(n), "<") => return Ok(item(Assertion::Less(n))),
                (Some(n), ">") => return Ok(item(Assertion::More(n))),
                (Some(n), "<=") => return Ok(item(Assertion::AtMost(n.to_string()))),
                (Some(n), ">=") => return Ok(item(Assertion::AtLeast(n.to_string()))),
                (Some(n), _) => item(Assertion::Equal(n.to_string())),
                (None, "=" | "==" | "!=") => item(Assertion::Equal(value.to_owned())),
                // Times are texts with an order.
                (None, "<=") if of.syntax == Syntax::Time => {
                    return Ok(item(Assertion::AtMost(value.to_owned())));
                }
                (None, ">=") if of.syntax == Syntax::Time => {
                    return Ok(item(Assertion::AtLeast(value.to_owned())));
                }
                (None, _) => {
                    let attribute = spelled.to_owned();
                    let problem = ExprProblem::NoOrder { attribute };
                    return Err(ExprError {
                        column: at,
                        problem,
                    });
                }
            }
        };
        Ok(if symbol == "!=" {
            let differs = Filter::Not(Box::new(equal));
            Filter::And(vec![Filter::present(&attribute), differs])
        } else {
            equal
        })
    }
}

fn joined(mut parts: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            join(parts)
        }
    }
}

/// `*` stands for any text.
fn glob(value: &str) -> Assertion {
    let full = |part: &str| (!part.is_empty()).then(|| part.to_owned());
    let Some((initial, rest)) = value.split_once('*') else {
        // Without a star: anywhere in it.
        return match full(value) {
            None => Assertion::Present,
            any => Assertion::Substring {
                initial: None,
                any: any.into_iter().collect(),
                last: None,
            },
        };
    };
    let (any, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let (initial, last) = (full(initial), full(last));
    let any: Vec<String> = any.split('*').filter_map(full).collect();
    if initial.is_none() && any.is_empty() && last.is_none() {
        return Assertion::Present;
    }
    Assertion::Substring { initial, any, last }
}

/// What a value is compared with.
struct Of<'a> {
    spelled: &'a str,
    syntax: Syntax,
    unit: Unit,
    /// Short names count in base units, names of LDAP in their own.
    base_units: bool,
}

impl Of<'_> {
    /// The value in the attribute's own unit; None for a text.
    fn number(&self, value: &str, quoted: bool) -> Result<Option<f64>, ExprProblem> {
        if quoted || matches!(self.syntax, Syntax::Text | Syntax::Time) {
            return Ok(None);
        }
        let attribute = || self.spelled.to_owned();
        let digits = value
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
            .unwrap_or(value.len());
        let (digits, unit) = value.split_at_checked(digits).unwrap_or((value, ""));
        let Some(plain) = number(digits) else {
            return match self.syntax {
                Syntax::Number => Err(ExprProblem::NoNumber {
                    attribute: attribute(),
                    found: value.to_owned(),
                }),
                _ => Ok(None),
            };
        };
        let base = self.unit.base();
        if unit.is_empty() {
            let example = match base {
                "bytes" => "16GB",
                "hertz" => "2.4GHz",
                _ => "",
            };
            if self.base_units && !example.is_empty() && plain != 0.0 {
                return Err(ExprProblem::NoUnit {
                    attribute: attribute(),
                    base,
                    example,
                });
            }
            return Ok(Some(if self.base_units {
                plain / self.unit.scale()
            } else {
                plain
            }));
        }
        let Some((scale, counts)) = scale(unit) else {
            return match self.syntax {
                Syntax::Number => Err(ExprProblem::Unit(unit.to_owned())),
                _ => Ok(None), // a text that begins with digits
            };
        };
        if self.syntax == Syntax::Number && counts != base {
            return Err(ExprProblem::OtherUnit {
                attribute: attribute(),
                base: if base.is_empty() { "no unit" } else { base },
                unit: unit.to_owned(),
            });
        }
        Ok(Some(plain * scale / self.unit.scale()))
    }
}

fn scale(unit: &str) -> Option<(f64, &'static str)> {
    Some(match unit {
        "B" => (1.0, "bytes"),
        "kB" | "KB" => (1e3, "bytes"),
        "MB" => (1e6, "bytes"),
        "GB" => (1e9, "bytes"),
        "TB" => (1e12, "bytes"),
        "KiB" => (1024.0, "bytes"),
        "MiB" => (1_048_576.0, "bytes"),
        "GiB" => (1_073_741_824.0, "bytes"),
        "TiB" => (1_099_511_627_776.0, "bytes"),
        "Hz" => (1.0, "hertz"),
        "kHz" => (1e3, "hertz"),
        "MHz" => (1e6, "hertz"),
        "GHz" => (1e9, "hertz"),
        "ms" => (1e-3, "seconds"),
        "s" => (1.0, "seconds"),
        "min" => (60.0, "seconds"),
        "h" => (3600.0, "seconds"),
        "d" => (86400.0, "seconds"),
        "%" => (0.01, ""),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> String {
        parse(text).unwrap().filter.to_string()
    }

    #[test]
    fn expressions_become_filters() {
        for (text, expected) in [
            (
                "cpus >= 8 and mem_free > 16GiB and load < 0.5",
                "(&(Mds-Cpu-Total-count>=8)(&(Mds-Memory-Ram-Total-freeMB=*)(!(Mds-Memory-Ram-Total-freeMB<=16384)))\
                 (&(kumiko-load-1min=*)(!(kumiko-load-1min>=0.5))))",
            ),
            (
                "os = Linux or not (host ~ \"*.jp\")",
                "(|(Mds-Os-name=Linux)(!(Mds-Host-hn=*.jp)))",
            ),
            ("host ~ a*b*c", "(Mds-Host-hn=a*b*c)"),
            ("host ~ node", "(Mds-Host-hn=*node*)"),
            ("kernel = 6.1", "(Mds-Os-release=6.1)"),
            (
                "kernel != 6.1",
                "(&(Mds-Os-release=*)(!(Mds-Os-release=6.1)))",
            ),
            ("cpu_free >= 150%", "(Mds-Cpu-Total-Free-1minX100>=150)"),
            ("cpu_free >= 2", "(Mds-Cpu-Total-Free-1minX100>=200)"),
            (
                "Mds-Cpu-Total-Free-1minX100 >= 2",
                "(Mds-Cpu-Total-Free-1minX100>=2)",
            ),
            ("cpu_speed >= 2.5GHz", "(Mds-Cpu-speedMHz>=2500)"),
            ("gpu", "(kumiko-gpu=*)"),
            ("colour = red", "(colour=red)"),
            ("weight >= 3", "(weight>=3)"),
            ("rack = 12b", "(rack=12b)"),
            ("", "(&)"),
        ] {
            assert_eq!(filter(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_the_place() {
        for (text, column, words) in [
            ("cpus >=", 8, "a value"),
            ("cpus >= many", 9, "is a number"),
            ("mem_free > 16", 12, "say a unit"),
            ("mem_free > 16GHz", 12, "counts bytes"),
            ("mem_free > 16XB", 12, "is no unit"),
            ("cpus 8", 6, "\"and\", \"or\" or the end"),
            ("(cpus >= 8", 11, "\")\""),
            ("and", 4, ""),
            ("os < Linux", 6, "is a text"),
            ("os = \"Linux", 6, "not closed"),
            ("! os", 1, ""),
        ] {
            match parse(text) {
                Err(error) => {
                    assert_eq!(error.column, column, "{text}: {error}");
                    assert!(error.to_string().contains(words), "{text}: {error}");
                }
                // "and" alone is a name like any other.
                Ok(_) => assert_eq!(text, "and"),
            }
        }
        let deep = "(".repeat(200);
        assert_eq!(parse(&deep).unwrap_err().problem, ExprProblem::TooLarge);
    }

    #[test]
    fn terms_are_what_has_to_be_true_together() {
        let check = |text: &str, expected: &[&str]| {
            let expression = parse(text).unwrap();
            let terms: Vec<&str> = expression.terms.iter().map(|t| t.text.as_str()).collect();
            assert_eq!(terms, expected, "{text}");
            for term in &expression.terms {
                assert_eq!(parse(&term.text).unwrap().filter, term.filter, "{text}");
            }
        };
        check("", &[]);
        check(" cpus >= 8 ", &["cpus >= 8"]);
        check(
            "cpus>=8 and (os = Linux or os = \"A and B\") AND not load > 1",
            &[
                "cpus>=8",
                "(os = Linux or os = \"A and B\")",
                "not load > 1",
            ],
        );
        check(
            "cpus >= 8 and load < 1 or gpu",
            &["cpus >= 8 and load < 1 or gpu"],
        );
        check("(cpus >= 8 and load < 1)", &["(cpus >= 8 and load < 1)"]);
        check(
            "host = \u{e9}\u{e9} and gpu",
            &["host = \u{e9}\u{e9}", "gpu"],
        );
    }

    #[test]
    fn orders_are_read() {
        let ranks = parse_rank("cpu_free desc, Mds-Host-hn").unwrap();
        assert_eq!(ranks[0].attribute, "Mds-Cpu-Total-Free-1minX100");
        assert!(ranks[0].descending && !ranks[1].descending);
        for text in ["", "a b", "a desc c", ",a", "a,,b"] {
            assert!(parse_rank(text).is_err(), "{text:?}");
        }
    }
}
