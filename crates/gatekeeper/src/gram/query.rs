//! Answers to what is asked of a job (spec/gram G40 to G50).

use super::commit;
use super::delegate::{self, NotDelegated};
use super::entry::Entry;
use super::hall::Hall;
use super::incoming::Incoming;
use super::outcome::{self, Told};
use super::store::Registered;
use super::subject::Subject;
use super::submit::variables;
use crate::bounds::Budgeted;
use crate::desk::Desk;
use kumiko_identity::Peer;
use kumiko_identity::tls::TlsStream;
use kumiko_job::attempt::AttemptCommand;
use kumiko_job::contract::{JobView, Jobs, Refusal};
use kumiko_job::id::JobId;
use kumiko_job::rsl;
use kumiko_wire::gram::{
    Contacted, GramCode, JobState, Query, QueryReply, Signal, Sizes, encode_response,
};
use std::sync::Arc;
use tokio::net::TcpStream;

/// A link to a job's contact.
pub(super) type Link = Incoming<TlsStream<Budgeted<TcpStream>>>;

/// A question about one job, of its owner.
pub(super) struct Ask<'a, J> {
    pub desk: &'a Arc<Desk<J>>,
    pub hall: &'a Arc<Hall>,
    pub entry: &'a Arc<Entry>,
    pub subject: &'a Subject,
    pub peer: &'a Peer,
}

