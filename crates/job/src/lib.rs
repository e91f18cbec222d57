//! Meaning of jobs (ring 0): what a job is, what happens to it, what its parts owe each other.
//! No I/O, no clock, no runtime: times come in as arguments, effects go out as values.
//!
//! An [`event::Event`] is a fact; [`state::apply`] makes the next state of it; [`decide::decide`] says what a state asks to
//! be done; [`respond::respond`] says which events follow from what a client or a runner says. Recovery is replay.

pub mod admission;
pub mod attempt;
pub mod barrier;
pub mod census;
pub mod contract;
pub mod decide;
pub mod description;
pub mod event;
pub mod explain;
pub mod hold;
pub mod id;
pub mod limits;
pub mod placement;
pub mod rerun;
pub mod respond;
pub mod rsl;
pub mod staging;
pub mod state;
pub mod together;
pub mod transfer;
pub mod url;
pub mod validate;
pub mod validate_staging;
