//! Compiles what has a variable number of arguments, which Rust cannot define: entries, and calls of the caller's functions; and
//! handlers of signals.

fn main() {
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-changed=../../bindings/c/kumiko/grpc.h");
    cc::Build::new()
        .files(["c/entries.c", "c/callbacks.c", "c/refused.c", "c/signals.c"])
        .include("../../bindings/c/kumiko")
        .warnings(true)
        .compile("gridrpc_entries");
}