impl<J: Jobs> Ask<'_, J> {
    pub async fn answer(&self, query: Query, link: &mut Link) -> QueryReply {
        let before = match &query {
            // Its job may be gone with it.
            Query::Signal(Signal::CommitEnd) => Some(self.entry.now(self.desk).await),
            _ => None,
        };
        let failure = match self.act(query, link).await {
            Ok(()) => GramCode::SUCCESS,
            Err(code) => code,
        };
        let now = match before {
            Some(before) => before,
            None => self.entry.now(self.desk).await,
        };
        match now {
            Ok((told, _)) => QueryReply {
                state: Some(told.state),
                failure,
                job_failure: told.failure,
                // Scripts read the one word that globus-job-status prints; with an exit code it prints two lines.
                more: self.hall.contacted(None),
            },
            Err(refusal) => {
                if outcome::refused(&refusal) == GramCode::JOB_CONTACT_NOT_FOUND {
                    self.hall.forget(self.entry.record().number).await;
                }
                QueryReply {
                    state: None,
                    failure: outcome::refused(&refusal),
                    job_failure: GramCode::SUCCESS,
                    more: self.hall.contacted(None),
                }
            }
        }
    }

    async fn act(&self, query: Query, link: &mut Link) -> Result<(), GramCode> {
        let (desk, hall, entry) = (self.desk, self.hall, self.entry);
        match query {
            Query::Status => Ok(()),
            Query::Cancel | Query::Signal(Signal::Cancel) => self.cancel().await,
            Query::Register { mask, url } => {
                let record = entry.register(Registered {
                    url: url.clone(),
                    mask,
                })?;
                hall.keep(record).await;
                entry.retell(desk, hall, &url);
                Ok(())
            }
            Query::Unregister { url } => match entry.unregister(&url) {
                Some(record) => {
                    hall.keep(record).await;
                    Ok(())
                }
                None => Err(GramCode::CLIENT_CONTACT_NOT_FOUND),
            },
            Query::Renew => self.renew(link).await,
            Query::Signal(signal) => self.signal(signal).await,
        }
    }

    async fn cancel(&self) -> Result<(), GramCode> {
        let Some(job) = self.entry.job() else {
            let code = GramCode::USER_CANCELLED;
            commit::give_up(self.desk, self.hall, self.entry, code).await;
            return Ok(());
        };
        let caller = self.entry.record().caller;
        self.done(
            self.desk.jobs.cancel(&caller, job, None).await,
            GramCode::CANCEL_FAILED,
        )?;
        self.entry.ended(self.desk).await;
        Ok(())
    }

    fn done<T>(&self, done: Result<T, Refusal>, code: GramCode) -> Result<T, GramCode> {
        done.map_err(|refusal| {
            self.desk.refused(&refusal);
            code
        })
    }

    fn job(&self) -> Result<JobId, GramCode> {
        self.entry.job().ok_or(GramCode::JOB_UNSUBMITTED)
    }

    async fn signal(&self, signal: Signal) -> Result<(), GramCode> {
        let (desk, hall, entry) = (self.desk, self.hall, self.entry);
        match signal {
            // `act` has it as the query of the same meaning.
            Signal::Cancel => self.cancel().await,
            Signal::Suspend => self.send("STOP").await,
            Signal::Resume => self.send("CONT").await,
            Signal::Priority(_) | Signal::Unknown(_) => Err(GramCode::UNKNOWN_SIGNAL),
            Signal::CommitRequest => commit::commit(desk, hall, entry).await,
            Signal::CommitExtend(seconds) => {
                if entry.job().is_some() {
                    return Err(GramCode::INVALID_COMMIT);
                }
                let more = seconds.saturating_mul(1000);
                entry
                    .deadline
                    .send_modify(|until| *until = until.saturating_add(more));
                let until = *entry.deadline.borrow();
                let record = entry.change(|record| {
                    if let super::store::Stage::Uncommitted { until_ms, .. } = &mut record.stage {
                        *until_ms = until;
                    }
                });
                hall.keep(record).await;
                Ok(())
            }
            Signal::StdioUpdate(text) => self.redirect(&text).await,
            Signal::StdioSize(sizes) => {
                let (told, view) = self.now().await?;
                let view = view.ok_or(GramCode::JOB_UNSUBMITTED)?;
                agree(told, &view, sizes)
            }
            Signal::StopManager => {
                hall.keep(entry.unregister_all()).await;
                Ok(())
            }
            Signal::CommitEnd => self.end().await,
        }
    }

    async fn now(&self) -> Result<(Told, Option<JobView>), GramCode> {
        let now = self.entry.now(self.desk).await;
        now.map_err(|refusal| outcome::refused(&refusal))
    }

    async fn send(&self, name: &str) -> Result<(), GramCode> {
        let job = self.job()?;
        let Some(signal) = kumiko_linux::signals::signal_number(name) else {
            return Err(GramCode::SIGNALLING_JOB);
        };
        let caller = self.entry.record().caller;
        let command = AttemptCommand::Signal { signal };
        self.done(
            self.desk.jobs.command(&caller, job, command).await,
            GramCode::SIGNALLING_JOB,
        )
    }

    async fn redirect(&self, text: &str) -> Result<(), GramCode> {
        let job = self.job()?;
        let record = self.entry.record();
        let variables = variables(self.hall, &record.caller, &record.contact);
        let moved = rsl::parse(text)
            .and_then(|spec| rsl::stdio_update(&spec, &variables))
            .and_then(|update| Ok((update.destinations()?, update.remote_io_url)));
        let ((stdout, stderr), remote_io) = moved.map_err(|error| {
            tracing::info!("an update of stdout and stderr is refused: {error}");
            error.gram()
        })?;
        if let Some(url) = remote_io {
            let record = self.entry.change_remote_io(self.desk, &url).await?;
            self.hall.keep(record).await;
            if stdout.is_none() && stderr.is_none() {
                return Ok(());
            }
        }
        self.done(
            self.desk
                .jobs
                .redirect(&record.caller, job, stdout, stderr)
                .await,
            GramCode::SIGNALLING_JOB,
        )
    }

    /// The end is known to the client: nothing of the job is kept.
    async fn end(&self) -> Result<(), GramCode> {
        let (told, view) = self.now().await?;
        if !told.is_end() {
            return Err(GramCode::INVALID_COMMIT);
        }
        let record = self.entry.record();
        if let Some(view) = view {
            let removed = self.desk.jobs.remove(&record.caller, view.id).await;
            self.done(removed, GramCode::INVALID_COMMIT)?;
        }
        self.hall.forget(record.number).await;
        Ok(())
    }

    async fn renew(&self, link: &mut Link) -> Result<(), GramCode> {
        let failed = |why: &NotDelegated| {
            tracing::info!("a credential is not renewed: {why}");
            GramCode::DELEGATION_FAILED
        };
        let go_on = QueryReply {
            state: None,
            failure: GramCode::SUCCESS,
            job_failure: GramCode::SUCCESS,
            more: Contacted::default(),
        };
        link.send(&encode_response(&go_on.encode()))
            .await
            .map_err(|why| failed(&why.into()))?;
        let (waiting, certificates) = delegate::renewal(&self.hall.keys, link)
            .await
            .map_err(|why| failed(&why))?;
        let credential = delegate::judge(self.desk, self.peer, waiting, certificates)
            .await
            .map_err(|why| failed(&why))?;
        let offered = self
            .subject
            .offer(self.desk, &self.hall.store, &credential)
            .await;
        offered.map_err(|why| {
            tracing::error!("a credential is not renewed: {why}");
            GramCode::DELEGATION_FAILED
        })?;
        let Some(job) = self.entry.job() else {
            return Ok(());
        };
        let caller = self.entry.record().caller;
        let given = self.done(commit::delegated(&credential), GramCode::DELEGATION_FAILED)?;
        self.done(
            self.desk.jobs.renew(&caller, job, given).await,
            GramCode::DELEGATION_FAILED,
        )
    }
}

/// Has the client all of the output (G42)?
fn agree(told: Told, view: &JobView, sizes: Sizes) -> Result<(), GramCode> {
    if !matches!(told.state, JobState::Done | JobState::Failed) {
        return Err(GramCode::STILL_STREAMING);
    }
    let same = |has: Option<u64>, wrote| has.is_none_or(|has| has == wrote);
    if same(sizes.stdout_bytes, view.stdout_bytes) && same(sizes.stderr_bytes, view.stderr_bytes) {
        Ok(())
    } else {
        Err(GramCode::STDIO_SIZE)
    }
}
