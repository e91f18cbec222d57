//! The library of the mechanism `library`: an image of code that a supervisor puts into every program of a guest before
//! its first instruction, and the table of places that it decides by (spec/policy P21). The code itself is in guest/,
//! which uses the modules here, so that they are tested as any other; build.rs makes the image. Not in it: how it gets
//! into a guest (kumiko-sandbox).

pub mod layout;
pub mod rate;
pub mod sites;
pub mod table;

/// What stands at [`layout::ADDRESS`] in a guest, at most [`layout::CODE_BYTES`]; empty on other processors than x86_64.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.bin"));

/// A word of the image's head (`layout::HEAD_*`); 0 where there is no image.
pub fn head(offset: usize) -> u64 {
    IMAGE
        .get(offset..offset + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}
