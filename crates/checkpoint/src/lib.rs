//! Checkpoints (ring 0, spec/checkpoint): what lies in the files of one, which files together are one, which may go, and how
//! often one is made; and which CRIU does for what links nothing. Bytes are read and written through `std::io`'s traits. Not here: files, memory, threads.

mod chain;
mod criu;
mod head;
mod interval;

pub use chain::{Kept, MOST_FILES, Name, apply, file_name, is_file_name};
pub use criu::{Criu, Kernel, LEAST, LINE_MOST_BYTES, Unfit};
pub use head::{
    BLOCK_MOST_BYTES, BadCheckpoint, Block, Head, MOST_BLOCKS, MOST_STATES, NAME_MOST_BYTES, State,
    sum, sum_of,
};
pub use interval::{FAILURES_VARIABLE, MOST, OFTEN, expected_cost, interval};

/// In a program's folder: it is to make a checkpoint before it ends (spec/checkpoint, K38).
pub const LEAVE: &std::ffi::CStr = c"leave";

/// A program that links the library has these bytes (spec/checkpoint, K40).
pub const MARK: [u8; 28] = *b"kumiko checkpoint library 1\n";

/// Whether these are the bytes of such a program.
pub fn links_library(program: &[u8]) -> bool {
    program.windows(MARK.len()).any(|window| window == MARK)
}
