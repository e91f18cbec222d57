//! From IDL text to tokens (spec/idl I1 to I3): words, numbers, quotations, comments, line markers, and C in braces.

use crate::error::{Problem, Wrong};
use crate::parse::MAX_NAME_BYTES;
use crate::syntax::{Files, Place};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    Integer(i64),
    Real(f64),
    Text(String),
    /// One of `( ) { } [ ] , ; : ? * / % + - ^ == != < <= > >=`.
    Sign(&'static str),
}

impl Token {
    /// In words, for errors.
    pub fn name(&self) -> String {
        match self {
            Token::Word(word) => word.clone(),
            Token::Integer(value) => value.to_string(),
            Token::Real(value) => format!("{value:?}"),
            Token::Text(text) => format!("{text:?}"),
            Token::Sign(sign) => format!("'{sign}'"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub token: Token,
    pub at: Place,
}

const SIGNS: [&str; 22] = [
    "==", "!=", "<=", ">=", "<", ">", "(", ")", "{", "}", "[", "]", ",", ";", ":", "?", "*", "/",
    "%", "+", "-", "^",
];

/// Reads tokens one by one, for whether braces hold C is the parser's to know.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    /// Byte offset; always at a character's beginning.
    offset: usize,
    at: Place,
    /// Nothing but blanks stands before in this line.
    fresh: bool,
    pub files: Files,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            text,
            offset: 0,
            at: Place {
                file: 0,
                line: 1,
                column: 1,
            },
            fresh: true,
            files: Files::default(),
        }
    }

    pub fn at(&self) -> Place {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.offset += c.len_utf8();
        if c == '\n' {
            self.at.line = self.at.line.saturating_add(1);
            self.at.column = 1;
            self.fresh = true;
        } else {
            self.at.column += 1;
            self.fresh &= c.is_ascii_whitespace();
        }
        Some(c)
    }

    fn skip(&mut self, characters: usize) {
        for _ in 0..characters {
            self.next();
        }
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let begin = self.offset;
        while self.peek().is_some_and(&accepts) {
            self.next();
        }
        self.text.get(begin..self.offset).unwrap_or("")
    }

