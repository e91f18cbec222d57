//! A request for a job (spec/gram G24 to G27): RSL in, a contact and a code out.

use super::commit::{self, now_ms};
use super::contact::numbers;
use super::entry::Entry;
use super::hall::{Hall, random};
use super::helpers::{self, Helper};
use super::outcome::refused;
use super::store::{Record, Registered, Stage};
use super::subject::NoSubject;
use crate::admit::Visitor;
use crate::desk::Desk;
use kumiko_identity::Credential;
use kumiko_job::contract::{Caller, Jobs, Refusal};
use kumiko_job::rsl::{self, RslError, Submission, Variables};
use kumiko_wire::gram::{GramCode, JobReply, JobRequest};
use std::io;
use std::sync::Arc;

/// Jobs of one subject that wait for a commit: each is a file.
const MOST_UNCOMMITTED: usize = 1000;
/// A day: a client that is away for longer does not come back for it.
const LONGEST_WAIT_S: u64 = 24 * 3600;

/// Why a request comes to nothing.
#[derive(Debug, thiserror::Error)]
enum NoJob {
    #[error(transparent)]
    Rsl(#[from] RslError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Subject(#[from] NoSubject),
    #[error("no number could be drawn: {0}")]
    Random(#[source] io::Error),
    #[error("what belongs to the job's contact could not be kept")]
    NotKept,
    #[error("no job of yours has the contact {0}")]
    NoSuchContact(String),
    #[error("{MOST_UNCOMMITTED} jobs of yours wait for their commit already")]
    TooManyUncommitted,
    #[error("the cached output could not be removed: {0}")]
    Uncache(#[source] io::Error),
    #[error(
        "output cannot be followed by globus-job-get-output here: `kumiko job log --follow` does, and globusrun -o prints what comes"
    )]
    Follow,
    #[error("another client cannot be told of it")]
    Callbacks(GramCode),
    #[error("its remote_io_url cannot be changed: {0}")]
    RemoteIo(GramCode),
}

impl NoJob {
    fn gram(&self) -> GramCode {
        match self {
            NoJob::Rsl(error) => error.gram(),
            NoJob::Refused(refusal) => refused(refusal),
            NoJob::Subject(NoSubject::NotDelegated | NoSubject::Credential(_)) => {
                GramCode::DELEGATION_FAILED
            }
            NoJob::Subject(_) | NoJob::Random(_) | NoJob::NotKept | NoJob::TooManyUncommitted => {
                GramCode::NO_RESOURCES
            }
            NoJob::Uncache(_) => GramCode::OPENING_CACHE,
            NoJob::Follow => GramCode::RSL_EXECUTABLE,
            NoJob::NoSuchContact(_) => GramCode::NO_STATE_FILE,
            NoJob::Callbacks(code) | NoJob::RemoteIo(code) => *code,
        }
    }
}

/// What a request came to, and the job that its clients are to be told of once the answer is out.
pub(super) struct Answered {
    pub reply: JobReply,
    pub entry: Option<Arc<Entry>>,
}

/// One request of a visitor's.
pub(super) struct Request<'a, J> {
    pub desk: &'a Arc<Desk<J>>,
    pub hall: &'a Arc<Hall>,
    pub visitor: &'a Visitor,
    /// As the client names this host.
    pub host: String,
    pub credential: Option<&'a Credential>,
}

