//! Checks the parts of a description that move files (spec/jobs J4). Errors are those of `validate`.

use crate::description::{Destination, JobDescription, OutputMode, Stdin};
use crate::staging::{EXECUTABLE, STDIN, in_job_directory};
use crate::url::{Scheme, Url, looks_like_url};
use crate::validate::{DescriptionError, MAX_DESTINATIONS, MAX_FILES, many, path, word};

/// What can be read from.
const SOURCES: [Scheme; 5] = Scheme::ALL;
/// What can be written to: `http` has nobody who could be asked for it, and a `file` of the site's host only a guest may
/// write, in its view.
const TARGETS: [Scheme; 3] = [Scheme::Https, Scheme::Gsiftp, Scheme::Cache];

impl JobDescription {
    pub(crate) fn validate_staging(&self) -> Result<(), DescriptionError> {
        if looks_like_url(&self.executable) {
            url("executable", &self.executable, &SOURCES)?;
        }
        if let Stdin::Url(from) = &self.stdin {
            url("stdin.url", from, &SOURCES)?;
        }
        for (name, list) in [
            ("stage_in", &self.stage_in),
            ("stage_in_shared", &self.stage_in_shared),
        ] {
            many(name, list.len(), MAX_FILES)?;
            for (index, file) in list.iter().enumerate() {
                url(&format!("{name}[{index}].from"), &file.from, &SOURCES)?;
                place(&format!("{name}[{index}].to"), &file.to)?;
                if let Some(sum) = &file.sha256 {
                    let fits = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
                    if !fits {
                        return Err(DescriptionError::Bad {
                            path: format!("{name}[{index}].sha256"),
                            what: "is no SHA-256",
                            hint: "give 64 hexadecimal digits, as sha256sum prints them",
                        });
                    }
                }
            }
        }
        many("stage_out", self.stage_out.len(), MAX_FILES)?;
        for (index, file) in self.stage_out.iter().enumerate() {
            place(&format!("stage_out[{index}].from"), &file.from)?;
            url(&format!("stage_out[{index}].to"), &file.to, &TARGETS)?;
        }
        many("clean_up", self.clean_up.len(), MAX_FILES)?;
        for (index, file) in self.clean_up.iter().enumerate() {
            place(&format!("clean_up[{index}]"), file)?;
        }
        if let Some(scratch) = &self.scratch {
            place("scratch", scratch)?;
        }
        if let Some(cache) = &self.cache {
            place("cache", cache)?;
        }
        destinations("stdout", &self.stdout)?;
        destinations("stderr", &self.stderr)?;
        if self.output == OutputMode::Flow {
            for (name, list) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
                if !list.is_empty() {
                    return Err(DescriptionError::Conflict {
                        path: name,
                        other: "output flow",
                        hint: "what is sent away is read from what is kept",
                    });
                }
            }
        }
        Ok(())
    }
}

/// Checks the destinations of a stream; `field` names it.
pub fn destinations(field: &str, list: &[Destination]) -> Result<(), DescriptionError> {
    many(field, list.len(), MAX_DESTINATIONS)?;
    for (index, destination) in list.iter().enumerate() {
        let name = format!("{field}[{index}].to");
        let mut cache = false;
        if looks_like_url(&destination.to) {
            cache = url(&name, &destination.to, &TARGETS)?.scheme == Scheme::Cache;
        } else {
            place(&name, &destination.to)?;
        }
        if let Some(tag) = &destination.tag {
            let name = format!("{field}[{index}].tag");
            word(&name, tag)?;
            if !cache {
                return Err(DescriptionError::Bad {
                    path: name,
                    what: "is of the cache only",
                    hint: "leave it out, or send to an x-gass-cache URL",
                });
            }
        }
    }
    Ok(())
}

fn url(field: &str, text: &str, allowed: &[Scheme]) -> Result<Url, DescriptionError> {
    let url = Url::parse(text).map_err(|cause| DescriptionError::Url {
        path: field.to_owned(),
        // It may be long, or hold what no terminal should be given.
        url: text
            .chars()
            .take(80)
            .flat_map(char::escape_default)
            .collect(),
        cause,
    })?;
    if allowed.contains(&url.scheme) {
        return Ok(url);
    }
    Err(DescriptionError::Bad {
        path: field.to_owned(),
        what: "is a URL that cannot be written to",
        hint: "files are sent to https, gsiftp and x-gass-cache URLs",
    })
}

fn place(field: &str, name: &str) -> Result<(), DescriptionError> {
    path(field, name, "name a file below the job's own directory")?;
    match in_job_directory(name) {
        Some(EXECUTABLE | STDIN) | None => Err(DescriptionError::Bad {
            path: field.to_owned(),
            what: "is no name below the job's own directory that may be used",
            hint: "give a plain relative path without . and .., or one that begins with /job/",
        }),
        Some(_) => Ok(()),
    }
}
