//! What every answer needs, whichever door the question came through.

use crate::admit::Visitor;
use crate::bounds::Bounds;
use crate::config::Service;
use crate::files::staging_refusal;
use crate::keys::Trust;
use crate::meter::{Gauges, Meter};
use bytes::Bytes;
use kumiko_job::attempt::STDIN_WINDOW_BYTES;
use kumiko_job::contract::{Jobs, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_staging::Unpacking;
use kumiko_staging::stock::Sum;
use kumiko_wire::api::{SiteLimits, SiteView, Stocked, Uploaded};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Opaque outside this crate.
pub struct Desk<J> {
    pub(crate) config: Service,
    pub(crate) jobs: Arc<J>,
    pub(crate) sessions: kumiko_session::Server,
    pub(crate) trust: Trust,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) meter: Arc<Meter>,
    /// Set once GRAM's door is open.
    pub(crate) gram: std::sync::OnceLock<Arc<crate::gram::Hall>>,
    /// Takes streams of calls; set before connections are served, where it is offered.
    pub(crate) calls: std::sync::OnceLock<Arc<dyn kumiko_session::Service>>,
    transfers: Arc<Semaphore>,
}

impl<J> std::fmt::Debug for Desk<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk")
            .field("site", &self.config.name)
            .finish_non_exhaustive()
    }
}

/// Archives on their way in or out at once; each has a thread and some 300 kB.
const TRANSFERS: usize = 64;

impl<J> Desk<J> {
    pub(crate) fn new(
        config: Service,
        jobs: Arc<J>,
        trust: Trust,
        bounds: Arc<Bounds>,
        meter: Arc<Meter>,
    ) -> Desk<J> {
        let sessions = kumiko_session::Server::new(config.limits.session.clone());
        Desk {
            config,
            jobs,
            sessions,
            trust,
            bounds,
            meter,
            gram: std::sync::OnceLock::new(),
            calls: std::sync::OnceLock::new(),
            transfers: Arc::new(Semaphore::new(TRANSFERS)),
        }
    }

    pub(crate) fn site(&self, visitor: &Visitor) -> SiteView {
        SiteView {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            subject: visitor.caller.subject.clone(),
            account: visitor.caller.account.clone(),
            limits: SiteLimits {
                upload_bytes: self.config.limits.upload.bytes,
                upload_entries: self.config.limits.upload.entries,
                stdin_window_bytes: STDIN_WINDOW_BYTES,
            },
        }
    }

    /// Before anything is started: facts of the connection that the manager does not know.
    pub(crate) fn may_start(visitor: &Visitor) -> Result<(), Refusal> {
        if visitor.may_start {
            return Ok(());
        }
        Err(Refusal::new(
            "limited_proxy",
            format!(
                "a limited proxy of {} cannot start jobs here; show a full one (`kumiko identity proxy`)",
                visitor.caller.subject
            ),
        ))
    }

    /// A place for one archive, until it is dropped.
    pub(crate) fn transfer(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.transfers.clone().try_acquire_owned().map_err(|_| {
            Refusal::new(
                "too_many_transfers",
                format!("{TRANSFERS} archives are on their way already; try again soon"),
            )
        })
    }

    /// Counts a refusal on its way out.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.meter.refusals.fetch_add(1, Relaxed);
        tracing::info!(code = %refusal.code, "{refusal}");
    }
}

impl<J: Jobs> Desk<J> {
    pub(crate) fn metrics(&self) -> String {
        self.meter.text(&Gauges {
            connections: self.bounds.count(),
            session: self.sessions.stats(),
            jobs: self.jobs.gauges(),
        })
    }

    pub(crate) async fn submit(
        &self,
        visitor: &Visitor,
        description: JobDescription,
        key: Option<String>,
    ) -> Result<JobId, Refusal> {
        Self::may_start(visitor)?;
        self.jobs.submit(&visitor.caller, description, key).await
    }
    /// What the end of a job's events means: in order if the job was removed, else the site is going down.
    pub(crate) async fn events_ended(&self, visitor: &Visitor, job: JobId) -> Result<(), Refusal> {
        match self.jobs.show(&visitor.caller, job).await {
            Err(_) => Ok(()),
            Ok(view) => Err(Refusal::new(
                "site_closing",
                format!(
                    "the site is going down: watch again after event {} when it is back",
                    view.last_event
                ),
            )),
        }
    }

    /// What of this the account's stock has: it need not be uploaded.
    pub(crate) async fn stocked(
        &self,
        visitor: &Visitor,
        sums: Vec<String>,
    ) -> Result<Stocked, Refusal> {
        Self::may_start(visitor)?;
        let sums: Option<Vec<Sum>> = sums.iter().map(|text| Sum::parse(text)).collect();
        let sums = sums.ok_or_else(|| {
            let what = "a SHA-256 has 64 hexadecimal digits".to_owned();
            Refusal::new("bad_request", what)
        })?;
        let Some(stock) = self.config.stock.clone() else {
            return Ok(Stocked::default());
        };
        let held = move || {
            let there = |sum: &Sum| matches!(stock.take(sum), Ok(Some(_)));
            let held = sums.iter().filter(|sum| there(sum));
            held.map(Sum::to_string).collect()
        };
        let held = tokio::task::spawn_blocking(held).await;
        held.map(|held| Stocked { held })
            .map_err(|e| Refusal::new("bug", format!("looking into the stock: {e}")))
    }

    /// Begins to take a folder in.
    pub(crate) async fn upload(&self, visitor: &Visitor) -> Result<Upload, Refusal> {
        Self::may_start(visitor)?;
        let place = self.transfer()?;
        let (input, folder) = self.jobs.new_upload(&visitor.caller).await?;
        let (limits, stock) = (self.config.limits.upload, self.config.stock.clone());
        let unpacking = Unpacking::whole_or_gone(folder.clone(), limits, stock);
        Ok(Upload {
            input,
            folder,
            unpacking,
            _place: place,
        })
    }
}

/// A folder on its way in; what is not finished goes.
pub(crate) struct Upload {
    input: String,
    folder: PathBuf,
    unpacking: Unpacking,
    _place: OwnedSemaphorePermit,
}

impl Upload {
    pub async fn push(&mut self, data: Bytes) -> Result<(), Refusal> {
        self.unpacking
            .push(data)
            .await
            .map_err(|e| staging_refusal(&e))
    }

    pub async fn finish(self) -> Result<Uploaded, Refusal> {
        let unpacked = self
            .unpacking
            .finish()
            .await
            .map_err(|e| staging_refusal(&e))?;
        let folder = self.folder;
        let mark_us = tokio::task::spawn_blocking(move || kumiko_staging::mark(&folder))
            .await
            .map_err(|e| Refusal::new("bug", format!("marking an upload: {e}")))?
            .map_err(|e| staging_refusal(&e))?;
        Ok(Uploaded {
            input: self.input,
            entries: unpacked.entries,
            bytes: unpacked.bytes,
            mark_us,
        })
    }
}
