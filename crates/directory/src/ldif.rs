//! What external providers print (spec/info, P4 and P5): LDIF content records (RFC 2849), or JSON. And LDIF for people.
//! Not here: the running of providers.

use crate::dn::{Dn, DnError};
use crate::entry::{Entry, Stamp};
use serde_json::Value;
use std::fmt::Write;

/// What one run of a provider may print.
pub const OUTPUT_MOST_BYTES: usize = 4 << 20;

/// Why an output cannot be used; the provider is at fault.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LdifError {
    /// From 1; 0 for JSON, whose own message has the place.
    pub line: usize,
    pub problem: LdifProblem,
}

#[derive(Debug, thiserror::Error)]
pub enum LdifProblem {
    #[error("the output is longer than {OUTPUT_MOST_BYTES} bytes")]
    TooLong,
    #[error("this is neither LDIF nor JSON: a line is \"name: value\"")]
    Line,
    #[error("an entry begins with \"dn:\"")]
    NoName,
    #[error(transparent)]
    Name(#[from] DnError),
    #[error("the value after \"::\" is not base64 of UTF-8")]
    Base64,
    #[error("values by reference (\":<\") are not taken")]
    Reference,
    #[error("only content is taken, not changes")]
    Change,
    #[error("this is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "in JSON an entry is {{\"dn\": ..., \"attributes\": {{name: value or [values]}}}}, values texts, numbers or truth values"
    )]
    Shape,
}

/// Reads entries, names as given.
///
/// # Errors
/// `LdifError`; then nothing of the output is used.
pub fn parse(text: &str) -> Result<Vec<Entry>, LdifError> {
    if text.len() > OUTPUT_MOST_BYTES {
        let problem = LdifProblem::TooLong;
        return Err(LdifError { line: 0, problem });
    }
    match text.trim_start().bytes().next() {
        Some(b'{' | b'[') => json(text).map_err(|problem| LdifError { line: 0, problem }),
        _ => ldif(text),
    }
}

fn ldif(text: &str) -> Result<Vec<Entry>, LdifError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut open = false;
    for (line, logical) in unfolded(text) {
        let wrong = |problem| LdifError { line, problem };
        if logical.is_empty() {
            open = false;
            continue;
        }
        let (name, rest) = logical
            .split_once(':')
            .ok_or_else(|| wrong(LdifProblem::Line))?;
        let value = if let Some(encoded) = rest.strip_prefix(':') {
            base64(encoded.trim()).ok_or_else(|| wrong(LdifProblem::Base64))?
        } else if rest.starts_with('<') {
            return Err(wrong(LdifProblem::Reference));
        } else {
            rest.trim_start().to_owned()
        };
        let name = name.trim();
        match name.to_ascii_lowercase().as_str() {
            "version" if entries.is_empty() && !open => {}
            "changetype" => return Err(wrong(LdifProblem::Change)),
            "dn" if !open => {
                let dn = Dn::parse(&value).map_err(|e| wrong(e.into()))?;
                entries.push(Entry::new(dn));
                open = true;
            }
            _ => match entries.last_mut().filter(|_| open) {
                Some(entry) => entry.add(name, [value]),
                None => return Err(wrong(LdifProblem::NoName)),
            },
        }
    }
    Ok(entries)
}

/// Lines with their continuations, without comments; numbered from 1.
fn unfolded(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut comment = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(more) = line.strip_prefix(' ') {
            if let Some((_, last)) = lines.last_mut().filter(|_| !comment) {
                last.push_str(more);
            }
            continue;
        }
        comment = line.starts_with('#');
        if !comment {
            lines.push((index + 1, line.to_owned()));
        }
    }
    lines
}

fn json(text: &str) -> Result<Vec<Entry>, LdifProblem> {
    let mut entries = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match document? {
            Value::Array(list) => {
                for value in &list {
                    entries.push(json_entry(value)?);
                }
            }
            value => entries.push(json_entry(&value)?),
        }
    }
    Ok(entries)
}

