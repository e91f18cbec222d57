//! Bytes on the wire: session frames, runner messages, requests.
pub mod runner;
pub mod spool;

pub mod api;
pub mod exec;
pub mod frame;
pub mod target;
