//! From RSL text to tokens (spec/rsl R2 to R4): quoting, comments, signs, and where blanks make a difference.

use super::error::{RslError, RslProblem};
use super::syntax::{Combine, Compare, Place};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Text {
        text: String,
        /// An unquoted one joins variables that touch it (R5).
        quoted: bool,
    },
    Combine(Combine),
    Compare(Compare),
    Open,
    Close,
    Dollar,
    Hash,
}

impl Token {
    /// In words, for errors.
    pub fn name(&self) -> String {
        match self {
            Token::Text { text, .. } => format!("{text:?}"),
            Token::Combine(operator) => format!("'{}'", operator.sign()),
            Token::Compare(operator) => format!("'{}'", operator.sign()),
            Token::Open => "'('".to_owned(),
            Token::Close => "')'".to_owned(),
            Token::Dollar => "'$'".to_owned(),
            Token::Hash => "'#'".to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub token: Token,
    pub at: Place,
    /// Nothing stands between this and the token before.
    pub touches: bool,
}

/// Ends an unquoted text wherever it stands (R3).
const ENDS: &[char] = &['(', ')', '=', '<', '>', '!', '"', '\'', '^', '#', '$'];

struct Cursor<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    at: Place,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.next();
        }
        found
    }
}

/// The tokens of a text, and the place of its end.
pub(super) fn tokens(text: &str) -> Result<(Vec<Placed>, Place), RslError> {
    let mut cursor = Cursor {
        rest: text.chars().peekable(),
        at: Place { line: 1, column: 1 },
    };
    let mut tokens = Vec::new();
    let mut touches = false;
    loop {
        let at = cursor.at;
        let Some(c) = cursor.next() else {
            return Ok((tokens, at));
        };
        let token = match c {
            _ if c.is_ascii_whitespace() || c == '\x0b' => {
                touches = false;
                continue;
            }
            '(' if cursor.take('*') => {
                comment(&mut cursor, at)?;
                touches = false;
                continue;
            }
            '(' => Token::Open,
            ')' => Token::Close,
            '$' => Token::Dollar,
            '#' => Token::Hash,
            '&' => Token::Combine(Combine::And),
            '|' => Token::Combine(Combine::Or),
            '+' => Token::Combine(Combine::Multi),
            '=' => Token::Compare(Compare::Equal),
            '!' if cursor.take('=') => Token::Compare(Compare::NotEqual),
            '!' => return Err(RslProblem::Exclamation.at(at)),
            '>' if cursor.take('=') => Token::Compare(Compare::GreaterOrEqual),
            '>' => Token::Compare(Compare::Greater),
            '<' if cursor.take('=') => Token::Compare(Compare::LessOrEqual),
            '<' => Token::Compare(Compare::Less),
            '"' | '\'' => quoted(&mut cursor, c, at)?,
            '^' => match cursor.next() {
                Some(delimiter) => quoted(&mut cursor, delimiter, at)?,
                None => return Err(RslProblem::OpenQuote.at(at)),
            },
            '\0' => return Err(RslProblem::ZeroByte.at(at)),
            first => unquoted(&mut cursor, first),
        };
        tokens.push(Placed { token, at, touches });
        touches = true;
    }
}

/// After `(*`, to `*)`; comments hold no comments.
fn comment(cursor: &mut Cursor<'_>, began: Place) -> Result<(), RslError> {
    let mut star = false;
    loop {
        match cursor.next() {
            None => return Err(RslProblem::OpenComment.at(began)),
            Some(')') if star => return Ok(()),
            Some(c) => star = c == '*',
        }
    }
}

/// After the opening delimiter, to the closing one; a doubled delimiter stands for itself.
fn quoted(cursor: &mut Cursor<'_>, delimiter: char, began: Place) -> Result<Token, RslError> {
    let mut text = String::new();
    loop {
        let at = cursor.at;
        match cursor.next() {
            None => return Err(RslProblem::OpenQuote.at(began)),
            Some('\0') => return Err(RslProblem::ZeroByte.at(at)),
            Some(c) if c != delimiter => text.push(c),
            Some(c) if cursor.take(delimiter) => text.push(c),
            Some(_) => return Ok(Token::Text { text, quoted: true }),
        }
    }
}

fn unquoted(cursor: &mut Cursor<'_>, first: char) -> Token {
    let mut text = String::from(first);
    while let Some(c) = cursor.peek() {
        if c.is_ascii_whitespace() || c == '\x0b' || c == '\0' || ENDS.contains(&c) {
            break;
        }
        text.push(c);
        cursor.next();
    }
    Token::Text {
        text,
        quoted: false,
    }
}
