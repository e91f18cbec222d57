//! libgridrpc (ring 3): the C interface of the GridRPC standard, as bindings/c/kumiko/grpc.h has it. The entries with a variable
//! number of arguments are c/entries.c; `entries` and `addresses` are the others, `sessions` what they do; `functions` calls the caller's.
//!
//! Not here: argument stacks of the standard, handle arrays, attributes, remote objects; the conversation (kumiko-rpc-client).

mod addresses;
mod codes;
mod entries;
mod functions;
mod outputs;
mod sessions;
