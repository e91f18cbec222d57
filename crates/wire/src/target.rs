//! The path and query of a REST request (spec/rest, R2): percent-decoded, split, strict.
//!
//! Not here: what is at a path.

/// A decoded path, and the query's pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub parts: Vec<String>,
    pub query: Vec<(String, String)>,
}

/// Why a path is refused; always the client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(
        "{text:?} has a % that is not followed by two hexadecimal digits, or does not make UTF-8"
    )]
    Encoding { text: String },
    #[error("a part of the path is {part:?}")]
    Part { part: String },
}

impl Target {
    /// Slashes at the end say nothing.
    ///
    /// # Errors
    /// A wrong percent-encoding; a part that is empty, `.`, `..`, or holds a slash or a zero byte.
    pub fn parse(path: &str, query: Option<&str>) -> Result<Target, TargetError> {
        let mut parts = Vec::new();
        for raw in path.trim_matches('/').split('/') {
            let part = decode(raw, false)?;
            if part == "."
                || part == ".."
                || part.contains(['/', '\0'])
                || (part.is_empty() && path != "/")
            {
                return Err(TargetError::Part { part });
            }
            parts.push(part);
        }
        let mut pairs = Vec::new();
        for pair in query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name, true)?, decode(value, true)?));
        }
        Ok(Target {
            parts,
            query: pairs,
        })
    }

    /// The first value of a name.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

fn decode(text: &str, plus_is_blank: bool) -> Result<String, TargetError> {
    let wrong = || TargetError::Encoding {
        text: text.to_owned(),
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || {
                    bytes
                        .next()
                        .and_then(|b| char::from(b).to_digit(16))
                        .ok_or_else(wrong)
                };
                let value = digit()? * 16 + digit()?;
                out.push(u8::try_from(value).map_err(|_| wrong())?);
            }
            b'+' if plus_is_blank => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_and_cannot_climb() {
        for (path, parts) in [
            ("/v1/jobs/", vec!["v1", "jobs"]),
            (
                "/v1/jobs/7/files/a%20b/%C3%A9",
                vec!["v1", "jobs", "7", "files", "a b", "é"],
            ),
            ("/a+b", vec!["a+b"]),
            ("/", vec![""]),
        ] {
            assert_eq!(Target::parse(path, None).unwrap().parts, parts, "{path}");
        }
        for path in [
            "/a/../b",
            "/a/%2e%2E/b",
            "/a/%2f/b",
            "/a//b",
            "/a/%",
            "/a/%zz",
            "/a/%ff",
            "/a/%00",
        ] {
            assert!(Target::parse(path, None).is_err(), "{path} was taken");
        }
    }

    #[test]
    fn queries_are_pairs() {
        let target = Target::parse("/x", Some("from=12&&q=a+b%26c&flag")).unwrap();
        assert_eq!(target.first("from"), Some("12"));
        assert_eq!(target.first("q"), Some("a b&c"));
        assert_eq!(target.first("flag"), Some(""));
        assert_eq!(target.first("none"), None);
    }
}
