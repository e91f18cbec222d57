//! Directories of jobs and uploads, and who owns an upload. All steps are idempotent: recovery does them again.
//! Not here: what is in them (staging), spools (the batch system's).

use crate::setup::OpenError;
use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_linux::Dir;
use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a lock may outlive its process: a child that this was just starting has it until its own program begins.
const LET_GO: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Files {
    pub jobs: PathBuf,
    pub uploads: PathBuf,
    pub dumps: PathBuf,
    pub log: PathBuf,
    pub lock: PathBuf,
}

pub fn private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Files {
    pub fn new(directory: &Path) -> Files {
        Files {
            jobs: directory.join("jobs"),
            uploads: directory.join("uploads"),
            dumps: directory.join("dumps"),
            log: directory.join("events.db"),
            lock: directory.join("lock"),
        }
    }

    /// The directory itself, and the lock that one process holds as long as it lives.
    pub async fn hold(&self, directory: &Path) -> Result<Hold, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| OpenError::Directory { path, cause }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed(directory))?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.lock)
            .map_err(failed(&self.lock))?;
        let until = Instant::now() + LET_GO;
        loop {
            match kumiko_linux::spooling::try_lock(&file).map_err(failed(&self.lock))? {
                true => return Ok(Hold(file)),
                false if Instant::now() < until => tokio::time::sleep(LET_GO / 50).await,
                false => {
                    return Err(OpenError::Busy {
                        path: directory.to_owned(),
                    });
                }
            }
        }
    }

    /// Was there ever a job here?
    pub fn has_jobs(&self) -> bool {
        std::fs::read_dir(&self.jobs).is_ok_and(|mut entries| entries.next().is_some())
    }

    pub fn make(&self) -> Result<(), OpenError> {
        for path in [&self.jobs, &self.uploads, &self.dumps] {
            private_dir(path).map_err(|cause| OpenError::Directory {
                path: path.clone(),
                cause,
            })?;
        }
        Ok(())
    }

    /// The folder of a job, which its guest sees as its own.
    pub fn job(&self, job: JobId) -> PathBuf {
        self.jobs.join(job.to_string())
    }

    /// Where dumps of a job's guests lie, which no guest sees.
    pub fn dumps_of(&self, job: JobId) -> PathBuf {
        self.dumps.join(job.to_string())
    }

    /// Nobody goes on from dumps of this job any more.
    pub fn remove_dumps(&self, job: JobId) -> io::Result<()> {
        Dir::open(&self.dumps)?.remove_all(job.to_string())
    }

    /// Makes the job's own directory, from its upload if it has one.
    pub fn prepare(&self, job: JobId, description: &JobDescription) -> io::Result<PathBuf> {
        let folder = self.job(job);
        let Some(input) = &description.input else {
            private_dir(&folder)?;
            return Ok(folder);
        };
        if !folder.exists() {
            match std::fs::rename(self.uploads.join(input), &folder) {
                // An attempt and what is moved for it begin at once: another was first.
                Err(error) if error.kind() == io::ErrorKind::NotFound && folder.exists() => {}
                renamed => renamed?,
            }
            sync_dir(&self.jobs)?;
            sync_dir(&self.uploads)?;
        }
        Ok(folder)
    }

    /// Removes what is left of a job on disk.
    pub fn erase(&self, job: JobId, input: Option<&str>) -> io::Result<()> {
        self.remove_dumps(job)?;
        Dir::open(&self.jobs)?.remove_all(job.to_string())?;
        input.map_or(Ok(()), |input| self.remove_upload(input))
    }

    pub fn remove_upload(&self, name: &str) -> io::Result<()> {
        Dir::open(&self.uploads)?.remove_all(name)
    }

    /// Removes uploads of a former process, but for those that a living job is still to take.
    pub fn sweep_uploads(&self, wanted: &HashSet<String>) {
        let Ok(entries) = std::fs::read_dir(&self.uploads) else {
            return;
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| !wanted.contains(name)) {
            if let Err(error) = self.remove_upload(&name) {
                tracing::warn!(upload = %name, %error, "a stale upload stays");
            }
        }
    }
}

