//! Delegated credentials: those that wait for a job, those that jobs have, and the copy that a guest finds in its
//! directory (spec/jobs J60 to J65). All steps are idempotent: recovery does them again.
//! Not here: what is in them (kumiko-identity); here they are bytes with an owner and an end.

use crate::cell::Cell;
use crate::setup::OpenError;
use kumiko_job::contract::{Delegated, Refusal};
use kumiko_job::id::JobId;
use kumiko_job::state::Job;
use kumiko_linux::Dir;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// The name of the guest's copy in the job's own directory.
pub const PROXY: &str = ".x509_proxy";
/// What is still written; no guest sees it.
const NEW: &str = "new";
/// A guest that makes directories of that name faster than they are removed gets no credential.
const TRIES: u32 = 3;
/// What a proxy may have (spec/services V8) and its owner's name.
const MOST_BYTES: u64 = 512 * 1024;

#[derive(Debug)]
pub struct Credentials {
    directory: PathBuf,
    jobs: PathBuf,
    waiting: Mutex<HashMap<String, Waiting>>,
    /// Held while one is put into a job's directory: the newest is then the last.
    placing: Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    owner: Owner,
    since: Instant,
    claimed: bool,
}

/// A credential that a power cut could still take.
pub struct Unsynced {
    file: File,
    store: Dir,
}

impl Unsynced {
    /// On the disk when it returns.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.store.sync()
    }
}

/// The first line of a file; readers of PEM pass over it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Owner {
    subject: String,
    not_after_ms: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_of(name: &str) -> String {
    format!("{name}.pem")
}

