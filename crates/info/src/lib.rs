//! The information service (spec/info): what hosts and sites are and do, told to indexes as it changes, answered from
//! memory to whoever asks, by LDAP and over sessions. Nothing on a query's way runs a provider or asks another server.
//!
//! Not here: what is known and how it is asked (`kumiko-directory`, pure).

mod client;
mod config;
mod desk;
mod error;
mod index;
mod keep;
mod ldap;
mod legacy;
mod metrics;
mod provider;
mod register;
mod rest;
mod server;
mod time;
mod uplink;

pub use client::{Answers, InfoClient};
pub use config::{Above, Allow, Config, External, Legacy, Limits, PORT, Place};
pub use error::{AskError, StartError};
pub use index::{Index, Inner};
pub use metrics::Counts;
pub use provider::{HostFacts, HostProvider};
pub use server::Server;
pub use time::{generalized, parse_generalized};
