//! The batch system that a site was told to use: one of those there are, by its name.

use crate::census::{self, Counted};
use crate::condor;
use crate::engine;
use crate::engine::drained::Drained;
use crate::engine::program::Program;
use crate::engine::tool::Tools;
use crate::engine::{Cluster, Engine, Leaves, Trouble};
use crate::fork::Fork;
use crate::pilots::{Piloted, Pilots};
use crate::slurm;
use kumiko_ferry::files::Files;
use kumiko_ferry::{Address, Landing, LandingError};
use kumiko_job::attempt::{AttemptCommand, AttemptSpec};
use kumiko_job::census::Census;
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::AttemptId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use tokio::sync::watch;

/// The name of a batch system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Name {
    #[default]
    Fork,
    Slurm,
    Condor,
}

impl Name {
    pub fn as_str(self) -> &'static str {
        match self {
            Name::Fork => "fork",
            Name::Slurm => "slurm",
            Name::Condor => "condor",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no batch system {0:?}: fork, slurm and condor are there")]
pub struct NoSuchBatch(String);

impl FromStr for Name {
    type Err = NoSuchBatch;

    fn from_str(name: &str) -> Result<Name, NoSuchBatch> {
        match name {
            "fork" => Ok(Name::Fork),
            "slurm" => Ok(Name::Slurm),
            "condor" => Ok(Name::Condor),
            other => Err(NoSuchBatch(other.to_owned())),
        }
    }
}

/// A batch system by name.
#[derive(Debug)]
pub enum Chosen {
    Fork(Fork),
    Slurm(Cluster<Piloted<Drained<slurm::Commands>>>),
    Condor(Cluster<Piloted<Drained<condor::Commands>>>),
}

/// What can fail before there is a batch system has been done.
#[derive(Debug)]
pub struct Prepared {
    name: Name,
    root: PathBuf,
    runner: PathBuf,
    /// Of engines.
    site: String,
    pilots: Pilots,
    drained: BTreeSet<String>,
    landing: Option<(Landing, PathBuf)>,
    files: Option<Files>,
    census: watch::Sender<Option<Census>>,
}

impl Prepared {
    /// `root` and `runner`: as for [`Fork::new`]; of an engine, `root` is there on all of its hosts.
    /// `pilots`: before engines.
    pub fn new(name: Name, root: PathBuf, runner: PathBuf, pilots: Pilots) -> io::Result<Prepared> {
        let command = match name {
            Name::Fork => None,
            Name::Slurm => Some("sbatch"),
            Name::Condor => Some("condor_submit"),
        };
        let site = match command {
            None => String::new(),
            Some(command) if Tools::here().finds(command) => engine::site(&root)?,
            Some(command) => {
                let what = format!(
                    "{command} is not in the site's PATH, and without it nothing can be handed to {}",
                    name.as_str()
                );
                return Err(io::Error::new(io::ErrorKind::NotFound, what));
            }
        };
        Ok(Prepared {
            name,
            root,
            runner,
            site,
            pilots,
            drained: BTreeSet::new(),
            landing: None,
            files: None,
            census: watch::Sender::new(None),
        })
    }

    /// With these hosts drained, which the engine had when a site before this one drained them.
    #[must_use]
    pub fn without(mut self, hosts: BTreeSet<String>) -> Prepared {
        self.drained = hosts;
        self
    }

    /// With a landing for ferries from hosts of another kernel (spec/jobs/pilots.md, PL40); of `fork` none, whose only host is here.
    /// `ferry`: the program kumiko-ferry.
    ///
    /// # Errors
    /// This machine cannot listen there.
    pub fn landing(mut self, at: &Address, ferry: PathBuf) -> Result<Prepared, LandingError> {
        if self.name != Name::Fork {
            let landing = Landing::open(&self.root, at)?;
            self.landing = Some((landing, ferry));
        }
        Ok(self)
    }

    /// With these folders, and the spools, for hosts that do not have them (spec/jobs/pilots.md, PL50); after [`Prepared::landing`].
    ///
    /// # Errors
    /// Nobody can answer for them there.
    pub fn carrying(
        mut self,
        at: &Address,
        folders: Vec<PathBuf>,
    ) -> Result<Prepared, LandingError> {
        if let Some((_, ferry)) = &self.landing {
            self.files = Some(Files::open(ferry, &self.root, at, folders)?);
        }
        Ok(self)
    }

    /// How full the engine is, now and then, for as long as this is listened to; None: it is not known, as of `fork`.
    pub fn census(&self) -> watch::Receiver<Option<Census>> {
        self.census.subscribe()
    }

    /// Needs a tokio runtime around it.
    pub fn open(self, sink: Arc<dyn AttemptSink>) -> Chosen {
        let tools = Tools::here();
        match self.name {
            Name::Fork => Chosen::Fork(Fork::new(self.root, self.runner, sink)),
            Name::Slurm => Chosen::Slurm(self.cluster(slurm::Commands(tools), sink)),
            Name::Condor => Chosen::Condor(self.cluster(condor::Commands(tools), sink)),
        }
    }

    fn cluster<E: Engine + Counted + Clone>(
        self,
        engine: E,
        sink: Arc<dyn AttemptSink>,
    ) -> Cluster<Piloted<Drained<E>>> {
        let Prepared {
            root, runner, site, ..
        } = self;
        let program = Program::with_copy(runner.clone(), &root).unwrap_or_else(|error| {
            tracing::warn!(%error, "no copy of kumiko-run is kept for hosts that do not have it");
            runner.into()
        });
        let program = match self.landing {
            None => program,
            Some((landing, ferry)) => {
                landing.serve();
                if let Some(files) = &self.files {
                    files.keep();
                }
                let ferried = program.clone().ferried(ferry, &root, landing);
                let ferried = ferried.map(|program| program.carried(self.files));
                ferried.unwrap_or_else(|error| {
                    tracing::error!(%error, "kumiko-ferry is not to be had: nothing is heard from hosts of another kernel");
                    program
                })
            }
        };
        let piloted = Piloted::new(
            Drained::new(engine.clone(), self.drained),
            site.clone(),
            root.clone(),
            program.clone(),
            self.pilots,
        );
        tokio::spawn(census::keep(
            engine,
            piloted.counter(),
            self.census,
            census::EVERY,
        ));
        Cluster::new(piloted, site, root, program, sink)
    }
}

macro_rules! of_each {
    ($self:ident, $system:ident => $call:expr) => {
        match $self {
            Chosen::Fork($system) => $call,
            Chosen::Slurm($system) => $call,
            Chosen::Condor($system) => $call,
        }
    };
}

impl Chosen {
    /// As of [`Cluster::drain`]; of `fork` none, for it has no other host.
    ///
    /// # Errors
    /// As there.
    pub async fn drain(&self, hosts: &BTreeSet<String>) -> Result<BTreeSet<String>, Trouble> {
        match self {
            Chosen::Fork(_) => Ok(BTreeSet::new()),
            Chosen::Slurm(system) => system.drain(hosts).await,
            Chosen::Condor(system) => system.drain(hosts).await,
        }
    }

    /// As of [`Cluster::leaves`].
    pub fn leaves(&self, id: AttemptId) -> Option<Leaves> {
        match self {
            Chosen::Fork(_) => None,
            Chosen::Slurm(system) => system.leaves(id),
            Chosen::Condor(system) => system.leaves(id),
        }
    }

    /// As of [`Cluster::recalls`].
    pub async fn recalls(&self) {
        match self {
            Chosen::Fork(_) => std::future::pending().await,
            Chosen::Slurm(system) => system.recalls().await,
            Chosen::Condor(system) => system.recalls().await,
        }
    }

    /// As of [`Cluster::on`].
    ///
    /// # Errors
    /// As there.
    pub async fn on(&self, hosts: &BTreeSet<String>) -> Result<BTreeMap<String, u64>, Trouble> {
        match self {
            Chosen::Fork(_) => Ok(BTreeMap::new()),
            Chosen::Slurm(system) => system.on(hosts).await,
            Chosen::Condor(system) => system.on(hosts).await,
        }
    }
}

impl BatchSystem for Chosen {
    fn name(&self) -> &'static str {
        of_each!(self, system => system.name())
    }

    fn admits(&self, description: &JobDescription) -> Result<(), Refusal> {
        of_each!(self, system => system.admits(description))
    }

    fn waits(&self, id: AttemptId) -> Option<String> {
        of_each!(self, system => system.waits(id))
    }

    fn hosts(&self) -> BTreeSet<String> {
        of_each!(self, system => system.hosts())
    }

    fn is_on(&self, id: AttemptId, host: &str) -> bool {
        of_each!(self, system => system.is_on(id, host))
    }

    fn is_piloted(&self, id: AttemptId) -> bool {
        of_each!(self, system => system.is_piloted(id))
    }

    fn spares(&self) -> u64 {
        of_each!(self, system => system.spares())
    }

    async fn start(&self, spec: AttemptSpec) -> Result<(), BatchError> {
        of_each!(self, system => system.start(spec).await)
    }

    async fn adopt(&self, id: AttemptId) {
        of_each!(self, system => system.adopt(id).await)
    }

    async fn command(&self, id: AttemptId, command: AttemptCommand) {
        of_each!(self, system => system.command(id, command).await)
    }

    fn spool(&self, id: AttemptId) -> PathBuf {
        of_each!(self, system => system.spool(id))
    }

    async fn forget(&self, id: AttemptId) {
        of_each!(self, system => system.forget(id).await)
    }
}
