//! The gatekeeper: accept, authenticate, authorise, map, hand over (design: "front").
//!
//! One port, mutual TLS; ALPN tells the doors apart: `kumiko/1` is the session (spec/services), `h2` and
//! `http/1.1` are REST (spec/rest), none is GRAM (spec/gram). Everything is bounded before it is
//! known who speaks, and one connection's failure is that connection's alone.
//!
//! Not here: jobs (the `Jobs` contract), certificates (kumiko-identity), frames (kumiko-session).

mod admit;
mod agent;
mod bounds;
mod channel;
mod config;
mod desk;
mod doors;
mod files;
mod front;
mod gram;
mod keys;
mod meter;
pub mod monitor;
mod refused;
mod relay;
mod rest;
mod session;

pub use agent::{Agent, AgentEnd};
pub use config::{Config, Limits, Service};
pub use front::{Front, FrontError};
pub use gram::{Gram, Uncache};
pub use keys::KeysError;
pub use refused::Refused;
pub use relay::Relay;
