//! GridRPC at a site (ring 2, spec/rpc): routines are made of IDL ([`make`]) and registered ([`registry`]), calls are taken on
//! streams of sessions ([`Calls`]), recorded, and computed by warm routines, which are attempts of a batch system.
//!
//! What a call is and what follows from what is said is `kumiko-call`'s; `book` keeps it, with its log; `pool` and `worker` run
//! routines; `talk` speaks with clients. Not here: other hosts; who the client is (the gatekeeper).

mod book;
mod callbacks;
mod calls;
mod checkpoints;
mod copied;
mod dumps;
mod log;
pub mod make;
mod orders;
mod pace;
mod pending;
mod pool;
pub mod registry;
mod store;
mod talk;
mod worker;

pub use calls::{Calls, Effective, OpenError, Reports, Setup};
