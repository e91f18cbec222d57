//! Folders in and out, as tar archives (spec/rest F1 to F6): [`pack`], [`unpack`], and both as streams of bytes.
//!
//! A tree is touched by descriptor only, beneath its root and through no link (`kumiko_linux::Dir`): whoever wrote the
//! archive, or changes the tree meanwhile, cannot lead us out of it. Nothing is held whole in memory.
//!
//! Not here: where folders are, who may have them, other machines (GASS, gsiftp).

mod error;
mod limits;
mod pack;
mod stream;
mod unpack;

pub use error::StagingError;
pub use limits::Limits;
pub use pack::{Packed, mark, pack};
pub use stream::{PIECE_BYTES, Packing, Unpacking};
pub use unpack::{Unpacked, unpack};