impl<J: Jobs> Request<'_, J> {
    pub async fn answer(&self, request: JobRequest) -> Answered {
        match self.job(request).await {
            Ok((status, entry)) => Answered {
                reply: JobReply {
                    status,
                    contact: entry.as_ref().map(|entry| entry.record().contact),
                    more: self.hall.contacted(None),
                },
                entry,
            },
            Err(why) => {
                let subject = &self.visitor.caller.subject;
                tracing::info!(%subject, code = %why.gram(), "a request over GRAM is refused: {why}");
                let mut more = self.hall.contacted(None);
                more.message = Some(why.to_string());
                Answered {
                    reply: JobReply {
                        status: why.gram(),
                        contact: None,
                        more,
                    },
                    entry: None,
                }
            }
        }
    }

    async fn job(&self, request: JobRequest) -> Result<(GramCode, Option<Arc<Entry>>), NoJob> {
        let spec = rsl::parse(&request.rsl)?;
        let callbacks: Vec<Registered> = request
            .callback
            .into_iter()
            .map(|url| Registered {
                url,
                mask: request.state_mask,
            })
            .collect();
        let caller = &self.visitor.caller;
        let subject = self
            .hall
            .subject(self.desk, &self.visitor.peer.identity, self.credential)
            .await?;
        let (number, stamp) = (random().map_err(NoJob::Random)?, now_ms());
        let contact = format!(
            "https://{}:{}/{number}/{stamp}/",
            self.host, subject.place.port
        );
        let mut variables = variables(self.hall, caller, &contact);
        if let Some(scratch) = rsl::scratch_directory(&spec) {
            variables.insert("SCRATCH_DIRECTORY".to_owned(), scratch);
        }
        let submission = match rsl::request(&spec, &variables)? {
            rsl::Request::Submit(submission) => submission,
            rsl::Request::Restart(restart) => return self.restart(&restart, callbacks).await,
        };
        let submission = self.helped(*submission).await?;
        let description = self.description(&submission, &contact)?;
        if submission.dry_run {
            return Ok((GramCode::DRY_RUN, None));
        }
        let (status, stage) = match submission.two_phase_s {
            Some(seconds) => {
                if self.hall.uncommitted(&caller.subject) >= MOST_UNCOMMITTED {
                    return Err(NoJob::TooManyUncommitted);
                }
                let wait_s = seconds.min(LONGEST_WAIT_S);
                let until_ms = now_ms().saturating_add(wait_s.saturating_mul(1000));
                let description = Box::new(description);
                let stage = Stage::Uncommitted {
                    description,
                    until_ms,
                };
                (GramCode::WAITING_FOR_COMMIT, stage)
            }
            None => {
                let tls = subject.current(self.desk).await?;
                let credential = self.credential.unwrap_or(&tls.credential);
                let remote_io = submission.remote_io_url.as_deref();
                let description =
                    commit::ready(self.desk, caller, description, credential, remote_io).await?;
                let job = commit::submit(self.desk, caller, description, number).await?;
                (GramCode::SUCCESS, Stage::Submitted { job })
            }
        };
        let entry = Entry::new(Record {
            number,
            stamp,
            contact,
            caller: caller.clone(),
            stages_out: !submission.stage_out.is_empty(),
            stage,
            remote_io: submission.remote_io_url,
            callbacks,
        });
        self.hall.insert(entry.clone());
        if !self.hall.keep(entry.record()).await {
            return Err(NoJob::NotKept);
        }
        if submission.two_phase_s.is_some() {
            commit::wait(self.desk, self.hall, &entry);
        }
        Ok((status, Some(entry)))
    }

    fn description(
        &self,
        submission: &Submission,
        contact: &str,
    ) -> Result<kumiko_job::description::JobDescription, RslError> {
        let mut description =
            submission.describe(&self.visitor.caller.account, self.hall.config.batch)?;
        let environment = [
            ("GLOBUS_GRAM_JOB_CONTACT", contact),
            ("GLOBUS_LOCATION", &self.hall.config.location),
        ];
        for (name, value) in environment {
            description
                .environment
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
        }
        Ok(description)
    }

    /// A command of GT's asks for something that is done here (G28).
    async fn helped(&self, submission: Submission) -> Result<Submission, NoJob> {
        let Some(helper) = helpers::recognise(&submission, &self.hall.config.location) else {
            return Ok(submission);
        };
        match &helper {
            Helper::Follow => return Err(NoJob::Follow),
            Helper::Output { url, .. } => {
                self.cached_job(url)?;
            }
            Helper::Clean { urls } if submission.dry_run => {
                for url in urls {
                    self.cached_job(url)?;
                }
            }
            Helper::Clean { urls } => {
                for url in urls {
                    let entry = self.cached_job(url)?;
                    let (uncache, url) = (self.hall.config.uncache.clone(), url.clone());
                    tokio::task::spawn_blocking(move || uncache(&url))
                        .await
                        .map_err(io::Error::other)
                        .and_then(|gone| gone)
                        .map_err(NoJob::Uncache)?;
                    // Whether it can go already is the manager's to say; else it goes with its time.
                    if let Some(job) = entry.job() {
                        let _ = self.desk.jobs.remove(&self.visitor.caller, job).await;
                    }
                }
            }
        }
        Ok(helpers::instead(submission, &helper))
    }

    /// The caller's job to which an entry of the cache belongs.
    fn cached_job(&self, url: &str) -> Result<Arc<Entry>, NoJob> {
        let none = || NoJob::NoSuchContact(url.to_owned());
        let contact = helpers::contact(url).ok_or_else(none)?;
        self.known(contact)
    }

    /// The caller's job with a contact.
    fn known(&self, contact: &str) -> Result<Arc<Entry>, NoJob> {
        let none = || NoJob::NoSuchContact(contact.to_owned());
        let path = contact.splitn(4, '/').nth(3);
        let (number, stamp) = path
            .and_then(|path| numbers(&format!("/{path}")))
            .ok_or_else(none)?;
        let entry = self.hall.entry(number).ok_or_else(none)?;
        let record = entry.record();
        if record.stamp != stamp || record.caller != self.visitor.caller {
            return Err(none());
        }
        Ok(entry)
    }

    /// The client wants to be told of a job that is there.
    async fn restart(
        &self,
        restart: &rsl::Restart,
        callbacks: Vec<Registered>,
    ) -> Result<(GramCode, Option<Arc<Entry>>), NoJob> {
        let entry = self.known(&restart.restart)?;
        let record = entry.record();
        let (stdout, stderr) = restart.update.destinations()?;
        let uncommitted = matches!(record.stage, Stage::Uncommitted { .. });
        if let Some(url) = &restart.update.remote_io_url {
            let changed = entry.change_remote_io(self.desk, url).await;
            self.hall.keep(changed.map_err(NoJob::RemoteIo)?).await;
        }
        if let (Stage::Submitted { job }, true) =
            (record.stage, stdout.is_some() || stderr.is_some())
        {
            let moved = self.desk.jobs.redirect(&record.caller, job, stdout, stderr);
            moved.await?;
        }
        for registered in callbacks {
            let record = entry.register(registered).map_err(NoJob::Callbacks)?;
            self.hall.keep(record).await;
        }
        let status = if uncommitted {
            GramCode::WAITING_FOR_COMMIT
        } else {
            GramCode::SUCCESS
        };
        Ok((status, Some(entry)))
    }
}

/// What RSL texts find defined (spec/rsl R12).
pub(super) fn variables(hall: &Hall, caller: &Caller, contact: &str) -> Variables {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cached = |stream: &str| format!("x-gass-cache://{contact}{stream}");
    let known = [
        ("HOME", rsl::HOME.to_owned()),
        ("LOGNAME", caller.account.clone()),
        ("GLOBUS_ID", caller.subject.clone()),
        ("GLOBUS_LOCATION", hall.config.location.clone()),
        ("GLOBUS_GRAM_JOB_CONTACT", contact.to_owned()),
        ("GLOBUS_CACHED_STDOUT", cached("stdout")),
        ("GLOBUS_CACHED_STDERR", cached("stderr")),
        ("GLOBUS_HOST_MANUFACTURER", "pc".to_owned()),
        ("GLOBUS_HOST_CPUTYPE", std::env::consts::ARCH.to_owned()),
        ("GLOBUS_HOST_OSNAME", "Linux".to_owned()),
        ("GLOBUS_HOST_OSVERSION", version.trim().to_owned()),
    ];
    known
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