    /// The next token; None at the end.
    pub fn token(&mut self) -> Result<Option<Placed>, Wrong> {
        loop {
            let at = self.at;
            let Some(c) = self.peek() else {
                return Ok(None);
            };
            let rest = self.rest();
            let token = match c {
                _ if c.is_ascii_whitespace() || c == '\x0b' || c == '\x08' => {
                    self.next();
                    continue;
                }
                '\0' => return Err(Problem::ZeroByte.at(at)),
                '#' if self.fresh => {
                    self.marker()?;
                    continue;
                }
                _ if rest.starts_with("/*") || rest.starts_with("//") => {
                    self.comment()?;
                    continue;
                }
                '"' | '\'' => Token::Text(self.quoted(c)?),
                '0'..='9' => self.number()?,
                '.' if rest.chars().nth(1).is_some_and(|d| d.is_ascii_digit()) => self.number()?,
                _ if begins_word(c) => {
                    let word = self.take_while(|c| begins_word(c) || c.is_ascii_digit());
                    if word.len() > MAX_NAME_BYTES {
                        return Err(Problem::LongName.at(at));
                    }
                    Token::Word(word.to_owned())
                }
                _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                    Some(sign) => {
                        self.skip(sign.len());
                        Token::Sign(sign)
                    }
                    None => return Err(Problem::Character { found: c }.at(at)),
                },
            };
            return Ok(Some(Placed { token, at }));
        }
    }

    /// `# 12 "file" ...`, as the preprocessor writes it, or `#line 12 "file"`: the line after it is the 12th of the file.
    fn marker(&mut self) -> Result<(), Wrong> {
        let at = self.at;
        self.next();
        let line = self.take_while(|c| c != '\n');
        self.next();
        let line = line.trim();
        let line = line.strip_prefix("line ").unwrap_or(line).trim_start();
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, file) = line.split_at(digits);
        let Ok(number) = number.parse::<u32>() else {
            // `#pragma` is what preprocessors leave alone; it says nothing to us.
            return match line.starts_with("pragma") || line.is_empty() {
                true => Ok(()),
                false => Err(Problem::Directive.at(at)),
            };
        };
        self.at.line = number;
        self.at.column = 1;
        let mut quoted = file.trim_start().split('"');
        if let (Some(""), Some(file)) = (quoted.next(), quoted.next()) {
            let known = self.files.0.iter().position(|known| known == file);
            let index = known.unwrap_or(self.files.0.len());
            // Files beyond the 65,535th are told as the text itself.
            if let Ok(file_number) = u16::try_from(index + 1) {
                if known.is_none() {
                    self.files.0.push(file.to_owned());
                }
                self.at.file = file_number;
            } else {
                self.at.file = 0;
            }
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<(), Wrong> {
        let at = self.at;
        if self.rest().starts_with("//") {
            self.take_while(|c| c != '\n');
            return Ok(());
        }
        let Some(length) = self.rest().get(2..).and_then(|rest| rest.find("*/")) else {
            return Err(Problem::OpenComment.at(at));
        };
        let end = self.offset + length + 4;
        while self.offset < end {
            self.next();
        }
        Ok(())
    }

    /// After the opening mark, to the closing one, with C's escapes. Line ends may stand inside.
    fn quoted(&mut self, mark: char) -> Result<String, Wrong> {
        let began = self.at;
        self.next();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.next() {
                None => return Err(Problem::OpenQuote.at(began)),
                Some('\0') => return Err(Problem::ZeroByte.at(at)),
                Some(c) if c == mark => return Ok(text),
                Some('\\') => text.extend(self.escape(at, began)?),
                Some(c) => text.push(c),
            }
        }
    }

    /// After a backslash; None for a line that goes on.
    fn escape(&mut self, at: Place, began: Place) -> Result<Option<char>, Wrong> {
        let c = self.next().ok_or(Problem::OpenQuote.at(began))?;
        Ok(Some(match c {
            '\n' => return Ok(None),
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            'a' => '\x07',
            '\\' | '"' | '\'' | '?' => c,
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    code = code * 8 + digit;
                    self.next();
                }
                ascii(code, at)?
            }
            'x' => {
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16);
                ascii(code.map_err(|_| Problem::EscapeCode.at(at))?, at)?
            }
            found => return Err(Problem::Escape { found }.at(at)),
        }))
    }

    fn number(&mut self) -> Result<Token, Wrong> {
        let at = self.at;
        let begin = self.offset;
        let too_big = |text: &str| {
            Problem::Number {
                text: text.to_owned(),
            }
            .at(at)
        };
        let mut real = false;
        let (digits, radix) = if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.skip(2);
            (self.take_while(|c| c.is_ascii_hexdigit()), 16)
        } else {
            let whole = self.take_while(|c| c.is_ascii_digit());
            if self.peek() == Some('.') {
                real = true;
                self.next();
                self.take_while(|c| c.is_ascii_digit());
            }
            if matches!(self.peek(), Some('e' | 'E')) {
                real = true;
                self.next();
                if matches!(self.peek(), Some('+' | '-')) {
                    self.next();
                }
                self.take_while(|c| c.is_ascii_digit());
            }
            let octal = whole.len() > 1 && whole.starts_with('0');
            (whole, if octal { 8 } else { 10 })
        };
        let text = self.text.get(begin..self.offset).unwrap_or("");
        let bad_end = |more: &str| {
            Problem::NumberEnd {
                text: format!("{text}{more}"),
            }
            .at(at)
        };
        if real {
            let value: f64 = text.parse().map_err(|_| bad_end(""))?;
            if !value.is_finite() {
                return Err(too_big(text));
            }
            self.number_ends(&bad_end)?;
            return Ok(Token::Real(value));
        }
        if digits.is_empty() || (radix == 8 && digits.contains(['8', '9'])) {
            return Err(bad_end(""));
        }
        let value = i64::from_str_radix(digits, radix).map_err(|_| too_big(text))?;
        if self.peek() == Some('L') {
            self.next();
        }
        self.number_ends(&bad_end)?;
        Ok(Token::Integer(value))
    }

    fn number_ends(&mut self, bad_end: &dyn Fn(&str) -> Wrong) -> Result<(), Wrong> {
        let more = self.take_while(|c| begins_word(c) || c.is_ascii_digit() || c == '.');
        match more.is_empty() {
            true => Ok(()),
            false => Err(bad_end(more)),
        }
    }

    /// C after an opening brace, to the brace that closes it, which is taken too. Quotes and comments hide braces.
    pub fn code(&mut self, began: Place) -> Result<String, Wrong> {
        let begin = self.offset;
        let mut depth = 1usize;
        loop {
            let end = self.offset;
            let at = self.at;
            let rest = self.rest();
            let Some(c) = self.peek() else {
                return Err(Problem::OpenBrace.at(began));
            };
            match c {
                '\0' => return Err(Problem::ZeroByte.at(at)),
                '#' if self.fresh => {
                    // The preprocessor's lines are C's own here; only markers say where we are.
                    match self.marker() {
                        Err(Wrong {
                            problem: Problem::Directive,
                            ..
                        })
                        | Ok(()) => {}
                        Err(wrong) => return Err(wrong),
                    }
                }
                _ if rest.starts_with("/*") || rest.starts_with("//") => self.comment()?,
                '"' | '\'' => self.c_quoted(c)?,
                '{' => {
                    depth += 1;
                    self.next();
                }
                '}' => {
                    depth -= 1;
                    self.next();
                    if depth == 0 {
                        let text = self.text.get(begin..end).unwrap_or("");
                        return Ok(text.to_owned());
                    }
                }
                _ => {
                    self.next();
                }
            }
        }
    }

    /// A quotation of C, which ends in its line unless a backslash carries it on.
    fn c_quoted(&mut self, mark: char) -> Result<(), Wrong> {
        let began = self.at;
        self.next();
        loop {
            match self.next() {
                None | Some('\n') => return Err(Problem::OpenQuote.at(began)),
                Some('\\') => {
                    self.next();
                }
                Some(c) if c == mark => return Ok(()),
                Some(_) => {}
            }
        }
    }
}

fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

fn ascii(code: u32, at: Place) -> Result<char, Wrong> {
    match u8::try_from(code) {
        Ok(byte) if byte.is_ascii() && byte != 0 => Ok(char::from(byte)),
        _ => Err(Problem::EscapeCode.at(at)),
    }
}
