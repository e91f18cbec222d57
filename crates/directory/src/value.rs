//! Values as they are compared (spec/info, N3 and N4): text without regard to case and blanks, numbers as numbers.
//! Not here: how values are kept in columns (`column`), or their spelling (`store` keeps that).

use crate::schema::Syntax;
use std::borrow::Cow;

/// The longest value: a list of CPU features or a certificate subject is a fraction of it.
pub const VALUE_MOST_BYTES: usize = 4096;
/// The longest name of an attribute; those of MDS and GLUE have up to 60.
pub const NAME_MOST_BYTES: usize = 128;

/// A value in the form in which it is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    Number(f64),
    /// In the form of [`normal`].
    Text(String),
}

/// Lower case, no blanks at the ends, one blank where there were several.
pub fn normal(text: &str) -> Cow<'_, str> {
    let plain = text
        .bytes()
        .all(|b| b.is_ascii() && !b.is_ascii_uppercase() && (b != b' ' && !b.is_ascii_control()));
    if plain {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
    Cow::Owned(out)
}

/// How a value of an attribute of this syntax is compared.
pub fn datum(syntax: Syntax, text: &str) -> Datum {
    let number = match syntax {
        Syntax::Text | Syntax::Time => None,
        Syntax::Number => number(text),
        Syntax::Undeclared => number(text).filter(|n| is_canonical(text, *n)),
    };
    match number {
        Some(number) => Datum::Number(number),
        None => Datum::Text(normal(text).into_owned()),
    }
}

/// A decimal number, with or without a fraction or an exponent.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let begins = text.bytes().next()?;
    if !(begins.is_ascii_digit() || matches!(begins, b'-' | b'+' | b'.')) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // Minus nought would be another bit pattern of the same number.
    number.is_finite().then_some(number + 0.0)
}

/// Only what would be printed the same is taken for a number where nobody declared it: "2.10" and "007" are texts.
fn is_canonical(text: &str, number: f64) -> bool {
    number.abs() < 1e15 && number.to_string() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compared_without_case_and_extra_blanks() {
        for (text, expected) in [
            ("abc", "abc"),
            ("  A  b\tC ", "a b c"),
            ("", ""),
            ("   ", ""),
            ("GÖTTINGEN", "göttingen"),
        ] {
            assert_eq!(normal(text), expected, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_numbers_where_declared_and_otherwise_where_they_look_like_one() {
        use Syntax::{Number, Text, Undeclared};
        let text = |t: &str| Datum::Text(t.to_owned());
        for (syntax, value, expected) in [
            (Number, "8", Datum::Number(8.0)),
            (Number, " 08.50 ", Datum::Number(8.5)),
            (Number, "-0", Datum::Number(0.0)),
            (Number, "inf", text("inf")),
            (Number, "1e999", text("1e999")),
            (Number, "NaN", text("nan")),
            (Text, "8", text("8")),
            (Undeclared, "8", Datum::Number(8.0)),
            (Undeclared, "-2.5", Datum::Number(-2.5)),
            (Undeclared, "2.10", text("2.10")),
            (Undeclared, "007", text("007")),
            (Undeclared, "9007199254740993", text("9007199254740993")),
        ] {
            assert_eq!(datum(syntax, value), expected, "{syntax:?} {value:?}");
        }
    }
}
