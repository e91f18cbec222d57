//! Failures as Python's exceptions, which bindings/python makes of a code, a message and the table of errors.

use kumiko_call::event::Failure;
use kumiko_find::{CallError, FindError};
use kumiko_rpc_client::{ContactError, NoteError, RpcError};
use pyo3::PyErr;
use pyo3::prelude::*;

/// `detail`: the parameter that is wrong, or the name of the routine's own error.
fn made(py: Python<'_>, code: &str, message: &str, detail: Option<&str>) -> PyErr {
    let make = || {
        let maker = py.import("kumiko.errors")?.getattr("made")?;
        maker.call1((code, message, detail))
    };
    match make() {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

pub fn rpc(py: Python<'_>, error: &RpcError) -> PyErr {
    let detail = match error {
        RpcError::Failed {
            failure: Failure::Raised { error, .. },
            ..
        } => Some(error.as_str()),
        RpcError::Argument { parameter, .. } => Some(parameter.as_str()),
        RpcError::Arguments(plan) => match plan.as_ref() {
            kumiko_idl::PlanError::Size(size) => Some(size.parameter.as_str()),
            kumiko_idl::PlanError::LongCallback { callback, .. } => Some(callback.as_str()),
            kumiko_idl::PlanError::Rest { parameter, .. } => Some(parameter.as_str()),
            kumiko_idl::PlanError::Heads { .. } => None,
        },
        _ => None,
    };
    made(py, error.code(), &error.to_string(), detail)
}

pub fn call(py: Python<'_>, error: &CallError) -> PyErr {
    match error {
        CallError::Call(error) => rpc(py, error),
        CallError::Find(error) => found(py, error),
    }
}

pub fn found(py: Python<'_>, error: &FindError) -> PyErr {
    made(py, error.code(), &error.to_string(), None)
}

pub fn contact(py: Python<'_>, error: &ContactError) -> PyErr {
    made(py, error.code(), &error.to_string(), None)
}

pub fn note(py: Python<'_>, error: &NoteError) -> PyErr {
    made(py, error.code(), &error.to_string(), None)
}
