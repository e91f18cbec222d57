//! The `BatchSystem` contract's implementations, of equal shape. Ring 2.
//!
//! `fork` runs attempts on this machine, as children of the site. `slurm` and `condor` hand them to an engine, by its own
//! commands; what these have in common is `engine`; `pilots` hold slots of one for many attempts. Whatever starts it, beside a guest is always a runner in a spool.

mod able;
pub mod census;
pub mod chosen;
pub mod condor;
pub mod engine;
pub mod fork;
mod link;
pub mod pilots;
pub mod slurm;
mod spool;

pub use engine::Cluster;
pub use engine::tool::Tools;
pub use kumiko_ferry::Address as LandingAddress;
