//! Makes the image: guest/ is compiled without a standard library, linked to its fixed address, and taken as bytes.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    for input in ["guest", "src", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-check-cfg=cfg(kumiko_guest)");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (linked, image) = (out.join("image.elf"), out.join("image.bin"));
    if env::var("CARGO_CFG_TARGET_ARCH")? != "x86_64" {
        std::fs::write(image, [])?;
        return Ok(());
    }
    let archive = out.join("libkumiko_guest.a");
    let compiled = Command::new(env::var("RUSTC")?)
        .args(["--edition", "2024", "--crate-name", "kumiko_guest"])
        .args(["--crate-type", "staticlib", "--cfg", "kumiko_guest"])
        .args(["--target", &env::var("TARGET")?])
        .args(["-C", "panic=abort", "-C", "opt-level=2"])
        .args(["-C", "codegen-units=1", "-C", "relocation-model=pic"])
        .args(["-C", "debuginfo=0", "-C", "overflow-checks=no"])
        .args(["-C", "force-unwind-tables=no"])
        .arg("guest/main.rs")
        .arg("-o")
        .arg(&archive)
        .status()?;
    if !compiled.success() {
        return Err("guest/ was not compiled; the compiler says above why".into());
    }
    let compiler = env::var("CC").unwrap_or("cc".to_owned());
    let done = Command::new(&compiler)
        .args(["-nostdlib", "-static", "-no-pie", "-o"])
        .arg(&linked)
        .args(["-Wl,-T,guest/layout.ld", "-Wl,-z,noexecstack"])
        .args(["-Wl,--gc-sections", "-Wl,--build-id=none"])
        .arg(&archive)
        .status()
        .map_err(|error| format!("{compiler}: {error}: a C compiler links the image (CC)"))?;
    if !done.success() {
        return Err(format!("{compiler} did not link the image; it says above why").into());
    }
    std::fs::write(image, segment(&std::fs::read(linked)?)?)?;
    Ok(())
}

/// The one segment of an ELF file of 64 bits (elf(5)).
fn segment(elf: &[u8]) -> Result<&[u8], Box<dyn Error>> {
    let word = |at: usize| -> Result<usize, Box<dyn Error>> {
        let bytes = elf.get(at..at + 8).ok_or("the image has no header")?;
        Ok(u64::from_le_bytes(bytes.try_into()?).try_into()?)
    };
    let header = word(32)?;
    let (begin, bytes) = (word(header + 8)?, word(header + 32)?);
    let segment = elf.get(begin..begin + bytes);
    Ok(segment.ok_or("the image has no segment")?)
}
