//! libgridrpc (ring 3): the C interface of the GridRPC standard, as bindings/c/kumiko/grpc.h has it. The entries with a variable
//! number of arguments are c/entries.c; `entries`, `addresses`, `stacks`, `attributes`, `session_attributes`, `info` and `signals` are
//! the others, `sessions` what they do; `functions` calls the caller's; `loans` are its arrays; `refused` says what there is not.
//!
//! Not here: the conversation (kumiko-rpc-client).

mod addresses;
mod aside;
mod attributes;
mod codes;
mod entries;
mod functions;
mod info;
mod limits;
mod loans;
mod memory;
mod outputs;
mod refused;
mod session_attributes;
mod sessions;
mod signals;
mod stacks;
