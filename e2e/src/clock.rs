//! A wall clock that a test moves for the programs that it starts so, by libfaketime; the clock that only runs (CLOCK_MONOTONIC) stays true.

use crate::{Person, has_program};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// It is set right when it is dropped: else nobody is let in to end what a failed test left.
#[derive(Debug)]
pub struct Clock {
    library: String,
    offset: PathBuf,
}

impl Clock {
    /// None: libfaketime is missing.
    pub fn new(person: &Person) -> Option<Clock> {
        if !has_program("faketime") {
            return None;
        }
        // faketime(1) finds its library in each Debian's own place.
        let library = Command::new("faketime")
            .args(["-f", "+0", "sh", "-c", "echo $LD_PRELOAD"])
            .output()
            .unwrap();
        let library = String::from_utf8(library.stdout).unwrap();
        Some(Clock {
            library: library.trim().to_owned(),
            offset: person.file("clock", "+0\n"),
        })
    }

    /// Of a program that goes by it.
    pub fn variables(&self) -> [(&'static str, OsString); 4] {
        [
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.clone().into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    /// It is set against ours.
    pub fn jump(&self, offset: &str) {
        self.set(offset).unwrap();
    }

    /// At once: a program that reads an empty file ends.
    fn set(&self, offset: &str) -> io::Result<()> {
        let next = self.offset.with_extension("next");
        std::fs::write(&next, format!("{offset}\n"))?;
        std::fs::rename(next, &self.offset)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = self.set("+0"); // the person's home may be gone
    }
}
