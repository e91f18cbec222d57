//! A digest of the sources that make a mechanism's costs: what was measured with others does not hold.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// This crate, and what it stands on.
const SOURCES: [&str; 4] = ["src", "../linux/src", "../preload/src", "../preload/guest"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
        below(Path::new(folder), &mut files)?;
    }
    files.sort();
    // FNV-1a.
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in fs::read(file)? {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=KUMIKO_SANDBOX_DIGEST={sum:016x}");
    Ok(())
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
