//! Python's values as the arguments of one call. Not here: which is for which parameter (`bind`).

use crate::bind::{Values, parameter, wrong};
use crate::buffers::{Held, name};
use crate::errors;
use crate::nested::Nested;
use bytes::Bytes;
use kumiko_idl::{ElementType, HEAD_BYTES, Head, Parameter, Placed, Signature, Value};
use kumiko_rpc_client::{Argument, Arguments, Carried, Told, pack, pick, plan};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::path::PathBuf;

/// The arguments, and of INOUT arrays of which only a part travels the whole ones, as the formals.
pub struct Taken {
    pub arguments: Arguments,
    pub heads: Vec<Head>,
    pub wholes: Vec<Whole>,
}

/// What an array was before the call.
#[derive(Clone, Debug, Default)]
pub enum Whole {
    #[default]
    Unknown,
    Array(Bytes),
    Texts(Vec<Option<Bytes>>),
}

/// An array of texts, or of names of files.
enum List {
    Texts(Nested<Option<Bytes>>),
    Files(Nested<PathBuf>),
}

impl List {
    fn get(parameter: &Parameter, value: &Bound<'_, PyAny>) -> Result<List, String> {
        let dimensions = parameter.dims.len();
        match parameter.element {
            ElementType::String => Nested::get(value, dimensions, "texts", &text).map(List::Texts),
            _ => Nested::get(value, dimensions, "files", &path).map(List::Files),
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            List::Texts(texts) => &texts.shape,
            List::Files(files) => &files.shape,
        }
    }
}

/// `copy`: what is given may change before the call is over.
pub fn take(
    py: Python<'_>,
    signature: &Signature,
    told: &[Told],
    values: &Values<'_>,
    copy: bool,
) -> PyResult<Taken> {
    let mut lists: Vec<Option<List>> = Vec::with_capacity(values.len());
    let mut held: Vec<Option<Held>> = Vec::with_capacity(values.len());
    let mut given: Vec<Argument> = Vec::with_capacity(values.len());
    for (formal, value) in signature.formals.iter().zip(values) {
        let (argument, array) = match (parameter(formal), value) {
            (None, Some(function)) if !function.is_callable() => {
                let what = format!("{} is no function", function.get_type());
                return Err(wrong(py, signature, formal.name(), what));
            }
            (Some(one), Some(value)) if one.is_scalar() && one.element == ElementType::Filename => {
                let path = path(value).map_err(|what| wrong(py, signature, &one.name, what))?;
                let file = Carried::new(one.mode, &path).map(Argument::File);
                (file.map_err(|error| errors::rpc(py, &error))?, None)
            }
            (Some(one), Some(value)) if one.is_scalar() => {
                let argument = scalar(one, value);
                let argument = argument.map_err(|what| wrong(py, signature, &one.name, what))?;
                (argument, None)
            }
            (Some(one), Some(_)) if one.element.bytes().is_none() => (Argument::Nothing, None),
            (Some(one), Some(value)) => {
                let array = Held::get(value).map_err(|_| {
                    let kind = value.get_type();
                    let what = format!(
                        "{kind} is no array: give numpy.array(..., dtype={:?})",
                        name(one.element)
                    );
                    wrong(py, signature, &one.name, what)
                })?;
                (Argument::Nothing, Some(array))
            }
            _ => (Argument::Nothing, None),
        };
        let list = match (parameter(formal), value) {
            (Some(one), Some(value)) if one.element.bytes().is_none() && !one.is_scalar() => {
                let list = List::get(one, value);
                Some(list.map_err(|what| wrong(py, signature, &one.name, what))?)
            }
            _ => None,
        };
        lists.push(list);
        given.push(argument);
        held.push(array);
    }
    for one in told {
        if values.get(one.scalar).is_some_and(Option::is_some) {
            continue;
        }
        let array = held.get(one.array).and_then(Option::as_ref);
        let shape = array.map(|array| array.shape()).or_else(|| {
            let list = lists.get(one.array).and_then(Option::as_ref);
            list.map(List::shape)
        });
        let size = shape.and_then(|shape| shape.get(one.dimension));
        if let (Some(size), Some(argument)) = (size, given.get_mut(one.scalar)) {
            *argument = Argument::Number(Value::Integer(*size as i128));
        }
    }
    let formals = || signature.formals.iter().map(parameter);
    for (one, argument) in formals().zip(&given) {
        let Some(one) = one else { continue };
        if one.mode.is_in() && one.is_scalar() && matches!(argument, Argument::Nothing) {
            let what = "no array tells it: give it".to_owned();
            return Err(wrong(py, signature, &one.name, what));
        }
    }
    let sizes = plan(signature, &given).map_err(|error| errors::rpc(py, &error))?;
    let mut wholes = vec![Whole::Unknown; values.len()];
    for (index, ((one, place), list)) in formals().zip(&sizes.places).zip(lists).enumerate() {
        let (Placed::Many { array, .. }, Some(list), Some(one)) = (place, list, one) else {
            continue;
        };
        let sizes: Vec<u64> = array.sections.iter().map(|section| section.size).collect();
        let shape = list.shape();
        if !shape
            .iter()
            .map(|size| *size as u64)
            .eq(sizes.iter().copied())
        {
            let what = format!("its shape is {shape:?}, and it takes {sizes:?}");
            return Err(wrong(py, signature, &one.name, what));
        }
        let argument = match list {
            List::Texts(texts) => {
                let picked = pick(array, &texts.all).unwrap_or_default();
                if let Some(whole) = wholes.get_mut(index) {
                    *whole = Whole::Texts(texts.all);
                }
                Argument::Texts(picked)
            }
            List::Files(files) => {
                let names = pick(array, &files.all).unwrap_or_default();
                let files = names.iter().map(|name| Carried::new(one.mode, name));
                let files: Result<Vec<Carried>, _> = files.collect();
                Argument::Files(files.map_err(|error| errors::rpc(py, &error))?)
            }
        };
        if let Some(place) = given.get_mut(index) {
            *place = argument;
        }
    }
    for (index, ((one, place), array)) in formals().zip(&sizes.places).zip(held).enumerate() {
        let (Placed::Array { array: of, .. }, Some(array), Some(one)) = (place, array, one) else {
            continue;
        };
        array
            .check(one.element, &of.sections)
            .map_err(|what| wrong(py, signature, &one.name, what))?;
        let whole = of.moved == of.elements;
        let bytes = match (whole, copy) {
            (true, false) => array.into_bytes(),
            (true, true) => Bytes::copy_from_slice(array.bytes()),
            (false, _) => {
                if let (true, Some(place)) = (one.mode.is_out(), wholes.get_mut(index)) {
                    *place = Whole::Array(Bytes::copy_from_slice(array.bytes()));
                }
                pack(of, array.bytes()).unwrap_or_default()
            }
        };
        if let Some(argument) = given.get_mut(index) {
            *argument = Argument::Array(bytes);
        }
    }
    let arguments = Arguments::new(signature, &given).map_err(|error| errors::rpc(py, &error))?;
    let heads =
        kumiko_rpc_client::heads(signature, &given).map_err(|error| errors::rpc(py, &error))?;
    Ok(Taken {
        arguments,
        heads,
        wholes,
    })
}

