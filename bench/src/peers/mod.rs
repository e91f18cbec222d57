//! The programs that people use now, brought up for one run in throw-away places.

pub mod bubblewrap;
pub mod raw_tls;
pub mod slapd;
pub mod ssh;

use crate::fail::{Failure, While};
use std::net::TcpListener;
use std::path::PathBuf;

/// A program by its full path, which sshd wants of itself. Daemons stand where an ordinary user's PATH does not look.
pub fn found(program: &'static str, package: &'static str) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|p| p.is_file())
        .ok_or(Failure::NoPeer { program, package })
}

/// Free a moment ago; whoever takes it in between makes the peer fail with a clear word.
pub fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").doing(|| "looking for a free port")?;
    Ok(listener
        .local_addr()
        .doing(|| "looking for a free port")?
        .port())
}
