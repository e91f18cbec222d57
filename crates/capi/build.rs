//! Compiles the entries that take a variable number of arguments, which Rust cannot define.

fn main() {
    println!("cargo:rerun-if-changed=c/entries.c");
    println!("cargo:rerun-if-changed=../../bindings/c/kumiko/grpc.h");
    cc::Build::new()
        .file("c/entries.c")
        .include("../../bindings/c/kumiko")
        .warnings(true)
        .compile("gridrpc_entries");
}