fn json_entry(value: &Value) -> Result<Entry, LdifProblem> {
    let field = |name: &str| value.get(name).ok_or(LdifProblem::Shape);
    let dn = field("dn")?.as_str().ok_or(LdifProblem::Shape)?;
    let mut entry = Entry::new(Dn::parse(dn)?);
    let attributes = field("attributes")?.as_object().ok_or(LdifProblem::Shape)?;
    for (name, values) in attributes {
        match values {
            Value::Array(list) => {
                let texts: Result<Vec<String>, LdifProblem> = list.iter().map(plain).collect();
                entry.add(name, texts?);
            }
            one => entry.add(name, [plain(one)?]),
        }
    }
    Ok(entry)
}

fn plain(value: &Value) -> Result<String, LdifProblem> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(if *truth { "TRUE" } else { "FALSE" }.to_owned()),
        _ => Err(LdifProblem::Shape),
    }
}

fn base64(text: &str) -> Option<String> {
    let text = text.trim_end_matches('=');
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    String::from_utf8(bytes).ok()
}

/// An entry as LDIF. Values that LDIF must encode are shown as they are, with control characters escaped: this is for
/// eyes, not for programs.
pub fn show(entry: &Entry) -> String {
    let mut out = format!("dn: {}\n", entry.dn);
    for attribute in &entry.attributes {
        for value in &attribute.values {
            let value: String = value
                .chars()
                .flat_map(|c| {
                    let control = c.is_control();
                    let escaped = control.then(|| c.escape_default());
                    escaped.into_iter().flatten().chain((!control).then_some(c))
                })
                .collect();
            // Writing to a String does not fail.
            let _ = writeln!(out, "{}: {value}", attribute.name);
        }
    }
    out
}

/// When the values of a provider's entry hold, as MDS providers say it themselves: `Mds-validfrom` and `Mds-validto`
/// become stamps and are no attributes any more.
pub fn stamp(
    mut entry: Entry,
    now_ms: u64,
    holds_ms: u32,
    parse: impl Fn(&str) -> Option<u64>,
) -> Entry {
    let time = |entry: &Entry, name: &str| {
        let value = entry.get(name)?.values.first()?.clone();
        parse(&value)
    };
    let from = time(&entry, "Mds-validfrom").unwrap_or(now_ms).min(now_ms);
    let until = time(&entry, "Mds-validto").filter(|until| *until > from);
    let holds_ms = until.map_or(holds_ms, |u| u32::try_from(u - from).unwrap_or(u32::MAX));
    let own = ["Mds-validfrom", "Mds-validto", "Mds-keepto"];
    entry
        .attributes
        .retain(|a| !own.iter().any(|name| a.name.eq_ignore_ascii_case(name)));
    entry.stamped(Stamp {
        measured_ms: from,
        holds_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldif_is_read_as_mds_providers_print_it() {
        let entries = parse(
            "# a comment\n continued\nversion: 1\ndn: Mds-Host-hn=a, o=grid\nobjectclass: MdsHost\nMds-Cpu-features: fpu\n  vme\nnote:: w6R4\n\n\ndn: o=x\r\no: x\r\n",
        )
        .unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0].get("mds-cpu-features").unwrap().values,
            ["fpu vme"]
        );
        assert_eq!(entries[0].get("note").unwrap().values, ["äx"]);
        assert_eq!(entries[1].dn.to_string(), "o=x");
    }

    #[test]
    fn json_is_read_in_one_document_or_several() {
        let one = r#"{"dn":"o=a","attributes":{"x":1.5,"y":["a",true]}}"#;
        for text in [one.to_owned(), format!("[{one}]"), format!("{one}\n{one}")] {
            let entries = parse(&text).unwrap();
            assert_eq!(entries[0].get("x").unwrap().values, ["1.5"]);
            assert_eq!(entries[0].get("y").unwrap().values, ["a", "TRUE"]);
        }
    }

    #[test]
    fn garbage_is_refused_with_its_line() {
        for (text, line) in [
            ("dn: o=a\nbroken\n", 2),
            ("x: y\n", 1),
            ("dn: nonsense\n", 1),
            ("dn: o=a\nx:: ***\n", 2),
            ("dn: o=a\nx:< file:///etc/passwd\n", 2),
            ("dn: o=a\nchangetype: delete\n", 2),
            ("{\"dn\": 3}", 0),
            ("[1", 0),
            ("{\"dn\":\"o=a\",\"attributes\":{\"x\":{}}}", 0),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
