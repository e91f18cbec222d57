//! From tokens to the tree (spec/rsl R1, R5): a parser of one function a rule.

use super::error::{RslError, RslProblem};
use super::lex::{Placed, Token, tokens};
use super::syntax::{Place, Relation, Spec, Value};

/// Most bytes of a text: a gatekeeper of the Globus Toolkit takes bodies of 64,000 bytes.
pub const MAX_RSL_BYTES: usize = 64_000;
/// Deepest nesting of parentheses: nothing real needs ten; each level costs stack.
pub const MAX_DEPTH: usize = 64;

/// Reads a text.
///
/// # Errors
/// What stands where it does not belong, by line and column.
pub fn parse(text: &str) -> Result<Spec, RslError> {
    if text.len() > MAX_RSL_BYTES {
        return Err(RslProblem::TooLong { bytes: text.len() }.at(Place::default()));
    }
    let (tokens, end) = tokens(text)?;
    if tokens.is_empty() {
        return Err(RslProblem::Nothing.at(end));
    }
    let mut parser = Parser {
        tokens: &tokens,
        end,
        depth: 0,
        last: Last::Quoted,
    };
    let spec = parser.spec()?;
    match parser.tokens.first() {
        None => Ok(spec),
        Some(more) => Err(RslProblem::More {
            found: more.token.name(),
        }
        .at(more.at)),
    }
}

struct Parser<'a> {
    tokens: &'a [Placed],
    end: Place,
    depth: usize,
    last: Last,
}

/// What the simple value was that was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Quoted,
    Unquoted,
    Variable,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.first().map(|placed| &placed.token)
    }

    fn at(&self) -> Place {
        self.tokens.first().map_or(self.end, |placed| placed.at)
    }

    fn next(&mut self) -> Option<&'a Placed> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn unexpected(&self, expected: &'static str) -> RslError {
        let problem = match self.peek() {
            Some(token) => RslProblem::Unexpected {
                found: token.name(),
                expected,
            },
            None => RslProblem::Ends { expected },
        };
        problem.at(self.at())
    }

    fn open(&mut self, expected: &'static str) -> Result<Place, RslError> {
        let at = self.at();
        if self.peek() != Some(&Token::Open) {
            return Err(self.unexpected(expected));
        }
        self.next();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(RslProblem::TooDeep.at(at));
        }
        Ok(at)
    }

    fn close(&mut self, expected: &'static str) -> Result<(), RslError> {
        if self.peek() != Some(&Token::Close) {
            return Err(self.unexpected(expected));
        }
        self.next();
        self.depth -= 1;
        Ok(())
    }

    fn spec(&mut self) -> Result<Spec, RslError> {
        let Some(Token::Combine(operator)) = self.peek() else {
            return self.relation().map(Spec::Relation);
        };
        self.next();
        let mut parts = Vec::new();
        while parts.is_empty() || self.peek() == Some(&Token::Open) {
            self.open("'(' after the operator")?;
            parts.push(self.spec()?);
            self.close("')' at the end of a part")?;
        }
        Ok(Spec::Combined {
            operator: *operator,
            parts,
        })
    }

    fn relation(&mut self) -> Result<Relation, RslError> {
        let at = self.at();
        let Some(Token::Text { text, .. }) = self.peek() else {
            return Err(self.unexpected("the name of an attribute, or one of & | +"));
        };
        self.next();
        let Some(Token::Compare(operator)) = self.peek() else {
            return Err(self.unexpected("one of = != > >= < <= after the name"));
        };
        self.next();
        Ok(Relation {
            attribute: text.clone(),
            operator: *operator,
            values: self.values()?,
            at,
        })
    }

    /// One or more, to the `)` that is not theirs or the end.
    fn values(&mut self) -> Result<Vec<Value>, RslError> {
        let mut values = vec![self.value()?];
        while !matches!(self.peek(), None | Some(Token::Close)) {
            values.push(self.value()?);
        }
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, RslError> {
        if self.peek() == Some(&Token::Open) {
            let at = self.open("'('")?;
            let values = self.values()?;
            self.close("')' at the end of a list")?;
            return Ok(Value::Sequence { values, at });
        }
        let mut parts = vec![self.simple()?];
        while self.joined() {
            parts.push(self.simple()?);
        }
        if parts.len() > 1 {
            return Ok(Value::Concatenation(parts));
        }
        // There is one: it was pushed above.
        parts.pop().ok_or_else(|| self.unexpected("a value"))
    }

    /// `#` follows (and is taken), or a variable and an unquoted text, or two variables, touch each other (R5).
    fn joined(&mut self) -> bool {
        let Some(next) = self.tokens.first() else {
            return false;
        };
        match &next.token {
            Token::Hash => {
                self.next();
                true
            }
            Token::Dollar => next.touches && self.last != Last::Quoted,
            Token::Text { quoted: false, .. } => next.touches && self.last == Last::Variable,
            _ => false,
        }
    }

    fn simple(&mut self) -> Result<Value, RslError> {
        let at = self.at();
        match self.peek() {
            Some(Token::Text { text, quoted }) => {
                self.next();
                self.last = if *quoted {
                    Last::Quoted
                } else {
                    Last::Unquoted
                };
                Ok(Value::Literal {
                    text: text.clone(),
                    at,
                })
            }
            Some(Token::Dollar) => {
                self.next();
                self.variable(at)
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    fn variable(&mut self, at: Place) -> Result<Value, RslError> {
        self.open("'(' after '$'")?;
        let Some(Token::Text { text, .. }) = self.peek() else {
            return Err(self.unexpected("the name of a variable"));
        };
        self.next();
        let default = match self.peek() {
            Some(Token::Close) | None => None,
            Some(_) => Some(Box::new(self.value()?)),
        };
        self.close("')' after a variable's name and default")?;
        self.last = Last::Variable;
        Ok(Value::Variable {
            name: text.clone(),
            default,
            at,
        })
    }
}
