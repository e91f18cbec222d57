//! Addresses of files that staging moves (spec/staging, U1 to U5): text to value and back. What may stand where is
//! `validate`'s to say; fetching is staging's. Not here: relative references, other schemes.

use std::fmt;

/// One address. PATH_MAX, as any other name of a file.
pub const MAX_URL_BYTES: usize = 4095;

/// A checked address. Its text form is what it was read from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    text: String,
    pub scheme: Scheme,
    /// None for `file` and `x-gass-cache`.
    pub server: Option<Server>,
    /// Where the part after scheme and server begins.
    path_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// GASS, or any HTTP server that asks for a certificate of a grid.
    Https,
    Http,
    /// GridFTP.
    Gsiftp,
    /// A file of the site's host.
    File,
    /// A key of the account's cache.
    Cache,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// A name or an address, an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
}

/// Why a text is no address that we take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("has {bytes} bytes, at most {MAX_URL_BYTES} are taken")]
    TooLong { bytes: usize },
    #[error("has no scheme of https, http, gsiftp, file, x-gass-cache")]
    Scheme,
    #[error("holds a blank or a control character at byte {at}: write it as %20 or the like")]
    Character { at: usize },
    #[error("names a user before @, whom only the certificate can name")]
    User,
    #[error("has no host, or one with other characters than letters, digits, - and .")]
    Host,
    #[error("has a port that is no number from 1 to 65535")]
    Port,
    #[error("has no path")]
    Path,
    #[error("holds % without two hexadecimal digits, or %00, at byte {at} of its path")]
    Percent { at: usize },
    #[error("names a host in a file address: only the site's own files are meant, file:///path")]
    FileHost,
}

impl Scheme {
    pub const ALL: [Scheme; 5] = [
        Scheme::Https,
        Scheme::Http,
        Scheme::Gsiftp,
        Scheme::File,
        Scheme::Cache,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Https => "https",
            Scheme::Http => "http",
            Scheme::Gsiftp => "gsiftp",
            Scheme::File => "file",
            Scheme::Cache => "x-gass-cache",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            // IANA's port of gsiftp.
            Scheme::Gsiftp => 2811,
            Scheme::Https | Scheme::File | Scheme::Cache => 443,
        }
    }
}

/// Does this text mean to be an address (and no path)? It need not be a good one.
pub fn looks_like_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else {
        return false;
    };
    text.contains("://") || Scheme::ALL.iter().any(|known| known.name() == scheme)
}

impl Url {
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong { bytes: text.len() });
        }
        let bad = |byte: u8| byte <= b' ' || byte == 0x7f;
        if let Some(at) = text.bytes().position(bad) {
            return Err(UrlError::Character { at });
        }
        let (name, rest) = text.split_once(':').ok_or(UrlError::Scheme)?;
        let scheme = Scheme::ALL
            .into_iter()
            .find(|scheme| scheme.name().eq_ignore_ascii_case(name))
            .ok_or(UrlError::Scheme)?;
        let after_slashes = rest.strip_prefix("//");
        let (server, path) = match scheme {
            Scheme::File => (None, file_path(rest)?),
            Scheme::Cache => (None, after_slashes.ok_or(UrlError::Path)?),
            _ => {
                let rest = after_slashes.ok_or(UrlError::Host)?;
                let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(server_of(scheme, server)?), path)
            }
        };
        if path.is_empty() && matches!(scheme, Scheme::File | Scheme::Cache | Scheme::Gsiftp) {
            return Err(UrlError::Path);
        }
        if scheme != Scheme::Cache {
            decode(path)?;
        }
        Ok(Url {
            path_at: text.len() - path.len(),
            text: text.to_owned(),
            scheme,
            server,
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As written, from its first slash; the key of a cache. `/` where a web server was asked for nothing.
    pub fn path(&self) -> &str {
        match self.text.get(self.path_at..) {
            Some(path) if !path.is_empty() => path,
            _ => "/",
        }
    }

    /// The path as bytes, `%41` being `A`.
    pub fn decoded_path(&self) -> Vec<u8> {
        match self.scheme {
            Scheme::Cache => self.path().as_bytes().to_vec(),
            // It was decoded when it was read.
            _ => decode(self.path()).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `///path`, `/path`, or `//localhost/path` (RFC 8089).
fn file_path(rest: &str) -> Result<&str, UrlError> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest
            .strip_prefix("localhost")
            .filter(|path| path.starts_with('/'))
            .unwrap_or(rest),
        None => rest,
    };
    if path.is_empty() {
        Err(UrlError::Path)
    } else if path.starts_with('/') {
        Ok(path)
    } else {
        Err(UrlError::FileHost)
    }
}

fn server_of(scheme: Scheme, text: &str) -> Result<Server, UrlError> {
    if text.contains('@') {
        return Err(UrlError::User);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(UrlError::Host)?;
            host.parse::<core::net::Ipv6Addr>()
                .map_err(|_| UrlError::Host)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(UrlError::Host)?),
            };
            (host, port)
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            // `_` is in names of hosts that people have, whatever RFC 952 says.
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if host.is_empty() || host.len() > 255 || !host.bytes().all(fits) {
                return Err(UrlError::Host);
            }
            (host, port)
        }
    };
    let port = match port {
        None => scheme.default_port(),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or(UrlError::Port)?,
        Some(_) => return Err(UrlError::Port),
    };
    Ok(Server {
        host: host.to_owned(),
        port,
    })
}

/// The bytes that a path with `%41` in it means.
pub fn decode(path: &str) -> Result<Vec<u8>, UrlError> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let at = path.len() - after.len() - 1;
        let wrong = UrlError::Percent { at };
        let digit = |index: usize| {
            let digit = after.get(index).copied().map(char::from)?.to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(wrong);
        };
        match (high << 4) | low {
            0 => return Err(wrong),
            byte => bytes.push(byte),
        }
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(bytes)
}

/// A path for a request: what would end or change it there is written as `%41`.
pub fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(*byte)),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'+' | b',' | b'=' | b':' | b'@' => {
                text.push(char::from(*byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
