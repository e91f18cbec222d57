//! Bytes on the wire: session frames, runner messages, requests; what front and agent tell each other.
pub mod meeting;
pub mod pilot;
pub mod runner;
pub mod spool;

pub mod api;
pub mod exec;
pub mod frame;
pub mod gram;
pub mod monitor;
pub mod relay;
pub mod routine;
pub mod rpc;
pub mod target;