fn scalar(parameter: &Parameter, value: &Bound<'_, PyAny>) -> Result<Argument, String> {
    let takes = |_| {
        format!(
            "{} is given, and it takes {}",
            value.get_type(),
            name(parameter.element)
        )
    };
    match parameter.element {
        ElementType::String => text(value).map(Argument::Text),
        ElementType::Complex64 | ElementType::Complex128 => {
            let part = |name| value.getattr(name).and_then(|part| part.extract::<f64>());
            let real = part("real").map_err(takes)?;
            let imaginary = part("imag").map_err(takes)?;
            let mut head = [0; HEAD_BYTES];
            let bytes: Vec<u8> = match parameter.element {
                // C rounds so too.
                ElementType::Complex64 => [real as f32, imaginary as f32]
                    .into_iter()
                    .flat_map(f32::to_le_bytes)
                    .collect(),
                _ => [real, imaginary]
                    .into_iter()
                    .flat_map(f64::to_le_bytes)
                    .collect(),
            };
            head.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            Ok(Argument::Head(head))
        }
        element if element.is_real() => {
            let number = value.extract().map_err(takes)?;
            Ok(Argument::Number(Value::Real(number)))
        }
        _ => {
            let number: i128 = value.extract().map_err(takes)?;
            Ok(Argument::Number(Value::Integer(number)))
        }
    }
}

fn path(value: &Bound<'_, PyAny>) -> Result<PathBuf, String> {
    let path = value.extract();
    path.map_err(|_| format!("{} is given, and it takes a path", value.get_type()))
}

pub fn text(value: &Bound<'_, PyAny>) -> Result<Option<Bytes>, String> {
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(Bytes::copy_from_slice(bytes.as_bytes())));
    }
    let text = value.cast::<PyString>().map_err(|_| {
        let kind = value.get_type();
        format!("{kind} is given, and it takes str, bytes or None")
    })?;
    if let Ok(text) = text.to_str() {
        return Ok(Some(Bytes::copy_from_slice(text.as_bytes())));
    }
    // As a text that came back, and was not UTF-8, is known here.
    let bytes = text.call_method1("encode", ("utf-8", "surrogateescape"));
    let bytes: Result<Vec<u8>, PyErr> = bytes.and_then(|bytes| bytes.extract());
    let bytes = bytes.map_err(|error| error.to_string())?;
    Ok(Some(Bytes::from(bytes)))
}
