//! What `kumiko` does before the rest of it is loaded (docs/decisions/0005-entry.md): a command in a sandbox has to start
//! in little more than the kernel's time, and what a grid needs (OpenSSL, a runtime, a parser of many commands) takes more
//! than that to load.
//!
//! [`line`] knows the one command line that is carried out here; [`sandbox`] carries it out, for kumiko-grid too.
//! Not here: any other command.

pub mod line;
pub mod sandbox;
pub mod wishes;
