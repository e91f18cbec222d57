//! The effective policy of a job: the site's, narrowed by the job's. Refused here, before anything is recorded.

use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;
use kumiko_policy::Policy;
use kumiko_sandbox::Machine;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// The site's policy file, read again when it changes, and what this machine can do.
pub struct Policies {
    path: PathBuf,
    machine: Machine,
    /// While this is there, no job is taken.
    draining: PathBuf,
    read: Mutex<(Option<SystemTime>, Policy)>,
}

impl Policies {
    /// # Errors
    /// The site's policy cannot be read: a site without one does not start.
    pub fn load(path: &Path, draining: &Path) -> Result<Policies, Refusal> {
        let read = Mutex::new((stamp(path), read(path)?));
        Ok(Policies {
            path: path.to_owned(),
            machine: Machine::probe(),
            draining: draining.to_owned(),
            read,
        })
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What a job may see and use, for the manager.
    pub fn effective(&self, description: &JobDescription) -> Result<Policy, Refusal> {
        if self.draining.exists() {
            return Err(Refusal::new(
                "site_draining",
                "the site takes no new jobs (its owner drains it)".to_owned(),
            ));
        }
        let site = self.site()?;
        let below = match &description.policy {
            Some(text) => kumiko_policy::parse(text, "the job's policy")
                .map_err(|e| Refusal::new(e.code(), e.to_string()))?,
            None => Policy::empty(),
        };
        let effective = kumiko_policy::narrow(&site, &below)
            .map_err(|e| Refusal::new(e.code(), e.to_string()))?;
        kumiko_sandbox::choose(&effective, description.mechanism.as_deref(), &self.machine)
            .map_err(|e| Refusal::new(e.code(), e.to_string()))?;
        Ok(effective)
    }

    /// A file that has become unreadable refuses jobs: the last one may have been more generous.
    fn site(&self) -> Result<Policy, Refusal> {
        let mut kept = self
            .read
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = stamp(&self.path);
        if now.is_none() || kept.0 != now {
            *kept = (now, read(&self.path)?);
        }
        Ok(kept.1.clone())
    }
}

fn stamp(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn read(path: &Path) -> Result<Policy, Refusal> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Refusal::new(
            "site_policy",
            format!("the site's policy {} cannot be read: {e}", path.display()),
        )
    })?;
    let said = kumiko_policy::parse(&text, &path.display().to_string()).map_err(|e| {
        Refusal::new(
            "site_policy",
            format!("the site's policy cannot be used: {e}"),
        )
    })?;
    kumiko_policy::narrow(&Policy::default(), &said).map_err(|e| {
        Refusal::new(
            "site_policy",
            format!("the site's policy {} cannot be used: {e}", path.display()),
        )
    })
}
