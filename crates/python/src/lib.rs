//! The native half of the package `kumiko` for Python (ring 3; bindings/python is the other half): sites, routines, and calls of
//! them with what lies in Python's buffers. No thread of the runtime touches Python.
//!
//! Not here: futures, asyncio, exceptions (bindings/python); the conversation (kumiko-rpc-client).

mod arguments;
mod bind;
mod buffers;
mod call;
mod errors;
mod functions;
mod links;
mod nested;
mod pieces;
mod place;
mod progress;
mod routine;
mod runtime;
mod site;

use pyo3::pymodule;

#[pymodule]
mod _kumiko {
    #[pymodule_export]
    use super::call::{Call, Completions};
    #[pymodule_export]
    use super::links::Links;
    #[pymodule_export]
    use super::pieces::Piece;
    #[pymodule_export]
    use super::progress::Progress;
    #[pymodule_export]
    use super::routine::Routine;
    #[pymodule_export]
    use super::site::Site;

    /// The table of errors, as TOML.
    #[pymodule_export]
    const ERRORS: &str = include_str!("../../../spec/errors.toml");
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
