//! Memory that several processes share by a descriptor. Not in it: what lies there.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io;

/// So many bytes of zeros. The name is what `/proc/PID/maps` shows.
pub fn memory(name: &str, bytes: u64) -> io::Result<File> {
    let memory = memfd_create(name, MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, bytes)?;
    Ok(File::from(memory))
}
