//! What a request of GASS asks for (spec/staging, G2 to G4): pure, so that any bytes may be tried on it.

use super::APPEND;
use kumiko_job::url::decode;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub verb: Verb,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Put,
    Append,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The server's own streams.
    Stdout,
    Stderr,
    /// The client wants the server to end.
    Shutdown,
    /// Below the home directory of the server's owner (`user` is None) or of an account.
    Home {
        user: Option<OsString>,
        below: PathBuf,
    },
    /// Absolute, without `.`, `..` and empty parts.
    File(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("only GET, PUT and GASS's append are understood")]
    Method,
    #[error("the path does not begin with a slash")]
    Relative,
    #[error("the path holds % without two hexadecimal digits, or %00")]
    Percent,
    #[error("the path holds a zero byte")]
    Zero,
    #[error("the path leads upwards")]
    Upwards,
    #[error("the path names no file")]
    Directory,
}

/// `target` is the request's target as it was sent: a path, a query maybe, or a whole URL.
pub fn read(method: &str, target: &str) -> Result<Asked, TargetError> {
    let origin = match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => {
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
        }
        _ => target,
    };
    let (verb, path) = match (method, origin.split_once('?')) {
        // GASS knows no queries: they are part of the name, as they are to its own server.
        ("GET", _) => (Verb::Get, origin),
        ("PUT", _) => (Verb::Put, origin),
        ("POST", Some((APPEND, path))) => (Verb::Append, path),
        _ => return Err(TargetError::Method),
    };
    if !path.starts_with('/') {
        return Err(TargetError::Relative);
    }
    let bytes = decode(path).map_err(|_| TargetError::Percent)?;
    if bytes.contains(&0) {
        return Err(TargetError::Zero);
    }
    let mut parts = Vec::new();
    for part in bytes.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(TargetError::Upwards),
            part => parts.push(OsString::from_vec(part.to_vec())),
        }
    }
    if bytes.ends_with(b"/") || parts.is_empty() {
        return Err(TargetError::Directory);
    }
    let place = match parts.as_slice() {
        [dev, name] if dev == "dev" && name == "stdout" => Place::Stdout,
        [dev, name] if dev == "dev" && name == "stderr" => Place::Stderr,
        [dev, name] if dev == "dev" && name == "globus_gass_client_shutdown" => Place::Shutdown,
        [home, below @ ..] if home.as_encoded_bytes().starts_with(b"~") => {
            if below.is_empty() {
                return Err(TargetError::Directory);
            }
            let user = home.as_encoded_bytes().get(1..).unwrap_or_default();
            Place::Home {
                user: (!user.is_empty()).then(|| OsString::from_vec(user.to_vec())),
                below: below.iter().collect(),
            }
        }
        parts => {
            let mut path = PathBuf::from("/");
            path.extend(parts);
            Place::File(path)
        }
    };
    Ok(Asked { verb, place })
}

/// The first byte of a `Range` field that asks for all from there on; None: anything else, which may be answered with the
/// whole (RFC 9110, section 14.2).
pub fn range_from(field: &str) -> Option<u64> {
    let first = field.trim().strip_prefix("bytes=")?.strip_suffix('-')?;
    let digits = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| first.parse().ok()).flatten()
}

/// First byte and whole length of a `Content-Range` field that goes to the end.
pub fn content_range(field: &str) -> Option<(u64, u64)> {
    let (range, whole) = field.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, last, whole) = (number(first)?, number(last)?, number(whole)?);
    (first <= last && last.checked_add(1)? == whole).then_some((first, whole))
}
