//! A small disk of its own for a person's site, which can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Written at once as long as there is so much room.
const PIECE_BYTES: usize = 1 << 20;
/// The least that a file takes (tmpfs(5)).
const PAGE_BYTES: usize = 4096;

/// Taken off at the end.
#[derive(Debug)]
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// None: it cannot be mounted.
    pub fn at(folder: &Path, options: &str) -> Option<Disk> {
        fs::create_dir_all(folder).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder)
            .output();
        let mounted = mount.is_ok_and(|output| output.status.success());
        mounted.then(|| Disk(folder.to_owned()))
    }

    /// To the last byte, until what this gives is removed.
    pub fn fill(&self) -> PathBuf {
        let filler = self.0.join("filler");
        let mut file = File::create(&filler).unwrap();
        for bytes in [PIECE_BYTES, PAGE_BYTES] {
            let piece = vec![0; bytes];
            while file.write_all(&piece).is_ok() {}
        }
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
