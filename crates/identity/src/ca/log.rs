//! The log of a CA: one line for each certificate issued and each revocation, appended and never changed (spec/identity, clause A6).
//!
//! `issued SERIAL NOT_AFTER SUBJECT` and `revoked SERIAL AT`; serial in hexadecimal, times in seconds since 1970.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::certificate::{Certificate, CertificateError};
use crate::dn::{Dn, DnError};

/// One certificate that the CA has issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// Hexadecimal, upper case.
    pub serial: String,
    pub subject: Dn,
    pub not_after: SystemTime,
    pub revoked: Option<SystemTime>,
}

/// Why the log was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot use {}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}, line {line}: expected `issued SERIAL SECONDS SUBJECT` or `revoked SERIAL SECONDS`", path.display())]
    Line { path: PathBuf, line: usize },
    #[error("{}, line {line}: {source}", path.display())]
    Name {
        path: PathBuf,
        line: usize,
        source: DnError,
    },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

fn append(path: &Path, line: &str) -> Result<(), LogError> {
    // One write of one short line to a file opened for appending: lines of two processes do not mix.
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| {
            file.write_all(line.as_bytes())?;
            file.sync_all()
        })
        .map_err(|source| LogError::Io {
            path: path.to_owned(),
            source,
        })
}

pub(super) fn append_issued(path: &Path, certificate: &Certificate) -> Result<(), LogError> {
    let end = seconds(certificate.fields().not_after);
    let (serial, subject) = (certificate.serial()?, certificate.subject());
    append(path, &format!("issued {serial} {end} {subject}\n"))
}

pub(super) fn append_revoked(path: &Path, serial: &str) -> Result<(), LogError> {
    let now = seconds(SystemTime::now());
    append(path, &format!("revoked {serial} {now}\n"))
}

/// An absent log is an empty one.
pub(super) fn read(path: &Path) -> Result<Vec<Issued>, LogError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => {
            return Err(LogError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    let mut issued: Vec<Issued> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bad = || LogError::Line {
            path: path.to_owned(),
            line: index + 1,
        };
        let mut words = line.splitn(4, ' ');
        let (verb, serial, at) = (words.next(), words.next(), words.next());
        let (Some(serial), Some(at)) = (serial.filter(|s| is_serial(s)), at.and_then(read_time))
        else {
            return Err(bad());
        };
        match (verb, words.next()) {
            (Some("issued"), Some(subject)) => {
                let subject = Dn::parse(subject).map_err(|source| LogError::Name {
                    path: path.to_owned(),
                    line: index + 1,
                    source,
                })?;
                issued.push(Issued {
                    serial: serial.to_owned(),
                    subject,
                    not_after: at,
                    revoked: None,
                });
            }
            (Some("revoked"), None) => {
                let entry = issued.iter_mut().find(|i| i.serial == serial);
                entry.ok_or_else(bad)?.revoked.get_or_insert(at);
            }
            _ => return Err(bad()),
        }
    }
    Ok(issued)
}

fn is_serial(text: &str) -> bool {
    !text.is_empty() && text.len() <= 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn read_time(text: &str) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(text.parse().ok()?))
}
