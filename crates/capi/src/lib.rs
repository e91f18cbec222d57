//! libgridrpc (ring 3): the C interface of the GridRPC standard, as bindings/c/kumiko/grpc.h has it. The entries with a variable
//! number of arguments are c/entries.c; `entries`, `addresses`, `stacks`, `attributes`, `session_attributes` and `info` are the
//! others, `sessions` what they do; `functions` calls the caller's.
//!
//! Not here: remote objects; the conversation (kumiko-rpc-client).

mod addresses;
mod attributes;
mod codes;
mod entries;
mod functions;
mod info;
mod memory;
mod outputs;
mod session_attributes;
mod sessions;
mod stacks;
