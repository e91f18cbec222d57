//! Meaning of jobs (ring 0): what a job is, what happens to it, what its parts owe each other.
//! No I/O, no clock, no runtime: times come in as arguments, effects go out as values.

pub mod attempt;
pub mod contract;
pub mod description;
pub mod id;
