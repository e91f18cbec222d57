//! Where files of a job lie: in its own directory, by descriptor and through no link (S3), and under way in ours.

use crate::fault::TransferError;
use kumiko_job::id::JobId;
use kumiko_job::staging::{Item, in_job_directory};
use kumiko_linux::Dir;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// For the owner alone, as the job's directory is.
const PRIVATE: u32 = 0o700;

pub fn private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(PRIVATE).create(directory)
}

/// A path of the description, below the job's own directory. The description was checked: another is nobody's.
fn below(path: &str) -> Result<&Path, TransferError> {
    in_job_directory(path)
        .map(Path::new)
        .ok_or_else(|| TransferError::Local {
            doing: "looking for",
            path: PathBuf::from(path),
            cause: ErrorKind::InvalidInput.into(),
        })
}

fn open(directory: &Path) -> Result<Dir, TransferError> {
    Dir::open(directory).map_err(TransferError::local("opening", directory))
}

/// Makes the directories above `path`; what is there already is used, if it is a directory.
fn make_above(dir: &Dir, path: &Path) -> io::Result<()> {
    let above = path.parent().unwrap_or(Path::new(""));
    let mut made = PathBuf::new();
    for part in above.components() {
        made.push(part);
        match dir.mkdir(&made, PRIVATE) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    Ok(())
}

/// Makes a directory, if it is not there.
pub fn make(directory: &Path, path: &str) -> Result<Dir, TransferError> {
    let path = below(path)?;
    let dir = open(directory)?;
    make_above(&dir, &path.join("-")).map_err(TransferError::local("making", path))?;
    // What is there may be a file.
    dir.open_dir(path)
        .map_err(TransferError::local("making", path))
}

pub fn remove(directory: &Path, paths: &[String]) -> Result<(), TransferError> {
    let dir = open(directory)?;
    for path in paths {
        let path = below(path)?;
        match dir.remove_all(path) {
            // A directory above it is gone, or is none.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            done => done.map_err(TransferError::local("removing", path))?,
        }
    }
    Ok(())
}

/// A file that the job has made. Links are not followed: what they lead to is not the job's.
pub fn made(directory: &Path, path: &str) -> Result<File, TransferError> {
    let path = below(path)?;
    let not_made = |cause| TransferError::NotMade {
        path: path.to_owned(),
        cause,
    };
    let file = open(directory)?.open_file(path).map_err(not_made)?;
    match file.metadata().map_err(not_made)?.is_file() {
        true => Ok(file),
        false => Err(TransferError::NotAFile {
            path: path.to_owned(),
        }),
    }
}

/// A new file in the job's directory, in place of what is there.
pub fn create(directory: &Path, path: &str) -> Result<File, TransferError> {
    let path = below(path)?;
    let dir = open(directory)?;
    let create = || {
        make_above(&dir, path)?;
        dir.remove_all(path)?;
        dir.create_file(path, 0o600)
    };
    create().map_err(TransferError::local("writing", path))
}

/// The directory of ours for what of a job is under way.
pub fn under_way(ours: &Path, job: JobId) -> PathBuf {
    ours.join(job.to_string())
}

pub fn forget(ours: &Path, job: JobId) -> Result<(), TransferError> {
    let path = under_way(ours, job);
    Dir::open(ours)
        .and_then(|dir| dir.remove_all(job.to_string()))
        .map_err(TransferError::local("removing", &path))
}

/// A name for what belongs to an item: `in-3`.
pub fn name_of(item: Item) -> String {
    match item {
        Item::Executable => "executable".to_owned(),
        Item::Stdin => "stdin".to_owned(),
        Item::In(index) => format!("in-{index}"),
        Item::Shared(index) => format!("shared-{index}"),
        Item::Stdout(index) => format!("stdout-{index}"),
        Item::Stderr(index) => format!("stderr-{index}"),
        Item::Out(index) => format!("out-{index}"),
        Item::CleanUp => "clean-up".to_owned(),
    }
}

/// Gives a whole file its name in the job's directory, durably; what was there is replaced.
pub fn install(part: &Path, directory: &Path, path: &str, mode: u32) -> Result<(), TransferError> {
    let path = in_job_directory(path).map_or_else(|| Path::new(path), Path::new);
    let (Some(above), Some(name)) = (part.parent(), part.file_name()) else {
        return Err(TransferError::Local {
            doing: "moving",
            path: part.to_owned(),
            cause: ErrorKind::InvalidInput.into(),
        });
    };
    let install = || {
        let (from, dir) = (Dir::open(above)?, Dir::open(directory)?);
        from.set_mode(name, mode)?;
        from.open_file(name)?.sync_all()?;
        make_above(&dir, path)?;
        match from.rename(name, &dir, path) {
            // A guest of an earlier attempt, or the upload, has a directory there.
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                dir.remove_all(path)?;
                from.rename(name, &dir, path)?;
            }
            done => done?,
        }
        match path.parent().filter(|above| !above.as_os_str().is_empty()) {
            Some(above) => dir.open_dir(above)?.sync(),
            None => dir.sync(),
        }
    };
    install().map_err(TransferError::local("writing", path))
}