/// The lock of a directory, given back when dropped or when the process dies.
#[derive(Debug)]
pub struct Hold(File);

impl Drop for Hold {
    fn drop(&mut self) {
        // Should it fail, closing the file gives it back, if maybe a moment later.
        let _ = kumiko_linux::spooling::unlock(&self.0);
    }
}

/// Uploads of this process that no job has taken, and whose they are.
#[derive(Debug, Default)]
pub struct Uploads {
    uploads: Mutex<HashMap<String, Upload>>,
}

#[derive(Debug)]
struct Upload {
    subject: String,
    since: Instant,
    claimed: bool,
}

impl Uploads {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Upload>) -> T) -> T {
        work(&mut self.uploads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new name for an upload of `subject`; None, if it has `most` already that are `there` (one that failed is not).
    /// Not to be guessed, and never one of an earlier process's: 128 bits of the hasher's seed, which the standard
    /// library takes from the kernel.
    pub fn add(&self, subject: &str, most: usize, there: impl Fn(&str) -> bool) -> Option<String> {
        let part = || std::hash::RandomState::new().build_hasher().finish();
        let name = format!("{:016x}{:016x}", part(), part());
        self.with(|uploads| {
            let is_mine = |upload: &Upload| upload.subject == subject && !upload.claimed;
            if uploads.values().filter(|upload| is_mine(upload)).count() >= most {
                uploads.retain(|name, upload| !is_mine(upload) || there(name));
                if uploads.values().filter(|upload| is_mine(upload)).count() >= most {
                    return None;
                }
            }
            let upload = Upload {
                subject: subject.to_owned(),
                since: Instant::now(),
                claimed: false,
            };
            uploads.insert(name.clone(), upload);
            Some(name)
        })
    }

    /// Gives an upload to a job. A job takes it whole, so only one can.
    pub fn claim(&self, name: &str, subject: &str) -> Result<(), Refusal> {
        self.with(|uploads| match uploads.get_mut(name) {
            Some(upload) if upload.subject == subject && !upload.claimed => {
                upload.claimed = true;
                Ok(())
            }
            _ => Err(Refusal::new(
                "no_such_upload",
                format!("there is no upload {name} of yours that no job has taken: upload the folder (again)"),
            )),
        })
    }

    pub fn unclaim(&self, name: &str) {
        self.with(|uploads| {
            if let Some(upload) = uploads.get_mut(name) {
                upload.claimed = false;
            }
        });
    }

    pub fn forget(&self, name: &str) {
        self.with(|uploads| uploads.remove(name));
    }

    /// Names of uploads that nobody has taken for `keep`; they are nobody's any more.
    pub fn expire(&self, keep: Duration) -> Vec<String> {
        self.with(|uploads| {
            let old = |upload: &Upload| !upload.claimed && upload.since.elapsed() >= keep;
            let names: Vec<String> = uploads
                .iter()
                .filter(|(_, upload)| old(upload))
                .map(|(name, _)| name.clone())
                .collect();
            uploads.retain(|_, upload| !old(upload));
            names
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_job_takes_its_upload_once_whoever_makes_its_directory_at_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path());
        files.make().unwrap();
        for number in 1..=20 {
            let upload = files.uploads.join("upload");
            private_dir(&upload).unwrap();
            std::fs::write(upload.join("file"), "its").unwrap();
            let mut description = JobDescription::new("/bin/true", &[]);
            description.input = Some("upload".to_owned());
            let (job, together) = (JobId(number), Barrier::new(3));
            let made = || {
                together.wait();
                files.prepare(job, &description)
            };
            let folders = std::thread::scope(|scope| {
                let makers = [scope.spawn(made), scope.spawn(made), scope.spawn(made)];
                makers.map(|maker| maker.join().unwrap().unwrap())
            });
            assert_eq!(folders, [files.job(job), files.job(job), files.job(job)]);
            assert_eq!(std::fs::read(files.job(job).join("file")).unwrap(), b"its");
        }
    }
}
