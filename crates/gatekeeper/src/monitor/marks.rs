//! Which accounts have an agent that has something to do, for the monitor that comes after this one: a file of the
//! account's name in a directory of root's (spec/monitor, M7).

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Marks(PathBuf);

impl Marks {
    pub fn open(folder: &Path) -> io::Result<Marks> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        Ok(Marks(folder.to_owned()))
    }

    pub fn all(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            // A name that is no text is nobody's.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    pub fn set(&self, account: &str) {
        if let Err(cause) = File::create(self.0.join(account)) {
            tracing::warn!(account, %cause, "its agent will not be started by the next monitor");
        }
    }

    pub fn clear(&self, account: &str) {
        match std::fs::remove_file(self.0.join(account)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(account, %cause, "its agent will be started once for nothing");
            }
            _ => {}
        }
    }
}
