//! Bodies (spec/gram G20, G21): lines of `name: value`, or of one quoted command.

use std::borrow::Cow;

/// Most lines of a body; those of GT have below ten.
pub const MAX_FIELDS: usize = 64;

/// Why a body cannot be read: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("line {line}: the quotation does not end")]
    OpenQuote { line: usize },
    #[error("line {line}: something follows the quotation")]
    AfterQuote { line: usize },
    #[error("line {line}: is neither \"name: value\" nor a command in quotes")]
    NoField { line: usize },
    #[error("more than {MAX_FIELDS} lines")]
    TooMany,
}

/// One line: a field, or (without a name) a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub name: Option<String>,
    pub value: String,
}

/// What a body says, in order.
pub(super) fn read(body: &str) -> Result<Vec<Field>, BodyError> {
    let mut fields = Vec::new();
    let mut rest = body;
    let mut line = 1;
    while !rest.is_empty() {
        if fields.len() == MAX_FIELDS {
            return Err(BodyError::TooMany);
        }
        let (name, value) = if rest.starts_with('"') {
            (None, rest)
        } else {
            let stop = rest.find([':', '\r', '\n']);
            let parted = stop.and_then(|at| rest.split_at_checked(at));
            let Some((name, value)) =
                parted.and_then(|(name, value)| Some((name, value.strip_prefix(':')?)))
            else {
                return Err(BodyError::NoField { line });
            };
            (
                Some(name.to_owned()),
                value.strip_prefix(' ').unwrap_or(value),
            )
        };
        let taken;
        (taken, rest) = if value.starts_with('"') {
            quoted(value, line)?
        } else {
            let (value, rest) = value.split_once('\n').unwrap_or((value, ""));
            (value.strip_suffix('\r').unwrap_or(value).to_owned(), rest)
        };
        line += 1 + taken.matches('\n').count();
        fields.push(Field { name, value: taken });
    }
    Ok(fields)
}

/// A value in quotes, in which `\` guards the character after it; and what follows its line.
fn quoted(text: &str, line: usize) -> Result<(String, &str), BodyError> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, guarded)) => value.push(guarded),
                None => break,
            },
            '"' => {
                let rest = text.get(at + 1..).unwrap_or_default();
                let rest = rest.strip_prefix('\r').unwrap_or(rest);
                return match rest.strip_prefix('\n') {
                    Some(rest) => Ok((value, rest)),
                    None if rest.is_empty() => Ok((value, rest)),
                    None => Err(BodyError::AfterQuote { line }),
                };
            }
            other => value.push(other),
        }
    }
    Err(BodyError::OpenQuote { line })
}

/// A value as it is read again: the toolkit writes URLs without quotes, which hold no line's end and begin with no quote.
pub(super) fn plain(value: &str) -> Cow<'_, str> {
    match value.is_empty() || value.starts_with([' ', '"']) || value.contains(['\r', '\n']) {
        true => Cow::Owned(quote(value)),
        false => Cow::Borrowed(value),
    }
}

/// A value in quotes.
pub(super) fn quote(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}
