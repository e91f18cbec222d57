//! A job that is started together with others, or not at all (spec/jobs/together.md): what of that stands in its
//! description. Not here: who starts them together ([`crate::barrier`]).

use crate::validate::{DescriptionError, many, range, text, word};
use serde::{Deserialize, Serialize};

/// Subjobs of one request. Each is a stream or two of a session, and the list of their sites is in each one's record.
pub const MAX_SUBJOBS: usize = 256;
/// An hour: a slot that is held is nobody else's, and does nothing.
pub const MAX_HOLD_S: u64 = 3600;
/// A host's name (RFC 1035, 255) with its port.
const MAX_CONTACT_BYTES: usize = 262;
/// Of the name of a request: leaves room for `.255` in a key.
const MAX_REQUEST_BYTES: usize = 64;

/// Which of the subjobs of a request a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Together {
    /// The name of the whole.
    pub request: String,
    /// Its place, from 0.
    pub subjob: u32,
    /// HOST:PORT of the site of each, by place.
    pub sites: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// It is held before its program is executed, until it is released. It is cancelled once nobody has said for so long
    /// that it is to be held on; seconds. None: it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<u64>,
}

impl Together {
    /// The key under which the subjob of this place is submitted.
    pub fn key(&self, subjob: u32) -> String {
        format!("{}.{subjob}", self.request)
    }

    /// For people.
    pub fn words(&self) -> String {
        let label = self.label.iter().map(|label| format!(" ({label})"));
        format!(
            "it is subjob {}{} of {} of the request {}",
            self.subjob,
            label.collect::<String>(),
            self.sites.len(),
            self.request
        )
    }

    pub(crate) fn validate(&self) -> Result<(), DescriptionError> {
        word("together.request", &self.request)?;
        let plain = self
            .request
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric());
        if !plain || self.request.len() > MAX_REQUEST_BYTES {
            return Err(DescriptionError::Bad {
                path: "together.request".to_owned(),
                what: "is no name of a request",
                hint: "1 to 64 letters and digits are",
            });
        }
        many("together.sites", self.sites.len(), MAX_SUBJOBS)?;
        for (place, contact) in self.sites.iter().enumerate() {
            let path = format!("together.sites[{place}]");
            word_of(&path, contact)?;
        }
        let last = self.sites.len().saturating_sub(1);
        range("together.subjob", self.subjob.into(), 0, last as u64)?;
        if self.sites.is_empty() {
            return Err(DescriptionError::Empty {
                path: "together.sites".to_owned(),
                hint: "name the site of each subjob",
            });
        }
        if let Some(label) = &self.label {
            word("together.label", label)?;
        }
        match self.hold_s {
            Some(hold_s) => range("together.hold_s", hold_s, 1, MAX_HOLD_S),
            None => Ok(()),
        }
    }
}

fn word_of(path: &str, contact: &str) -> Result<(), DescriptionError> {
    let fits = |c: char| c.is_ascii_graphic();
    if contact.is_empty() || !contact.chars().all(fits) {
        return Err(DescriptionError::Bad {
            path: path.to_owned(),
            what: "is no contact of a site",
            hint: "HOST:PORT is",
        });
    }
    text(
        || path.to_owned(),
        contact,
        MAX_CONTACT_BYTES,
        "no name of a host is longer",
    )
}
