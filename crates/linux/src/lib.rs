//! The only crate that speaks to the kernel.
