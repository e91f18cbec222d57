//! Absolute paths in one normal form (P4). Purely lexical: nothing is looked up.

use serde::{Deserialize, Serialize};
use std::fmt;

/// PATH_MAX less its closing zero (limits.h).
pub const MAX_PATH_BYTES: usize = 4_095;
/// NAME_MAX (limits.h).
pub const MAX_NAME_BYTES: usize = 255;

/// An absolute path without `.`, `..`, empty parts or a closing slash; "/" is the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuestPath(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("is not absolute: begin it with /")]
    Relative,
    #[error("has \"..\" in it: write the path it leads to")]
    Parent,
    #[error("has a zero byte or a control character in it")]
    Control,
    #[error("is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    #[error("has a part longer than {MAX_NAME_BYTES} bytes")]
    PartTooLong,
}

impl GuestPath {
    pub fn root() -> GuestPath {
        GuestPath("/".to_owned())
    }

    /// Empty parts, `.` and closing slashes are taken out; `..` is refused, since what it means depends on links.
    pub fn new(text: &str) -> Result<GuestPath, PathError> {
        if !text.starts_with('/') {
            return Err(PathError::Relative);
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PathError::Control);
        }
        let mut normal = String::with_capacity(text.len());
        for part in text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            if part == ".." {
                return Err(PathError::Parent);
            }
            if part.len() > MAX_NAME_BYTES {
                return Err(PathError::PartTooLong);
            }
            normal.push('/');
            normal.push_str(part);
        }
        if normal.is_empty() {
            normal.push('/');
        }
        Ok(GuestPath(normal))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is left of `self` below `above` ("" when they are equal), None when it is not at or below it.
    pub fn below<'a>(&'a self, above: &GuestPath) -> Option<&'a str> {
        if above.0 == "/" {
            return Some(self.0.trim_start_matches('/'));
        }
        let rest = self.0.strip_prefix(above.as_str())?;
        if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix('/')
        }
    }

    /// Where a symbolic link at this path leads, by its words alone; None: nowhere that has a path.
    pub fn follow(&self, target: &str) -> Option<GuestPath> {
        let mut parts: Vec<&str> = match target.starts_with('/') {
            true => Vec::new(),
            false => self.0.rsplit_once('/')?.0.split('/').collect(),
        };
        for part in target.split('/') {
            match part {
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        GuestPath::new(&format!("/{}", parts.join("/"))).ok()
    }

    /// `rest` is relative and normal (what [`GuestPath::below`] gives).
    pub fn join(&self, rest: &str) -> GuestPath {
        match (self.0.as_str(), rest) {
            (_, "") => self.clone(),
            ("/", rest) => GuestPath(format!("/{rest}")),
            (own, rest) => GuestPath(format!("{own}/{rest}")),
        }
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for GuestPath {
    type Error = PathError;
    fn try_from(text: String) -> Result<Self, PathError> {
        GuestPath::new(&text)
    }
}

impl From<GuestPath> for String {
    fn from(path: GuestPath) -> String {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_normal_form() {
        let check = |text: &str, expected: Result<&str, PathError>| {
            let got = GuestPath::new(text);
            assert_eq!(
                got.as_ref().map(GuestPath::as_str).map_err(|e| *e),
                expected,
                "{text:?}"
            );
        };
        check("/", Ok("/"));
        check("//usr///lib/", Ok("/usr/lib"));
        check("/./usr/./lib/.", Ok("/usr/lib"));
        check("/usr/..", Err(PathError::Parent));
        check("/a..b/...", Ok("/a..b/..."));
        check("usr", Err(PathError::Relative));
        check("", Err(PathError::Relative));
        check("/a\0b", Err(PathError::Control));
        check("/a\nb", Err(PathError::Control));
        check(
            &format!("/{}", "x".repeat(256)),
            Err(PathError::PartTooLong),
        );
        check(&"/xy".repeat(2000), Err(PathError::TooLong));
    }

    #[test]
    fn links_are_followed_by_their_words() {
        let check = |at: &str, target: &str, expected: &str| {
            let at = GuestPath::new(at).unwrap();
            assert_eq!(
                at.follow(target).unwrap().as_str(),
                expected,
                "{at} -> {target}"
            );
        };
        check("/bin", "usr/bin", "/usr/bin");
        check(
            "/etc/os-release",
            "../usr/lib/os-release",
            "/usr/lib/os-release",
        );
        check(
            "/etc/localtime",
            "/usr/share/zoneinfo/Etc/UTC",
            "/usr/share/zoneinfo/Etc/UTC",
        );
        check("/a/b", "../../../..", "/");
    }

    #[test]
    fn below_is_by_whole_parts() {
        let path = |text: &str| GuestPath::new(text).unwrap();
        let check = |inner: &str, outer: &str, expected: Option<&str>| {
            assert_eq!(
                path(inner).below(&path(outer)),
                expected,
                "{inner} below {outer}"
            );
        };
        check("/usr/lib", "/usr", Some("lib"));
        check("/usr", "/usr", Some(""));
        check("/usrlib", "/usr", None);
        check("/usr", "/usr/lib", None);
        check("/usr/lib", "/", Some("usr/lib"));
        check("/", "/", Some(""));
    }
}
