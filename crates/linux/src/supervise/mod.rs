//! What a supervisor of guests needs of the kernel where there are no namespaces: calls that wait for an answer
//! ([`listener`]) or stop ([`tracee`]), their memory ([`memory`]), words that they cannot change ([`sealed`]), calls made
//! in a guest's place ([`calls`], [`sockets`]), by arguments that the kernel takes ([`arguments`]), that can be broken off
//! ([`breakable`]), domains as walls ([`domain`]), and
//! the processes of such a room ([`spawn`]). x86_64, for numbers and registers.
//! Not in it: which call means what, and what a guest may do (kumiko-sandbox).

pub mod arguments;
pub mod breakable;
pub mod calls;
pub mod counters;
pub mod domain;
mod errno;
pub mod listener;
pub mod memory;
pub mod sealed;
pub mod sockets;
pub mod spawn;
pub mod stub;
pub mod tracee;

pub use errno::Errno;

/// A system call as the registers have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub number: i32,
    pub arguments: [u64; 6],
}
