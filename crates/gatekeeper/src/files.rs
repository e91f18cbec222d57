//! Files of a job, for both doors.

use kumiko_job::contract::Refusal;
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
use kumiko_staging::StagingError;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::Path;

/// A directory of more is not listed but fetched as an archive.
const LISTED: usize = 10_000;

/// One name in a job's directory, as REST tells it (spec/rest R8).
#[derive(Debug, Serialize)]
pub(crate) struct FileView {
    pub name: String,
    pub kind: &'static str,
    pub bytes: u64,
    /// Permission bits, octal.
    pub mode: String,
    /// Unix time, milliseconds.
    pub modified_ms: u64,
}

/// What a path in a job's directory leads to.
#[derive(Debug)]
pub(crate) enum Found {
    File { file: File, bytes: u64 },
    Directory(Vec<FileView>),
}

/// Looks a path up beneath the job's directory, through no link. Blocks on the disk.
pub(crate) fn find(root: &Path, path: &str) -> Result<Found, Refusal> {
    let told = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Refusal::new("no_such_file", format!("the job has no file {path:?}"))
        }
        io::ErrorKind::PermissionDenied => {
            Refusal::new("unreadable_file", format!("{path:?} cannot be read: {e}"))
        }
        _ => Refusal::new(
            "no_such_file",
            format!(
                "{path:?} cannot be opened: {e}; links are not followed, fetch what they lead to"
            ),
        ),
    };
    let root = Dir::open(root).map_err(told)?;
    let path_in = Path::new(path);
    if root.stat(path_in).map_err(told)?.kind == Kind::Directory {
        let dir = root.open_dir(path_in).map_err(told)?;
        let entries = dir.list().map_err(told)?;
        if entries.len() > LISTED {
            return Err(Refusal::new(
                "too_many_files",
                format!(
                    "{path:?} holds {} names; fetch it as an archive",
                    entries.len()
                ),
            ));
        }
        return Ok(Found::Directory(
            entries
                .into_iter()
                .filter_map(|e| view(&dir, &e.name))
                .collect(),
        ));
    }
    let file = root.open_file(path_in).map_err(told)?;
    let metadata = file.metadata().map_err(told)?;
    if !metadata.is_file() {
        return Err(Refusal::new(
            "no_such_file",
            format!("{path:?} is neither a file nor a directory"),
        ));
    }
    Ok(Found::File {
        file,
        bytes: metadata.len(),
    })
}

/// None: it was removed while we looked.
fn view(dir: &Dir, name: &std::ffi::OsStr) -> Option<FileView> {
    let meta = dir.stat(name).ok()?;
    Some(FileView {
        name: name.to_string_lossy().into_owned(),
        kind: match meta.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Link => "link",
            Kind::Other => "other",
        },
        bytes: meta.size_bytes,
        mode: format!("{:04o}", meta.mode),
        modified_ms: u64::try_from(meta.modified.as_millis()).unwrap_or(u64::MAX),
    })
}

/// A failed transfer, in the words of spec/errors.toml.
pub(crate) fn staging_refusal(error: &StagingError) -> Refusal {
    let message = error.to_string();
    match error {
        StagingError::Limit { .. } => Refusal::new("archive_too_large", message),
        StagingError::DiskFull { .. } => Refusal::new("disk_full", message),
        StagingError::NotStocked { .. } => Refusal::new("not_stocked", message),
        error if error.is_of_archive() => Refusal::new("bad_archive", message),
        _ => Refusal::new("staging_failed", message),
    }
}
