//! From a request to a job: at once, or in two phases with a commit between them (spec/gram G27).

use super::entry::Entry;
use super::hall::Hall;
use super::outcome::refused;
use super::remote_io;
use super::store::{Record, Stage};
use crate::desk::Desk;
use kumiko_identity::Credential;
use kumiko_job::contract::{Caller, Delegated, Jobs, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_wire::gram::GramCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn delegated(credential: &Credential) -> Result<Delegated, Refusal> {
    let left = credential.not_after().duration_since(UNIX_EPOCH);
    Ok(Delegated {
        pem: credential.to_pem().map_err(|e| {
            let what = format!("the delegated credential cannot be written: {e}");
            Refusal::new("bad_delegation", what)
        })?,
        not_after_ms: left.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
    })
}

/// A description with the credential that the job will have, and with its file for `remote_io`.
pub(super) async fn ready<J: Jobs>(
    desk: &Desk<J>,
    caller: &Caller,
    mut description: JobDescription,
    credential: &Credential,
    remote_io: Option<&str>,
) -> Result<JobDescription, Refusal> {
    let given = delegated(credential)?;
    description.credential = Some(desk.jobs.new_credential(caller, given).await?);
    match remote_io {
        Some(url) => remote_io::begin(desk, caller, description, url).await,
        None => Ok(description),
    }
}

/// Gives the job to the manager: the same number and description give the same job.
pub(super) async fn submit<J: Jobs>(
    desk: &Desk<J>,
    caller: &Caller,
    description: JobDescription,
    number: u64,
) -> Result<JobId, Refusal> {
    let key = format!("gram:{number}");
    desk.jobs.submit(caller, description, Some(key)).await
}

/// The client commits. `Err`: the job does not wait for that, or is refused.
pub(super) async fn commit<J: Jobs>(
    desk: &Arc<Desk<J>>,
    hall: &Arc<Hall>,
    entry: &Arc<Entry>,
) -> Result<(), GramCode> {
    let _deciding = entry.deciding.lock().await;
    let record = entry.record();
    let (description, until_ms) = match &record.stage {
        Stage::Uncommitted {
            description,
            until_ms,
        } => (JobDescription::clone(description), *until_ms),
        // Said twice, it is done once.
        Stage::Submitted { .. } => return Ok(()),
        Stage::Failed { code } => return Err(GramCode(*code)),
    };
    // With a credential, a commit was cut off before: the manager knows whether the job is there.
    let mut submitted = match description.credential {
        Some(_) => submit(desk, &record.caller, description.clone(), record.number).await,
        None => Err(Refusal::new("no_such_credential", "none was kept yet")),
    };
    // What was kept for it may have gone since.
    let gone = ["no_such_credential", "no_such_upload"];
    if matches!(&submitted, Err(refusal) if gone.contains(&refusal.code.as_str())) {
        let subject = hall.known_subject(&record.caller.subject).await;
        let tls = match subject {
            Ok(subject) => subject.current(desk).await,
            Err(why) => Err(why),
        };
        let tls = tls.map_err(|_| GramCode::DELEGATION_FAILED)?;
        let remote_io = record.remote_io.as_deref();
        let made = ready(
            desk,
            &record.caller,
            description,
            &tls.credential,
            remote_io,
        )
        .await;
        submitted = match made {
            Ok(description) => {
                let kept = entry.change(|record| {
                    record.stage = Stage::Uncommitted {
                        description: Box::new(description.clone()),
                        until_ms,
                    };
                });
                hall.keep(kept).await;
                submit(desk, &record.caller, description, record.number).await
            }
            Err(refusal) => Err(refusal),
        };
    }
    let stage = match &submitted {
        Ok(job) => Stage::Submitted { job: *job },
        Err(refusal) => Stage::Failed {
            code: refused(refusal).0,
        },
    };
    let kept = entry.change(|record| record.stage = stage);
    hall.keep(kept).await;
    entry.tell(desk, hall);
    submitted.map(|_| ()).map_err(|refusal| refused(&refusal))
}

/// The job will not be one.
pub(super) async fn give_up<J: Jobs>(
    desk: &Arc<Desk<J>>,
    hall: &Arc<Hall>,
    entry: &Arc<Entry>,
    code: GramCode,
) {
    let _deciding = entry.deciding.lock().await;
    let mut waited = false;
    let record: Record = entry.change(|record| {
        if let Stage::Uncommitted { .. } = record.stage {
            record.stage = Stage::Failed { code: code.0 };
            waited = true;
        }
    });
    if waited {
        hall.keep(record).await;
        entry.tell(desk, hall);
    }
}

/// Has the job fail if no commit comes in time.
pub(super) fn wait<J: Jobs>(desk: &Arc<Desk<J>>, hall: &Arc<Hall>, entry: &Arc<Entry>) {
    let (desk, hall, entry) = (desk.clone(), Arc::downgrade(hall), Arc::downgrade(entry));
    tokio::spawn(async move {
        loop {
            let left = {
                let Some(entry) = entry.upgrade() else {
                    return;
                };
                match entry.record().stage {
                    Stage::Uncommitted { .. } => entry.deadline.borrow().saturating_sub(now_ms()),
                    _ => return,
                }
            };
            if left > 0 {
                tokio::time::sleep(Duration::from_millis(left)).await;
                continue;
            }
            if let (Some(hall), Some(entry)) = (hall.upgrade(), entry.upgrade()) {
                give_up(&desk, &hall, &entry, GramCode::COMMIT_TIMED_OUT).await;
            }
            return;
        }
    });
}
