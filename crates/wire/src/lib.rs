//! Bytes on the wire: session frames, runner messages, requests; what front and agent tell each other.
pub mod runner;
pub mod spool;

pub mod api;
pub mod exec;
pub mod frame;
pub mod relay;
pub mod target;
