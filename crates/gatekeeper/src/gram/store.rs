//! What the door has to remember across a restart of the site: one small file for each job, and for each subject its port
//! and credential. Files are replaced whole. Not here: jobs themselves (the manager's log).

use kumiko_job::contract::Caller;
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A job that was asked for over GRAM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The first number of its contact.
    pub number: u64,
    /// The second.
    pub stamp: u64,
    pub contact: String,
    pub caller: Caller,
    pub stages_out: bool,
    pub stage: Stage,
    /// What its file says where its client's GASS server is, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_io: Option<String>,
    pub callbacks: Vec<Registered>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Until a commit comes.
    Uncommitted {
        description: Box<JobDescription>,
        /// Unix time.
        until_ms: u64,
    },
    Submitted {
        job: JobId,
    },
    /// It ended before it was one of ours: GRAM's code.
    Failed {
        code: u16,
    },
}

/// A client that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registered {
    pub url: String,
    pub mask: u32,
}

/// Who has contacts, and where they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    /// Names its files.
    pub id: u64,
    pub subject: String,
    pub port: u16,
}

#[derive(Clone, Debug)]
pub(super) struct Store {
    jobs: PathBuf,
    subjects: PathBuf,
}

impl Store {
    pub fn open(state: &Path) -> io::Result<Store> {
        let store = Store {
            jobs: state.join("jobs"),
            subjects: state.join("subjects"),
        };
        for folder in [&store.jobs, &store.subjects] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        Ok(store)
    }

    fn job(&self, number: u64) -> PathBuf {
        self.jobs.join(format!("{number}.json"))
    }

    /// On disk when it returns.
    pub fn keep(&self, record: &Record) -> io::Result<()> {
        replace(&self.job(record.number), record)
    }

    pub fn forget(&self, number: u64) -> io::Result<()> {
        match std::fs::remove_file(self.job(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// All of them; what cannot be read is logged and left where it is.
    pub fn records(&self) -> io::Result<Vec<Record>> {
        read_all(&self.jobs)
    }

    pub fn places(&self) -> io::Result<Vec<Place>> {
        read_all(&self.subjects)
    }

    pub fn keep_place(&self, place: &Place) -> io::Result<()> {
        replace(&self.subjects.join(format!("{}.json", place.id)), place)
    }

    /// The file of a subject's credential.
    pub fn credential(&self, place: u64) -> PathBuf {
        self.subjects.join(format!("{place}.pem"))
    }
}

fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_data()?;
    std::fs::rename(&new, path)
}

fn read_all<T: DeserializeOwned>(folder: &Path) -> io::Result<Vec<T>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)) {
            Ok(value) => found.push(value),
            Err(cause) => {
                tracing::error!(path = %path.display(), %cause, "what GRAM's door kept cannot be read");
            }
        }
    }
    Ok(found)
}
