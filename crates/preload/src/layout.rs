//! Where the library lies in a guest, and what stands where: one place for both sides. Everything is at a fixed address,
//! so that a filter can name its one instruction that makes calls. Not in it: what lies in the table (table.rs).

/// Far from what programs, their heaps, stacks and libraries are given by the kernel, and from the places that the
/// address, memory and thread sanitizers of LLVM keep for themselves.
pub const ADDRESS: u64 = 0x4a5b_0000_0000;
/// Code and constants; what the linker script leaves room for.
pub const CODE_BYTES: u64 = 0x8000;
/// What changes: an arrival, pages that were seen to be readable.
pub const DATA: u64 = ADDRESS + CODE_BYTES;
pub const DATA_BYTES: u64 = 0x1000;
/// What all programs of the job share (rate.rs), where the library keeps a rate; else a page of zeros.
pub const SHARED: u64 = DATA + DATA_BYTES;
/// The places of a view.
pub const TABLE: u64 = SHARED + PAGE_BYTES;
pub const PAGE_BYTES: u64 = 0x1000;

/// Offsets in the image's head, words of 64 bits.
pub const HEAD_INIT: usize = 0;
/// The address after the one instruction that makes calls.
pub const HEAD_GATE: usize = 8;
pub const HEAD_HOWS: usize = 16;
pub const HEAD_HOWS_END: usize = 24;
pub const HEAD_BYTES: usize = 32;
/// A struct open_how each, and eight bytes of nothing.
pub const HOW_BYTES: usize = 32;

/// An arrival, at [`DATA`]: the instruction that the program begins with, how many of its bytes were changed, what they
/// were, how long the table is, and the descriptor of the shared page, which is not left open, or -1.
pub const ARRIVAL_ENTRY: usize = 0;
pub const ARRIVAL_COUNT: usize = 8;
pub const ARRIVAL_TABLE_BYTES: usize = 16;
pub const ARRIVAL_SHARED: usize = 24;
pub const ARRIVAL_SAVED: usize = 32;
pub const ARRIVAL_SAVED_MOST: usize = 104;
pub const ARRIVAL_BYTES: usize = ARRIVAL_SAVED + ARRIVAL_SAVED_MOST;
/// Pages seen, after the arrival.
pub const SEEN: u64 = DATA + 0x400;
pub const SEEN_COUNT: u64 = 128;
/// Hashes of paths whose files were seen to be no devices, after those.
pub const HARMLESS: u64 = SEEN + 8 * SEEN_COUNT;
pub const HARMLESS_COUNT: u64 = 128;
