//! The only crate that speaks to the kernel.
pub mod detach;
pub mod poll;
pub mod spooling;
