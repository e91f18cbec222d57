//! The effective policy of a job: the site's, narrowed by its virtual organisation's, its user's and its own (spec/policy,
//! P40). Refused here, before anything is recorded.

use crate::home::Home;
use crate::site::edited::{Stamp, stamp};
use crate::site::organisations::Organisations;
use crate::site::settings::Settings;
use kumiko_batch::chosen::Name;
use kumiko_job::admission::Amounts;
use kumiko_job::contract::{Caller, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_policy::{
    Layer, Limits, MAX_TEXT_BYTES, MechanismKind, NarrowError, Origin, Policy, nest,
};
use kumiko_sandbox::Machine;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The site's policy file, read again when it changes, those below it, and what this machine can do.
pub struct Policies {
    path: PathBuf,
    organisations: Arc<Organisations>,
    /// The account's own; need not be there.
    user: Option<PathBuf>,
    machine: Machine,
    /// Jobs reserve parts of this host.
    reserves: bool,
    /// While this is there, no job is taken.
    draining: PathBuf,
    read: Mutex<(Stamp, Policy)>,
}

impl Policies {
    /// For the jobs of a personal site.
    ///
    /// # Errors
    /// As [`Policies::load_in`].
    pub fn load(home: &Home, settings: &Settings, draining: &Path) -> Result<Policies, Refusal> {
        Policies::load_in(home, settings, draining, &home.state())
    }

    /// For the jobs of this process's account, which keeps things in `state`.
    ///
    /// # Errors
    /// The site's policy cannot be read: a site without one does not start.
    pub fn load_in(
        home: &Home,
        settings: &Settings,
        draining: &Path,
        state: &Path,
    ) -> Result<Policies, Refusal> {
        let path = home.policy();
        let read = Mutex::new((stamp(&path), read(&path)?));
        Ok(Policies {
            path,
            organisations: Arc::new(Organisations::new(
                settings.organisations.clone(),
                home.certificates(),
                state.join("organisations"),
            )),
            user: crate::config::folder().map(|folder| folder.join("policy.toml")),
            machine: Machine::probe(),
            reserves: settings.batch == Name::Fork,
            draining: draining.to_owned(),
            read,
        })
    }

    pub fn organisations(&self) -> Arc<Organisations> {
        Arc::clone(&self.organisations)
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What is read anew when it is another: the files of the site, its organisations and the user.
    pub fn files(&self) -> Vec<PathBuf> {
        let own = [&self.path].into_iter().chain(&self.user).cloned();
        own.chain(self.organisations.places()).collect()
    }

    /// Why no job is taken now.
    pub fn closed(&self) -> Option<Refusal> {
        self.draining.exists().then(|| {
            Refusal::new(
                "site_draining",
                "the site takes no new jobs (its owner drains it)".to_owned(),
            )
        })
    }

    /// What a job may see and use, for the manager.
    pub fn effective(
        &self,
        caller: &Caller,
        description: &JobDescription,
    ) -> Result<Policy, Refusal> {
        let site = self.site()?;
        let user = self.user()?;
        let job = match &description.policy {
            Some(text) => parse(text, "the job's policy")?,
            None => Policy::empty(),
        };
        let asked = job.vo.as_deref().or(user.vo.as_deref());
        let vo = self.organisations.policy_of(&caller.subject, asked)?;
        let reserved = self.reserved(description);
        let layers = [(Layer::Site, Some(&site)), (Layer::Vo, vo.as_ref())]
            .into_iter()
            .chain([(Layer::User, Some(&user)), (Layer::Job, Some(&job))])
            .chain([(Layer::Job, reserved.as_ref())])
            .filter_map(|(layer, policy)| policy.map(|policy| (layer, policy)));
        let effective = nest(layers).map_err(|e| Refusal::new(e.code(), e.to_string()))?;
        let asked = description.mechanism.as_deref();
        let asked = asked.and_then(MechanismKind::from_name);
        if asked.is_some_and(|asked| !effective.may_be_under(asked)) {
            let above = effective.mechanism.name();
            let problem = NarrowError::Mechanism { above };
            return Err(Refusal::new(problem.code(), problem.to_string()));
        }
        kumiko_sandbox::choose(&effective, description.mechanism.as_deref(), &self.machine)
            .map_err(|e| Refusal::new(e.code(), e.to_string()))?;
        Ok(effective)
    }

    /// What a job reserves is the most that it has (P72); with an engine, that is the engine's to see to.
    fn reserved(&self, description: &JobDescription) -> Option<Policy> {
        let limits = Amounts::of(description).limits();
        if !self.reserves || limits == Limits::default() {
            return None;
        }
        let source = "what the job reserves".to_owned();
        let origin = Origin { source, line: 0 };
        let keys = limits.each().map(|(limited, _)| limited.full_key());
        Some(Policy {
            origins: keys.map(|key| (key, origin.clone())).collect(),
            limits,
            layers: vec![origin.source.clone()],
            ..Policy::empty()
        })
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

    fn user(&self) -> Result<Policy, Refusal> {
        let Some(path) = &self.user else {
            return Ok(Policy::empty());
        };
        match text(path) {
            Ok(text) => parse(&text, &path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Policy::empty()),
            Err(error) => Err(Refusal::new(
                "bad_policy",
                format!(
                    "your policy {} at this site cannot be read: {error}",
                    path.display()
                ),
            )),
        }
    }
}

fn parse(text: &str, source: &str) -> Result<Policy, Refusal> {
    kumiko_policy::parse(text, source).map_err(|e| Refusal::new(e.code(), e.to_string()))
}

/// At most what a policy may have, and a byte more, by which the parser sees that it is too long.
fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = MAX_TEXT_BYTES as u64 + 1;
    std::fs::File::open(path)?
        .take(most)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn read(path: &Path) -> Result<Policy, Refusal> {
    let wrong = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Refusal::new(
            "site_policy",
            format!("the site's policy {path} cannot be used: {why}"),
        )
    };
    let text = text(path).map_err(|error| wrong(&error))?;
    let said = kumiko_policy::parse(&text, &path.display().to_string()).map_err(|e| wrong(&e))?;
    // That it can stand at the top is known from the first, and not only when a job comes.
    nest([(Layer::Site, &said)]).map_err(|error| wrong(&error))?;
    Ok(said)
}
