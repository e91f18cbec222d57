//! Signing policies: which names a CA may sign, in the old EACL syntax (spec/identity, clauses S1 to S4).
//!
//! One file a CA, `<hash>.signing_policy`. Only the right `CA:sign` is known; conditions are globs over the one-line name.

use crate::dn::{self, Dn};

/// Longest file that is read: the longest of the grid's CAs has 3 kB.
pub const MAX_BYTES: usize = 256 * 1024;

/// What was wrong, and where (both from 1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct SigningPolicyError {
    pub line: usize,
    pub column: usize,
    pub problem: SigningPolicyProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningPolicyProblem {
    #[error("a quoted text does not end")]
    Unterminated,
    #[error("{keyword} takes {takes} words after it, there are {found}")]
    Words {
        keyword: &'static str,
        takes: usize,
        found: usize,
    },
    #[error("unknown word {0:?}; expected access_id_CA, pos_rights, neg_rights or cond_subjects")]
    Keyword(String),
    #[error("{0} stands before any access_id_CA")]
    NoEntry(&'static str),
    #[error("cond_subjects has no pattern")]
    NoPattern,
    #[error("not UTF-8")]
    NotUtf8,
    #[error("longer than {MAX_BYTES} bytes")]
    TooLong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// None where the text is no name; such an entry is for nobody.
    ca: Option<Dn>,
    may_sign: bool,
    patterns: Vec<String>,
}

/// A parsed file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SigningPolicy {
    entries: Vec<Entry>,
}

struct Word<'a> {
    column: usize,
    text: &'a str,
}

/// The words of a line. Text in `'` or `"` is one word, without them; `#` outside of quotes begins a comment.
fn words(line: &str) -> Result<Vec<Word<'_>>, (usize, SigningPolicyProblem)> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = line[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if first == '#' {
            break;
        }
        let (start, end, next) = if first == '\'' || first == '"' {
            let start = at + 1;
            let length = line[start..]
                .find(first)
                .ok_or((at + 1, SigningPolicyProblem::Unterminated))?;
            (start, start + length, start + length + 1)
        } else {
            let length = line[at..]
                .find(char::is_whitespace)
                .unwrap_or(line.len() - at);
            (at, at + length, at + length)
        };
        words.push(Word {
            column: at + 1,
            text: &line[start..end],
        });
        at = next;
    }
    Ok(words)
}

impl SigningPolicy {
    pub fn parse_bytes(bytes: &[u8]) -> Result<SigningPolicy, SigningPolicyError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => {
                let before = &bytes[..error.valid_up_to()];
                Err(SigningPolicyError {
                    line: before.iter().filter(|b| **b == b'\n').count() + 1,
                    column: before.iter().rev().take_while(|b| **b != b'\n').count() + 1,
                    problem: SigningPolicyProblem::NotUtf8,
                })
            }
        }
    }

    pub fn parse(text: &str) -> Result<SigningPolicy, SigningPolicyError> {
        let mut policy = SigningPolicy::default();
        if text.len() > MAX_BYTES {
            return Err(SigningPolicyError {
                line: 1,
                column: 1,
                problem: SigningPolicyProblem::TooLong,
            });
        }
        for (index, line) in text.lines().enumerate() {
            policy
                .read_line(line)
                .map_err(|(column, problem)| SigningPolicyError {
                    line: index + 1,
                    column,
                    problem,
                })?;
        }
        Ok(policy)
    }

    fn read_line(&mut self, line: &str) -> Result<(), (usize, SigningPolicyProblem)> {
        let words = words(line)?;
        let Some((head, rest)) = words.split_first() else {
            return Ok(());
        };
        let count = |keyword| match rest {
            [authority, value] => Ok((authority.text, value.text)),
            _ => Err((
                head.column,
                SigningPolicyProblem::Words {
                    keyword,
                    takes: 2,
                    found: rest.len(),
                },
            )),
        };
        let no_entry = |keyword| (head.column, SigningPolicyProblem::NoEntry(keyword));
        match head.text.to_ascii_lowercase().as_str() {
            "access_id_ca" => {
                let (authority, name) = count("access_id_CA")?;
                self.entries.push(Entry {
                    ca: authority
                        .eq_ignore_ascii_case("X509")
                        .then(|| Dn::parse(name).ok())
                        .flatten(),
                    may_sign: false,
                    patterns: Vec::new(),
                });
            }
            "pos_rights" => {
                let (authority, right) = count("pos_rights")?;
                let entry = self.entries.last_mut().ok_or(no_entry("pos_rights"))?;
                entry.may_sign |= authority.eq_ignore_ascii_case("globus") && right == "CA:sign";
            }
            "neg_rights" => {
                count("neg_rights")?;
                // A right taken away: the whole entry gives nothing, which errs on the safe side.
                let entry = self.entries.last_mut().ok_or(no_entry("neg_rights"))?;
                entry.ca = None;
            }
            "cond_subjects" => {
                let (_, list) = count("cond_subjects")?;
                let entry = self.entries.last_mut().ok_or(no_entry("cond_subjects"))?;
                let patterns = if list.contains(['"', '\'']) {
                    self::words(list)?
                        .iter()
                        .map(|w| dn::canonical_types(w.text))
                        .collect()
                } else {
                    vec![dn::canonical_types(list.trim())]
                };
                if patterns.iter().any(String::is_empty) || patterns.is_empty() {
                    return Err((head.column, SigningPolicyProblem::NoPattern));
                }
                entry.patterns.extend(patterns);
            }
            _ => {
                return Err((
                    head.column,
                    SigningPolicyProblem::Keyword(head.text.to_owned()),
                ));
            }
        }
        Ok(())
    }

    /// Whether anything here speaks of this CA.
    pub fn knows(&self, ca: &Dn) -> bool {
        self.entries.iter().any(|e| e.ca.as_ref() == Some(ca))
    }

    /// Each CA that may sign, with each of its patterns, in order.
    pub fn rules(&self) -> impl Iterator<Item = (&Dn, &str)> {
        let signing = self.entries.iter().filter(|e| e.may_sign);
        signing
            .filter_map(|e| e.ca.as_ref().map(|ca| (ca, &e.patterns)))
            .flat_map(|(ca, patterns)| patterns.iter().map(move |p| (ca, p.as_str())))
    }

    /// Whether `ca` may sign a certificate for `subject`.
    pub fn allows(&self, ca: &Dn, subject: &Dn) -> bool {
        let text = subject.to_string();
        self.rules()
            .any(|(of, pattern)| of == ca && glob(pattern.as_bytes(), text.as_bytes()))
    }

    /// The text of a policy that lets `ca` sign what `patterns` say.
    pub fn text_for(ca: &Dn, patterns: &[String]) -> String {
        let list: Vec<String> = patterns.iter().map(|p| format!("\"{p}\"")).collect();
        format!(
            "# Which names this CA may sign.\n\
             access_id_CA   X509    '{ca}'\n\
             pos_rights     globus  CA:sign\n\
             cond_subjects  globus  '{}'\n",
            list.join(" ")
        )
    }
}

