//! What can be wrong with a folder or an archive.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error("{doing} {}: {cause}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("the disk is full: {}", path.display())]
    DiskFull { path: PathBuf },
    /// The bytes are no tar archive.
    #[error("the archive is not readable: {cause}")]
    Archive { cause: io::Error },
    /// The other side went away before the archive's end.
    #[error("the archive was cut off before its end")]
    Cut,
    #[error("the archive holds {path:?}, which is {what}")]
    Name { path: String, what: &'static str },
    #[error(
        "the archive holds {path:?} as {what}: files, directories and symbolic links are taken"
    )]
    Kind { path: String, what: &'static str },
    #[error("the archive is over the limit of {limit} {of}, at {path:?}")]
    Limit {
        of: &'static str,
        limit: u64,
        path: String,
    },
    #[error(
        "the archive names {path:?} by its SHA-256, which the stock does not have: send its content"
    )]
    NotStocked { path: String },
    #[error("a header of the archive is wrong: {what}")]
    Header { what: &'static str },
    #[error("no thread could be started: {cause}")]
    Thread { cause: io::Error },
}

impl StagingError {
    /// The archive's maker is at fault, not this machine.
    pub fn is_of_archive(&self) -> bool {
        !matches!(
            self,
            StagingError::File { .. } | StagingError::DiskFull { .. } | StagingError::Thread { .. }
        )
    }

    pub(crate) fn file(doing: &'static str, path: &Path, cause: io::Error) -> StagingError {
        if matches!(
            cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ) {
            return StagingError::DiskFull {
                path: path.to_owned(),
            };
        }
        StagingError::File {
            doing,
            path: path.to_owned(),
            cause,
        }
    }
}
