//! Files in and out.
//!
//! * [`pack`], [`unpack`], and both as streams of bytes: folders as tar archives (spec/rest F1 to F7)
//! * [`gass`]: files over HTTPS, as Globus moves them; client and server (spec/staging G1 to G9)
//! * [`cache`]: what is fetched once for many (C1 to C6)
//! * [`stock`]: what came before, by its SHA-256 (C10 to C15)
//! * [`Mover`]: all that for jobs, behind `kumiko_job::transfer::Transfer` (S1 to S12)
//!
//! A tree is touched by descriptor only, beneath its root and through no link (`kumiko_linux::Dir`): whoever wrote the
//! archive, or changes the tree meanwhile, cannot lead us out of it. Nothing is held whole in memory.
//!
//! Not here: when a job's files are moved (`kumiko_job::staging`), who may have them (gatekeeper, manager).

pub mod cache;
mod error;
mod fault;
pub mod gass;
mod jobs;
mod limits;
mod pack;
pub mod stock;
mod stream;
mod sums;
mod unpack;

pub use error::StagingError;
pub use fault::TransferError;
pub use jobs::{Mover, Setup};
pub use limits::Limits;
pub use pack::{Packed, mark, pack};
pub use stream::{PIECE_BYTES, Packing, Unpacking};
pub use sums::{BIG_BYTES, Sums};
pub use unpack::{Unpacked, unpack, unpack_with};