/// `*` any run of bytes, `?` one byte. Linear in the text for each star: no backtracking beyond the last one.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "/O=Grid/CN=CA";

    fn check(conditions: &str, subject: &str) -> bool {
        let text = format!(
            "access_id_CA X509 '{CA}'\npos_rights globus CA:sign\ncond_subjects globus {conditions}\n"
        );
        SigningPolicy::parse(&text)
            .unwrap()
            .allows(&Dn::parse(CA).unwrap(), &Dn::parse(subject).unwrap())
    }

    #[test]
    fn a_ca_signs_what_its_patterns_admit_and_nothing_else() {
        let rows = [
            ("'\"/O=Grid/*\"'", "/O=Grid/CN=Alice", true),
            ("'\"/O=Grid/*\"'", "/O=Other/CN=Alice", false),
            ("'\"/O=Other/*\" \"/O=Grid/*\"'", "/O=Grid/CN=Alice", true),
            ("'/O=Grid/*'", "/O=Grid/CN=Alice", true),
            ("\"/O=Grid/*\"", "/O=Grid/CN=Alice", true),
            ("'\"/O=Grid/CN=A?ice\"'", "/O=Grid/CN=Alice", true),
            ("'\"/O=Grid/CN=A?ice\"'", "/O=Grid/CN=Aice", false),
            ("'\"*\"'", "/O=Anything/CN=x", true),
            ("'\"/O=Grid/Email=*\"'", "/O=Grid/emailAddress=a@b", true),
            // A slash inside a value is no border between attributes.
            ("'\"/O=Grid/OU=a/*\"'", "/O=Grid/OU=a\\x2FCN=b", false),
        ];
        for (conditions, subject, allowed) in rows {
            assert_eq!(
                check(conditions, subject),
                allowed,
                "{conditions} {subject}"
            );
        }
    }

    #[test]
    fn an_entry_without_the_right_or_for_another_ca_gives_nothing() {
        let name = Dn::parse("/O=Grid/CN=Alice").unwrap();
        let ca = Dn::parse(CA).unwrap();
        for text in [
            "access_id_CA X509 '/O=Grid/CN=CA'\ncond_subjects globus '\"*\"'\n",
            "access_id_CA X509 '/O=Grid/CN=CA'\npos_rights globus CA:read\ncond_subjects globus '\"*\"'\n",
            "access_id_CA X509 '/O=Grid/CN=CA'\nneg_rights globus CA:sign\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'\n",
            "access_id_CA X509 '/O=Other/CN=CA'\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'\n",
            "",
        ] {
            assert!(
                !SigningPolicy::parse(text).unwrap().allows(&ca, &name),
                "{text}"
            );
        }
    }

    #[test]
    fn our_own_text_reads_back() {
        let ca = Dn::parse(CA).unwrap();
        let text = SigningPolicy::text_for(&ca, &["/O=Grid/*".to_owned()]);
        let policy = SigningPolicy::parse(&text).unwrap();
        assert!(policy.knows(&ca));
        assert!(policy.allows(&ca, &Dn::parse("/O=Grid/CN=Alice").unwrap()));
    }
}
