//! The only crate that speaks to the kernel (ring 1), and with `preload` and `capi` the only one with unsafe code.
//!
//! * [`cell`]: namespaces with programs in them
//! * [`Dir`]: directories by descriptor, which no link leads out of
//! * [`process`]: pidfds, signals, ends · [`signals`]: signals to be read · [`poll`]: epoll
//! * [`detach`], [`this_process`]: what this process is to others, and to itself
//! * [`terminal`]: sizes and raw mode · [`facts`]: file systems, network interfaces
//! * [`accounts`], [`privileges`], [`fence`], [`groups`]: who there is, becoming somebody, giving up more, groups of
//!   processes · [`packets`]: messages that carry descriptors
//! * `supervise`: guests whose calls are answered or rewritten
//! * [`dirty`]: pages of this process that were written
//! * [`limits`]: what limits of whole jobs are kept with
//! * [`spooling`]: splice, holes, locks · [`tcp`]: socket options · [`unix_socket`]: sockets at long paths ·
//!   [`watch`]: what appears in directories

pub mod accounts;
pub mod cell;
pub mod detach;
pub mod dir;
pub mod dirty;
pub mod facts;
pub mod fence;
pub mod groups;
pub mod limits;
pub mod mounts;
pub mod node;
pub mod packets;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod signals;
pub mod spooling;
#[cfg(target_arch = "x86_64")]
pub mod supervise;
pub mod tcp;
pub mod terminal;
pub mod this_process;
pub mod unix_socket;
pub mod watch;

pub use dir::Dir;

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// The path by which this process reaches what it has open (proc(5)); good as long as the descriptor is.
pub fn proc_path(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// Does this process run as the host's root (its effective user)?
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A symbolic link where none may be (ELOOP).
pub fn is_link_error(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// A system call that this kernel does not have (ENOSYS).
pub fn is_missing_call(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOSYS)
}