/// No name of a waiting one has a `-` in it.
fn file_of_job(job: JobId) -> String {
    format!("job-{job}.pem")
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

impl Credentials {
    /// Opens the store of `site`, and goes on where an earlier process stopped: `jobs` are those that live or are still
    /// to be erased. What no living job has is discarded if a job had it, else it waits on for one.
    pub fn open<R>(site: &Path, jobs: &[(Job, R)]) -> Result<Credentials, OpenError> {
        let directory = site.join("credentials");
        let failed = |cause| OpenError::Directory {
            path: directory.clone(),
            cause,
        };
        crate::files::private_dir(&directory).map_err(failed)?;
        let store = Dir::open(&directory).map_err(failed)?;
        let credentials = Credentials {
            directory: directory.clone(),
            jobs: site.join("jobs"),
            waiting: Mutex::default(),
            placing: Mutex::default(),
        };
        let mut kept = HashSet::new();
        for (job, _) in jobs.iter().filter(|(job, _)| job.is_live()) {
            if let Some(credential) = &job.credential {
                kept.extend([file_of(&credential.name), file_of_job(job.id)]);
            }
        }
        for entry in store.list().map_err(failed)? {
            let Some(file) = entry.name.to_str().filter(|file| !kept.contains(*file)) else {
                continue;
            };
            if let Err(error) = credentials.go_on(&store, file) {
                tracing::warn!(%file, %error, "a stale credential stays");
            }
        }
        Ok(credentials)
    }

    /// What becomes of a file that no living job has.
    fn go_on(&self, store: &Dir, file: &str) -> io::Result<()> {
        let Some(name) = file.strip_suffix(".pem") else {
            return store.remove_all(file);
        };
        if let Some(job) = name.strip_prefix("job-").and_then(|id| id.parse().ok()) {
            return self.discard(JobId(job), None);
        }
        match read(store, file) {
            Ok((owner, _)) => {
                self.add(name.to_owned(), owner);
                Ok(())
            }
            Err(_) => store.remove_all(file),
        }
    }

    fn add(&self, name: String, owner: Owner) {
        let waiting = Waiting {
            owner,
            since: Instant::now(),
            claimed: false,
        };
        lock(&self.waiting).insert(name, waiting);
    }

    /// Keeps a credential of `subject`'s until a job takes it. On the disk once `Unsynced` says so.
    pub fn keep(&self, subject: &str, given: &Delegated, most: usize) -> Result<String, Refusal> {
        let mine = lock(&self.waiting)
            .values()
            .filter(|one| one.owner.subject == subject && !one.claimed)
            .count();
        if mine >= most {
            let message = format!(
                "you have {most} credentials here that no job has taken, the most this site allows: submit jobs with them, or wait"
            );
            return Err(Refusal::new("too_many_credentials", message));
        }
        let owner = Owner {
            subject: subject.to_owned(),
            not_after_ms: given.not_after_ms,
        };
        let name = self
            .write(&owner, &given.pem)
            .map_err(|error| not_kept(&error))?;
        self.add(name.clone(), owner);
        Ok(name)
    }

    /// Not to be guessed, and never one of an earlier process's: 128 bits of the hasher's seed (as uploads).
    fn write(&self, owner: &Owner, pem: &[u8]) -> io::Result<String> {
        let part = || RandomState::new().build_hasher().finish();
        let name = format!("{:016x}{:016x}", part(), part());
        let store = Dir::open(&self.directory)?;
        let new = format!("{name}.{NEW}");
        let written = (|| {
            let mut file = store.create_file(&new, 0o600)?;
            file.write_all(&serde_json::to_vec(owner)?)?;
            file.write_all(b"\n")?;
            file.write_all(pem)?;
            store.rename(&new, &store, file_of(&name))
        })();
        if written.is_err() {
            // The error that came first counts.
            let _ = store.remove_file(&new);
        }
        written.map(|()| name)
    }

    /// What is still to be done before somebody may rely on a credential: by descriptor, since its name changes as soon as
    /// a job has it. None: no such file, so that who wants to take it is refused, or has taken it already.
    pub fn unsynced(&self, name: &str) -> io::Result<Option<Unsynced>> {
        let store = Dir::open(&self.directory)?;
        match store.open_file(file_of(name)) {
            Ok(file) => Ok(Some(Unsynced { file, store })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a credential to a job; answers when it ends. Only one can take it.
    pub fn claim(&self, name: &str, subject: &str) -> Result<u64, Refusal> {
        match lock(&self.waiting).get_mut(name) {
            Some(one)
                if one.owner.subject == subject
                    && !one.claimed
                    && one.owner.not_after_ms > now_ms() =>
            {
                one.claimed = true;
                Ok(one.owner.not_after_ms)
            }
            _ => Err(Refusal::new(
                "no_such_credential",
                format!(
                    "there is no credential {name} of yours that no job has taken: delegate one (again)"
                ),
            )),
        }
    }

    pub fn unclaim(&self, name: &str) {
        if let Some(one) = lock(&self.waiting).get_mut(name) {
            one.claimed = false;
        }
    }

    /// A job has it now.
    pub fn forget(&self, name: &str) {
        lock(&self.waiting).remove(name);
    }

    /// Removes what nobody has taken for `keep`, and what has ended.
    pub fn sweep(&self, keep: Duration) {
        let now = now_ms();
        let mut old = Vec::new();
        lock(&self.waiting).retain(|name, one| {
            let over = one.since.elapsed() >= keep || one.owner.not_after_ms <= now;
            if over && !one.claimed {
                old.push(name.clone());
            }
            !over || one.claimed
        });
        for name in old {
            self.drop_file(&name);
        }
    }

    /// Removes one that is of no use any more.
    pub fn drop_file(&self, name: &str) {
        self.forget(name);
        let removed = Dir::open(&self.directory)
            .and_then(|store| gone_is_fine(store.remove_file(file_of(name))));
        if let Err(error) = removed {
            tracing::warn!(%name, %error, "a stale credential stays until the next start");
        }
    }

    /// What the job was given last, if anything: a proxy file with its key.
    pub fn of_job(&self, job: &Job) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let Some(given) = &job.credential else {
            return Ok(None);
        };
        let store = Dir::open(&self.directory)?;
        let (_, pem) = match read(&store, &file_of(&given.name)) {
            // `place` took it over.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                read(&store, &file_of_job(job.id))?
            }
            found => found?,
        };
        Ok(Some(pem))
    }

    /// Takes over what the job was given last, and puts a copy where its guest finds it. What the guest made of that name
    /// is replaced, and never followed.
    pub fn place(&self, cell: &Cell) -> io::Result<()> {
        let _newest = lock(&self.placing);
        let job = cell.job();
        let Some(given) = job.credential.as_ref().filter(|_| job.is_live()) else {
            return Ok(());
        };
        let store = Dir::open(&self.directory)?;
        let kept = file_of_job(job.id);
        // After a power cut one of the two names is there, and both are looked at.
        gone_is_fine(store.rename(file_of(&given.name), &store, &kept))?;
        let (_, pem) = read(&store, &kept)?;

        let new = format!("job-{}.{NEW}", job.id);
        gone_is_fine(store.remove_file(&new))?;
        store.create_file(&new, 0o600)?.write_all(&pem)?;
        let work = Dir::open(&self.jobs)?.open_dir(job.id.to_string())?;
        let mut tries = TRIES;
        loop {
            match store.rename(&new, &work, PROXY) {
                Err(error) if error.kind() == ErrorKind::IsADirectory && tries > 0 => {
                    tries -= 1;
                    work.remove_all(PROXY)?;
                }
                done => return done,
            }
        }
    }

    /// Keeps nothing of an ended job's; `name` is what it was given last. The guest's copy goes first: as long as ours
    /// is there, the next start does it again.
    pub fn discard(&self, job: JobId, name: Option<&str>) -> io::Result<()> {
        let _newest = lock(&self.placing);
        let (jobs, work) = (Dir::open(&self.jobs)?, job.to_string());
        // The guest may have taken from itself what we need.
        gone_is_fine(jobs.set_mode(&work, 0o700))?;
        match jobs.open_dir(&work) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            work => work?.remove_all(PROXY)?,
        }
        let store = Dir::open(&self.directory)?;
        for file in name.map(file_of).into_iter().chain([file_of_job(job)]) {
            gone_is_fine(store.remove_file(file))?;
        }
        Ok(())
    }
}

pub fn not_kept(error: &io::Error) -> Refusal {
    let message = format!("the credential could not be kept on the site's disk: {error}");
    Refusal::new("credential_not_kept", message)
}

/// Whose it is, and the PEM.
fn read(store: &Dir, file: &str) -> io::Result<(Owner, Zeroizing<Vec<u8>>)> {
    let mut text = Zeroizing::new(Vec::new());
    let file = store.open_file(file)?;
    file.take(MOST_BYTES).read_to_end(&mut text)?;
    let line = text.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let owner = serde_json::from_slice(&text[..line])?;
    Ok((owner, Zeroizing::new(text[line + 1..].to_vec())))
}
