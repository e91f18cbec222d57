//! The `BatchSystem` contract's implementations, one folder each and of equal shape. Ring 2.
//!
//! `fork` runs attempts on this machine, as children of the site. Slurm and HTCondor come in a later step.

pub mod fork;
