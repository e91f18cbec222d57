//! Which of Python's arguments is for which parameter. Not here: whether it can be (`arguments`).

use crate::errors;
use kumiko_idl::{ElementType, Formal, Mode, Parameter, Signature};
use kumiko_rpc_client::{RpcError, Told};
use pyo3::PyErr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// As the formals.
pub type Values<'py> = Vec<Option<Bound<'py, PyAny>>>;

pub fn wrong(py: Python<'_>, signature: &Signature, parameter: &str, what: String) -> PyErr {
    let error = RpcError::Argument {
        routine: format!("{}/{}", signature.module, signature.name),
        parameter: parameter.to_owned(),
        what,
    };
    errors::rpc(py, &error)
}

pub fn parameter(formal: &Formal) -> Option<&Parameter> {
    match formal {
        Formal::Parameter(parameter) => Some(parameter),
        Formal::Callback(_) => None,
    }
}

/// What Python gives: what goes in, names of files, functions.
pub fn is_given(formal: &Formal) -> bool {
    match formal {
        Formal::Parameter(one) => {
            one.mode.is_in() || (one.mode != Mode::Work && one.element == ElementType::Filename)
        }
        Formal::Callback(_) => true,
    }
}

/// By name first, the others in order; sizes that arrays tell may all be left out.
pub fn bind<'py>(
    signature: &Signature,
    told: &[Told],
    given: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Values<'py>> {
    let py = given.py();
    let mut values: Values<'py> = vec![None; signature.formals.len()];
    let is_told = |index: &usize| told.iter().any(|one| one.scalar == *index);
    let is_told_name = |name: &str| {
        let mut formals = signature.formals.iter().enumerate();
        formals.any(|(index, formal)| formal.name() == name && is_told(&index))
    };
    for (name, value) in named.into_iter().flatten() {
        let name: String = name.extract()?;
        let mut formals = signature.formals.iter().zip(&mut values);
        let found = formals.find(|(formal, _)| formal.name() == name && is_given(formal));
        match found {
            // Left out, as the signature shows it.
            Some((formal, _)) if value.is_none() && is_told_name(formal.name()) => {}
            Some((_, place)) => *place = Some(value),
            None => {
                let what = "nothing of this name goes in".to_owned();
                return Err(wrong(py, signature, &name, what));
            }
        }
    }
    let open: Vec<usize> = (0..values.len())
        .filter(|index| {
            signature.formals.get(*index).is_some_and(is_given)
                && values.get(*index).is_some_and(Option::is_none)
        })
        .collect();
    let places: Vec<usize> = match open.len() == given.len() {
        true => open,
        false => {
            let untold: Vec<usize> = open
                .iter()
                .copied()
                .filter(|index| !is_told(index))
                .collect();
            if untold.len() != given.len() {
                let text = |index: &usize| {
                    let name = signature.formals.get(*index).map_or("", Formal::name);
                    match is_told(index) {
                        true => format!("[{name}]"),
                        false => name.to_owned(),
                    }
                };
                let names: Vec<String> = open.iter().map(text).collect();
                let what = format!(
                    "{} are given, and it takes ({}); what stands in brackets may be left out",
                    given.len(),
                    names.join(", ")
                );
                return Err(wrong(py, signature, "arguments", what));
            }
            untold
        }
    };
    for (place, value) in places.into_iter().zip(given) {
        if let Some(place) = values.get_mut(place) {
            *place = Some(value);
        }
    }
    Ok(values)
}
