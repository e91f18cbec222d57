//! Expressions (spec/idl I7): of sizes and of CalcOrder.

use crate::error::{IdlError, Problem, Wrong};
use crate::lex::Token;
use crate::parse::Parser;
use crate::syntax::{Binary, Expr};

/// Deepest nesting of parentheses, signs and choices: nothing real needs ten; each level costs stack.
pub const MAX_DEPTH: usize = 64;
/// Most parts of an expression, so that long sums, which nest to the left, bound the stack too.
pub const MAX_EXPRESSION_NODES: usize = 256;

/// Reads one expression, which is the whole text.
///
/// # Errors
/// As for a whole text.
pub fn parse_expr(text: &str) -> Result<Expr, IdlError> {
    let mut parser = Parser::new(text);
    let expression = parser
        .expression()
        .and_then(|expression| match parser.peek()?.is_some() {
            true => parser.unexpected("the end of the expression"),
            false => Ok(expression),
        });
    expression.map_err(|wrong| wrong.told(&parser.lexer.files))
}

impl Parser<'_> {
    /// One whole expression.
    pub fn expression(&mut self) -> Result<Expr, Wrong> {
        self.nodes = 0;
        self.choice()
    }

    pub fn deeper(&mut self) -> Result<(), Wrong> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(Problem::TooDeep.at(self.at()?)),
            false => Ok(()),
        }
    }

    fn count(&mut self) -> Result<(), Wrong> {
        self.nodes += 1;
        match self.nodes > MAX_EXPRESSION_NODES {
            true => Err(Problem::TooMuch.at(self.at()?)),
            false => Ok(()),
        }
    }

    fn choice(&mut self) -> Result<Expr, Wrong> {
        let condition = self.binary(1)?;
        if !self.take("?")? {
            return Ok(condition);
        }
        self.deeper()?;
        self.count()?;
        let then = self.choice()?;
        self.expect(":", "':' of the choice")?;
        let otherwise = self.choice()?;
        self.depth -= 1;
        Ok(Expr::Choose {
            condition: Box::new(condition),
            then: Box::new(then),
            otherwise: Box::new(otherwise),
        })
    }

    /// Signs that bind at least as tightly as `level`; they join to the left.
    fn binary(&mut self, level: u8) -> Result<Expr, Wrong> {
        const SIGNS: [Binary; 11] = [
            Binary::Add,
            Binary::Subtract,
            Binary::Multiply,
            Binary::Divide,
            Binary::Modulo,
            Binary::Equal,
            Binary::NotEqual,
            Binary::Less,
            Binary::LessOrEqual,
            Binary::Greater,
            Binary::GreaterOrEqual,
        ];
        let mut left = self.unary()?;
        loop {
            let found = match self.peek()? {
                Some(Token::Sign(sign)) => SIGNS.into_iter().find(|one| one.sign() == *sign),
                _ => None,
            };
            let Some(sign) = found.filter(|sign| sign.level() >= level) else {
                return Ok(left);
            };
            self.next()?;
            self.count()?;
            let right = self.binary(sign.level() + 1)?;
            left = Expr::Binary {
                sign,
                left: Box::new(left),
                right: Box::new(right),
            };
        }
    }

    fn unary(&mut self) -> Result<Expr, Wrong> {
        let at = self.at()?;
        if self.take("-")? {
            self.deeper()?;
            self.count()?;
            let of = Box::new(self.unary()?);
            self.depth -= 1;
            return Ok(Expr::Negate(of));
        }
        if self.take("*")? {
            self.deeper()?;
            self.count()?;
            let of = Box::new(self.unary()?);
            self.depth -= 1;
            return Ok(Expr::Deref { of, at });
        }
        self.power()
    }

    /// `^` binds tighter than a sign before it and joins to the right; an exponent may have a sign.
    fn power(&mut self) -> Result<Expr, Wrong> {
        let base = self.primary()?;
        if !self.take("^")? {
            return Ok(base);
        }
        self.deeper()?;
        self.count()?;
        let exponent = self.unary()?;
        self.depth -= 1;
        Ok(Expr::Binary {
            sign: Binary::Power,
            left: Box::new(base),
            right: Box::new(exponent),
        })
    }

    fn primary(&mut self) -> Result<Expr, Wrong> {
        self.count()?;
        let mut expression = if self.take("(")? {
            self.deeper()?;
            let inner = self.choice()?;
            self.depth -= 1;
            self.expect(")", "')'")?;
            inner
        } else {
            let number = match self.peek()? {
                Some(Token::Integer(value)) => Some(Expr::Integer(*value)),
                Some(Token::Real(value)) => Some(Expr::Real(*value)),
                _ => None,
            };
            match number {
                Some(number) => {
                    self.next()?;
                    number
                }
                None => Expr::Name(self.name("a number, a parameter or '('")?),
            }
        };
        while self.is("[")? {
            let at = self.at()?;
            self.next()?;
            self.deeper()?;
            self.count()?;
            let index = Box::new(self.choice()?);
            self.depth -= 1;
            self.expect("]", "']' after the index")?;
            expression = Expr::Index {
                of: Box::new(expression),
                index,
                at,
            };
        }
        Ok(expression)
    }
}
